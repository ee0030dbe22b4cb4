"""A file with one bearer token, which is read for each use, and in no message or repr."""

from __future__ import annotations

import re
from pathlib import Path

from apfproxy.errors import OperatorError
from apfproxy.files import read_file

MAX_BYTES = 16384
"""Of the file; tokens have some hundred characters, those of service accounts a few thousand."""
MIN_CHARACTERS = 16
"""A shorter one can be guessed."""
TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""What a bearer token may consist of: RFC 6750."""


class TokenFileError(OperatorError):
    """The file has no usable token; the operator's fault."""


class TokenFile:
    """The file; tokens of fewer than `min_characters` are refused."""

    def __init__(self, path: str, min_characters: int = MIN_CHARACTERS) -> None:
        self.path = Path(path)
        self._min_characters = min_characters

    def token(self) -> bytes:
        """The current token, or TokenFileError; blocks on the file system for a moment."""
        try:
            data = read_file(self.path, MAX_BYTES)
        except OSError as error:
            raise TokenFileError(
                f"the token file {self.path} cannot be read: {error.strerror or error}"
            ) from error
        return checked(self.path, data, self._min_characters)


def checked(path: Path, data: bytes, min_characters: int = MIN_CHARACTERS) -> bytes:
    """The token in the bytes of a file, or TokenFileError; white space around it is ignored."""
    token = data.strip()
    if not token:
        raise TokenFileError(f"the token file {path} is empty; write one token into it")
    if TOKEN.fullmatch(token) is None:
        raise TokenFileError(
            f"the token file {path} holds something else than one token of letters, digits and"
            " ._~+/-"
        )
    if len(token) < min_characters:
        raise TokenFileError(
            f"the token in {path} is shorter than {min_characters} characters; make one with"
            " openssl rand -hex 32"
        )
    return token
