"""Bearer tokens from kube-apiserver's file of static tokens: CSV of token,user,uid,"group1,group2".

The file is read as by Go's `encoding/csv`: no comments; empty lines do not count; a field is quoted
as a whole or not at all; a quote in a quoted field is doubled.  Stricter than kube-apiserver: an
empty token or user, a token that is there twice, and columns after the fourth are errors.

Source: kubernetes/apiserver, pkg/authentication/token/tokenfile.
"""

from __future__ import annotations

import hmac
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.authn.verdict import Verdict
from apfproxy.base.files import read_named
from apfproxy.request.user import User

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILE_BYTES = 1 << 24
"""A hundred thousand tokens; a larger file is no token file."""

FIELD = re.compile(r'"((?:[^"]|"")*+)"|([^",\n]*+)')
"""A field; possessive, so that each character is looked at once."""


class StaticTokensError(ValueError):
    """The file cannot be used; the operator's fault.  Says file and line, and no token."""


class StaticTokens:
    """Authenticates the tokens of a file, of which only HMACs are kept; empty before `load`."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._key = secrets.token_bytes(32)
        self._verdicts: dict[bytes, Verdict] = {}
        self._unknown = Verdict(None, float("inf"), "the token is not in authentication.tokenFile")

    def load(self) -> None:
        """Read the file, or raise StaticTokensError and keep the tokens as they were."""
        self.take(read_named(self._path, MAX_FILE_BYTES, StaticTokensError))

    def take(self, data: bytes) -> None:
        """Replace the tokens by those of a content, or raise StaticTokensError and keep them."""
        verdicts: dict[bytes, Verdict] = {}
        lines: dict[bytes, int] = {}
        for line, fields in records(data, str(self._path)):
            token, user = user_of(fields, f"{self._path}:{line}")
            digest = self._digest(token)
            if digest in lines:
                raise StaticTokensError(
                    f"{self._path}:{line}: the token of line {lines[digest]} again"
                )
            lines[digest] = line
            verdicts[digest] = Verdict(user, float("inf"))
        self._verdicts = verdicts

    def check(self, token: str) -> Verdict:
        """The verdict, until another content is taken."""
        return self._verdicts.get(self._digest(token), self._unknown)

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        """As `check`."""
        return self.check(token)

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode("utf-8", "surrogatepass"), "sha256")


def user_of(fields: list[str], where: str, kind: str = "token") -> tuple[str, User]:
    """The secret of a record, and its user; StaticTokensError if it has no such fields.

    Args:
        fields: Of the record.
        where: File and line.
        kind: What the first column is.
    """
    if len(fields) not in {3, 4}:
        hint = "; comments are not possible" if fields[0].startswith("#") else ""
        raise StaticTokensError(
            f"{where}: {len(fields)} columns instead of 3 or 4, which are "
            f'{kind},user,uid,"group1,group2"{hint}'
        )
    token, name, uid, *rest = fields
    if not token:
        raise StaticTokensError(f"{where}: the {kind} is empty")
    if not name:
        raise StaticTokensError(f"{where}: the user is empty")
    # An empty column is one empty group, as in kube-apiserver.
    groups = tuple(rest[0].split(",")) if rest else ()
    return token, User(name, groups, uid)


def records(data: bytes, path: str) -> Iterator[tuple[int, list[str]]]:
    """The records, each with the number of its first line, or StaticTokensError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # The cause has the data in it.
        raise StaticTokensError(f"{path}:{line}: not UTF-8") from None
    if text.startswith("\ufeff"):
        raise StaticTokensError(f"{path}:1: begins with a byte order mark; save it without")
    text = text.replace("\r\n", "\n").removesuffix("\r")
    position, line = 0, 1
    while position < len(text):
        if text[position] == "\n":
            position, line = position + 1, line + 1
            continue
        fields, end = read_record(text, position, f"{path}:{line}")
        yield line, fields
        line += text.count("\n", position, end)
        position = end


def read_record(text: str, position: int, where: str) -> tuple[list[str], int]:
    """The fields of the record at a position, and where the next begins."""
    fields: list[str] = []
    while True:
        # Matches always: at least nothing.
        match = FIELD.match(text, position)
        assert match is not None
        fields.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
        ending = text[position : position + 1]
        if ending in {"\n", ""}:
            return fields, position + 1
        if ending != ",":
            raise StaticTokensError(
                f"{where}: a quote inside a field, or none at the end of one; quote whole fields"
            )
        position += 1
