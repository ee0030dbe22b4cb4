"""Files with a token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.sources.token_file import MAX_BYTES, TokenFile, tokens_in

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = b"0123456789abcdef"


def test_token_of_now(tmp_path: Path) -> None:
    """The token is what the file has whenever it is asked for, without white space around it."""
    path = tmp_path / "token"
    path.write_bytes(TOKEN + b"\n")
    file = TokenFile(str(path))
    first = file.token()
    path.write_bytes(b" " + TOKEN[::-1])

    assert TOKEN == first
    assert TOKEN[::-1] == file.token()
    assert TOKEN.decode() not in repr(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"short", "shorter than 16 characters"),
        (b"two tokens of some length", "something else than one token"),
        (b"0123456789abcdef\0", "something else than one token"),
        (b"\xff" * 20, "something else than one token"),
        (b"x" * (MAX_BYTES + 1), "larger than 16384 bytes"),
    ],
)
def test_no_token(tmp_path: Path, data: bytes, message: str) -> None:
    """What is no token is refused with a reason that does not show it."""
    path = tmp_path / "token"
    path.write_bytes(data)

    with pytest.raises(OperatorError, match=message) as caught:
        TokenFile(str(path)).token()
    assert str(path) in str(caught.value)
    assert "tokens of some" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there, or a directory, is said to be so."""
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(OperatorError, match="cannot be read"):
            TokenFile(str(path)).token()


def test_pipe(tmp_path: Path) -> None:
    """A pipe without a writer does not hold up anything."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OperatorError, match="a pipe, not a regular file"):
        TokenFile(str(tmp_path / "pipe")).token()


def test_several_tokens(tmp_path: Path) -> None:
    """Each has a line; others are comments, or empty."""
    path = tmp_path / "tokens"
    path.write_bytes(b"# mine\n" + TOKEN + b"\r\n\n  # old\n " + TOKEN[::-1])

    assert (TOKEN, TOKEN[::-1]) == tokens_in(str(path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# none\n\n", "is empty"),
        (TOKEN + b"\nshort\n", "shorter than 16 characters"),
        (TOKEN + b" " + TOKEN, "something else than one token"),
    ],
)
def test_no_tokens(tmp_path: Path, data: bytes, message: str) -> None:
    """If one of them is none, none counts, with a reason that does not show it."""
    path = tmp_path / "tokens"
    path.write_bytes(data)

    with pytest.raises(OperatorError, match=message) as caught:
        tokens_in(str(path))
    assert TOKEN.decode() not in str(caught.value)
