"""Files with bearer tokens, which are in no message or repr."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES = 16384
"""The size of the file; tokens of service accounts have a few thousand characters."""
MIN_CHARACTERS = 16
"""A shorter one can be guessed."""
TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""The letters of a bearer token: RFC 6750."""


class TokenFile:
    """A file with one token, read for each use; one of fewer than `min_characters` is refused."""

    def __init__(self, path: str, min_characters: int = MIN_CHARACTERS) -> None:
        self.path = Path(path)
        self._min_characters = min_characters

    def token(self) -> bytes:
        """The current token, or OperatorError; blocks on the file system for a moment."""
        return checked(self.path, _read(self.path), self._min_characters)


def usable_token(path: str | None) -> Callable[[], bytes] | None:
    """The current token of a file, which has one now; None if there is no file."""
    if path is None:
        return None
    file = TokenFile(path)
    file.token()
    return file.token


def tokens_in(path: str) -> tuple[bytes, ...]:
    """The tokens in a file, one a line, or OperatorError; blocks on the file system.

    Empty lines, and those that begin with `#`, are no tokens.
    """
    lines = [line.strip() for line in _read(Path(path)).splitlines()]
    found = [line for line in lines if line and not line.startswith(b"#")] or [b""]
    return tuple(checked(Path(path), line) for line in found)


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        raise OperatorError(
            f"the token file {path} cannot be read: {error.strerror or error}"
        ) from error


def checked(path: Path, data: bytes, min_characters: int = MIN_CHARACTERS) -> bytes:
    """The token in the bytes of a file, or OperatorError; white space around it is ignored."""
    token = data.strip()
    if not token:
        raise OperatorError(f"the token file {path} is empty; write one token into it")
    if TOKEN.fullmatch(token) is None:
        raise OperatorError(
            f"the token file {path} holds something else than one token of letters, digits and"
            " ._~+/-"
        )
    if len(token) < min_characters:
        raise OperatorError(
            f"the token in {path} is shorter than {min_characters} characters; make one with"
            " openssl rand -hex 32"
        )
    return token
