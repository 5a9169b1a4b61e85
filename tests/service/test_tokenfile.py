"""Tokens in the control file."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchkeeper.engine import EngineError
from watchkeeper.journal.schema import CONTROL_FILE
from watchkeeper.service.tokenfile import TokenFile
from watchkeeper.service.tokens import Keyring, mint


def test_tokens_are_kept_between_processes_by_their_hash(tmp_path: Path) -> None:
    secret, token = mint("ops", ["run", "approve"], b"r" * 32, 1.5)
    _, other = mint("look", ["read"], b"l" * 32, 2.5)
    first = TokenFile(tmp_path)
    first.add_token(token)
    first.add_token(other)
    second = TokenFile(tmp_path)
    assert second.tokens() == [other, token]
    found = Keyring(second).principal(secret)
    assert found is not None
    assert (found.name, found.may("approve"), found.may("admin")) == ("ops", True, False)
    assert second.remove_token("ops")
    assert not second.remove_token("ops")
    assert first.tokens() == [other]
    first.close()
    second.close()
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.glob("**/*") if path.is_file())


def test_a_name_is_one_tokens(tmp_path: Path) -> None:
    store = TokenFile(tmp_path)
    store.add_token(mint("ops", ["run"], b"r" * 32, 1.0)[1])
    with pytest.raises(EngineError, match="there is a token ops already"):
        store.add_token(mint("ops", ["read"], b"x" * 32, 1.0)[1])
    store.close()


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / CONTROL_FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(EngineError, match=str(tmp_path)):
        TokenFile(tmp_path)


def test_scopes_of_a_newer_version_count_for_nothing(tmp_path: Path) -> None:
    store = TokenFile(tmp_path)
    store._connection.execute("INSERT INTO token VALUES (?, 'new', 'read fly', 1.0)", (b"h" * 32,))
    (token,) = store.tokens()
    assert token.scopes == ("read",)
    store.close()
