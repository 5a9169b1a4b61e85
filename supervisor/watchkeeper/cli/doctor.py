"""``watchkeeper doctor``: what is wrong here, and what to do about it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from .checkup import Finding, looked_at
from .exits import COMPLETED, FAILED
from .objects import print_object
from .printable import printable

if TYPE_CHECKING:
    from .checkup import Level

COLOURS: dict[Level, str] = {"ok": "32", "warn": "33", "fail": "31"}


def doctor(*, json: Annotated[bool, Parameter(help="Print a JSON object a line.")] = False) -> int:
    """Look at the installation, the configuration, the state folder and the service; a line for each, with the remedy.

    It changes nothing.
    """
    failed = False
    for finding in looked_at(os.environ):
        failed |= finding.level == "fail"
        if json:
            print_object(finding)
        else:
            print(_line(finding), flush=True)
    return FAILED if failed else COMPLETED


def _line(finding: Finding) -> str:
    level = f"{finding.level:<4}"
    if sys.stdout.isatty():
        level = f"\x1b[{COLOURS[finding.level]}m{level}\x1b[0m"
    remedy = f"\n{'':22}→ {printable(finding.remedy)}" if finding.remedy else ""
    return f"{level} {finding.what:<16} {printable(finding.detail)}{remedy}"
