"""Terminal escapes in what tools return, taken out: what shows the text later is not steered by it. Pure."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but tab and line ends, with the 8-bit forms."""
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor: CSI
    "|(?:\x1b[P\\]X^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"  # titles, links, clipboard: OSC, DCS
)


def neutral(text: str) -> str:
    """The text without terminal sequences; control characters that are left become pictures of themselves (``␛``)."""
    if text.isprintable() or _CONTROL.search(text) is None:
        return text
    return _CONTROL.sub(_picture, _SEQUENCE.sub("", text))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
