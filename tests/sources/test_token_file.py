from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.sources.token_file import MAX_BYTES, read_token, tokens_in, usable_token

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = b"0123456789abcdef"


def test_token_of_now(tmp_path: Path) -> None:
    """The token is what the file has whenever it is asked for, without white space around it."""
    path = tmp_path / "token"
    path.write_bytes(TOKEN + b"\n")
    token = usable_token(str(path))
    assert token is not None
    path.write_bytes(b" " + TOKEN[::-1])

    assert TOKEN[::-1] == token()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "is empty"),
        (b"short", "shorter than 16 characters"),
        (b"two tokens of some length", "something else than one token"),
        (b"0123456789abcdef\0", "something else than one token"),
        (b"x" * (MAX_BYTES + 1), "larger than 16384 bytes"),
    ],
)
def test_no_token(tmp_path: Path, data: bytes, message: str) -> None:
    """What is no token is refused with a reason that does not show it."""
    path = tmp_path / "token"
    path.write_bytes(data)

    with pytest.raises(OperatorError, match=message) as caught:
        read_token(str(path))
    assert str(path) in str(caught.value)
    assert "tokens of some" not in str(caught.value)


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OperatorError, match="cannot be read: a pipe, not a regular file"):
        read_token(str(tmp_path / "pipe"))


def test_several_tokens(tmp_path: Path) -> None:
    """Each has a line, others are comments or empty; if one of them is none, none counts."""
    path = tmp_path / "tokens"
    path.write_bytes(b"# mine\n" + TOKEN + b"\r\n\n  # old\n " + TOKEN[::-1])
    found = tokens_in(str(path))
    path.write_bytes(TOKEN + b"\nshort\n")
    with pytest.raises(OperatorError, match="shorter than 16 characters"):
        tokens_in(str(path))

    assert (TOKEN, TOKEN[::-1]) == found
