"""Files with bearer tokens, which are in no message or repr.

Each function raises OperatorError where there is no usable token, and blocks on the file system.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES = 16384  # tokens of service accounts have a few thousand characters
MIN_CHARACTERS = 16  # a shorter one can be guessed
TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # the letters of a bearer token: RFC 6750


def read_token(path: str, min_characters: int = MIN_CHARACTERS) -> bytes:
    return _checked(path, _read(path), min_characters)


def usable_token(path: str | None) -> Callable[[], bytes] | None:
    """Gives the current token of a file, which has one now; None if there is no file."""
    if path is None:
        return None
    read_token(path)
    return partial(read_token, path)


def tokens_in(path: str) -> tuple[bytes, ...]:
    """The tokens in a file, one a line; empty lines and comments (`#`) are none."""
    lines = [line.strip() for line in _read(path).splitlines()]
    found = [line for line in lines if line and not line.startswith(b"#")] or [b""]
    return tuple(_checked(path, line, MIN_CHARACTERS) for line in found)


def _read(path: str) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        reason = error.strerror or error
        raise OperatorError(f"the token file {path} cannot be read: {reason}") from error


def _checked(path: str, data: bytes, min_characters: int) -> bytes:
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
