"""Files of bearer tokens and of API keys: CSV of secret,user,uid,"group1,group2".

Tokens are kube-apiserver's static ones.  API keys are known by their SHA-256: who reads the file
learns no key, as long as keys are random.  A check takes a microsecond, so wrong keys cannot keep
the proxy busy; a chosen password could be guessed and is no key.

A file is read as by Go's `encoding/csv`: no comments; empty lines do not count; a field is quoted
as a whole or not at all; a quote in a quoted field is doubled.  Stricter than kube-apiserver: an
empty secret or user, a secret that is there twice, and columns after the fourth are errors.

Source: kubernetes/apiserver, pkg/authentication/token/tokenfile.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.authn.credentials import Verdict
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_named
from apfproxy.http.credential_fields import BasicError, user_and_password
from apfproxy.objects.field_errors import counted
from apfproxy.request.attributes import ANONYMOUS, User

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILE_BYTES = 1 << 24  # a hundred thousand tokens

# Possessive, so that each character is looked at once.
FIELD = re.compile(r'"((?:[^"]|"")*+)"|([^",\n]*+)')
DIGEST = re.compile(r"[0-9a-fA-F]{64}")
OF_NOTHING = hashlib.sha256().digest()
FOREVER_S = float("inf")
WITH_LINE_END = Verdict(
    None,
    FOREVER_S,
    "authentication.apiKeys.file has the SHA-256 of the key with the end of a line, as echo writes"
    " it; make it with: printf %s KEY | sha256sum",
)
"""The one mistake that most make; who has the key may as well be told of it, in the log."""
IS_DIGEST = Verdict(
    None,
    FOREVER_S,
    "authentication.tokenFile has the SHA-256 of the token in place of the token; hashes are for"
    " authentication.apiKeys.file",
)
"""Another one, which no look at the file can tell: a token may have the form of a hash."""


class SecretFile:
    """Verdicts on the secrets of a file, by digests of them; none before `load`.

    Errors call the first column `column`, and the secret `what`; `unknown` is the verdict on all
    others.
    """

    def __init__(self, path: str | Path, column: str, what: str, unknown: Verdict) -> None:
        self._path = Path(path)
        self._column = column
        self._what = what
        self._unknown = unknown
        self._verdicts: dict[bytes, Verdict] = {}

    def load(self) -> None:
        """Read the file, or raise OperatorError and keep the secrets as they were."""
        self.take(read_named(self._path, MAX_FILE_BYTES, OperatorError))

    def take(self, data: bytes) -> None:
        """Replace the secrets by those of a content, or raise OperatorError and keep them."""
        verdicts: dict[bytes, Verdict] = {}
        lines: dict[bytes, int] = {}
        for line, fields in _records(data, str(self._path)):
            where = f"{self._path}:{line}"
            text, user = _user_of(fields, where, self._column)
            digest = self._digest_in_file(text, where)
            if digest in lines:
                raise OperatorError(f"{where}: the {self._what} of line {lines[digest]} again")
            lines[digest] = line
            verdicts[digest] = Verdict(user, FOREVER_S)
        self._verdicts = verdicts

    def check(self, token: str) -> Verdict:
        raise NotImplementedError

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        return self.check(token)

    def _digest_in_file(self, text: str, where: str) -> bytes:
        raise NotImplementedError


class StaticTokens(SecretFile):
    """Authenticates the tokens of a file, of which only HMACs are kept."""

    def __init__(self, path: str | Path) -> None:
        unknown = Verdict(None, FOREVER_S, "the token is not in authentication.tokenFile")
        super().__init__(path, "token", "token", unknown)
        self._key = secrets.token_bytes(32)

    def check(self, token: str) -> Verdict:
        found = self._verdicts.get(self._digest(token))
        if found is not None:
            return found
        hashed = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        return IS_DIGEST if self._digest(hashed) in self._verdicts else self._unknown

    def _digest_in_file(self, text: str, where: str) -> bytes:  # noqa: ARG002  any text will do
        return self._digest(text)

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode("utf-8", "surrogatepass"), "sha256")


def _user_of(fields: list[str], where: str, column: str) -> tuple[str, User]:
    if len(fields) not in {3, 4}:
        hint = "; comments are not possible" if fields[0].startswith("#") else ""
        raise OperatorError(
            f"{where}: {counted(len(fields), 'column')} instead of 3 or 4, which are "
            f'{column},user,uid,"group1,group2"{hint}'
        )
    text, name, uid, *rest = fields
    if not text:
        raise OperatorError(f"{where}: the {column} is empty")
    if not name:
        raise OperatorError(f"{where}: the user is empty")
    # An empty column is one empty group, as in kube-apiserver.
    groups = tuple(rest[0].split(",")) if rest else ()
    return text, User(name, groups, uid)


def _records(data: bytes, path: str) -> Iterator[tuple[int, list[str]]]:
    """The records, each with the number of its first line, or OperatorError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # The cause has the data in it.
        raise OperatorError(f"{path}:{line}: not UTF-8") from None
    if text.startswith("\ufeff"):
        raise OperatorError(f"{path}:1: begins with a byte order mark; save it without")
    text = text.replace("\r\n", "\n").removesuffix("\r")
    position, line = 0, 1
    while position < len(text):
        if text[position] == "\n":
            position, line = position + 1, line + 1
            continue
        fields, end = _read_record(text, position, f"{path}:{line}")
        yield line, fields
        line += text.count("\n", position, end)
        position = end


def _read_record(text: str, position: int, where: str) -> tuple[list[str], int]:
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
            raise OperatorError(
                f"{where}: a quote inside a field, or none at the end of one; quote whole fields"
            )
        position += 1


class ApiKeys(SecretFile):
    """Authenticates the keys of a file; others may count as no key at all."""

    def __init__(self, path: str | Path, *, is_unknown_anonymous: bool = False) -> None:
        unknown = Verdict(None, FOREVER_S, "the key is not in authentication.apiKeys.file")
        if is_unknown_anonymous:
            unknown = Verdict(ANONYMOUS, FOREVER_S)
        super().__init__(path, "sha256", "key", unknown)

    def _digest_in_file(self, text: str, where: str) -> bytes:
        if DIGEST.fullmatch(text) is None:
            raise OperatorError(
                f"{where}: the first column is not the SHA-256 of a key in 64 hexadecimal"
                " digits; make one with: printf %s KEY | sha256sum"
            )
        digest = bytes.fromhex(text)
        if digest == OF_NOTHING:
            raise OperatorError(
                f"{where}: this is the SHA-256 of nothing, perhaps of a variable that was not set"
            )
        return digest

    def find(self, key: bytes) -> Verdict:
        found = self._verdicts.get(hashlib.sha256(key).digest())
        if found is not None:
            return found
        with_end = hashlib.sha256(key + b"\n").digest()
        return WITH_LINE_END if with_end in self._verdicts else self._unknown

    def check(self, token: str) -> Verdict:
        return self.find(token.encode("utf-8", "surrogatepass"))


class BasicKeys:
    """Authenticates users who send their API keys as passwords of Basic."""

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    def check(self, token: str) -> Verdict:
        try:
            name, password = user_and_password(token)
        except BasicError as error:
            return Verdict(None, FOREVER_S, str(error))
        found = self._keys.find(password)
        if found.user is None or found.user is ANONYMOUS or found.user.name == name:
            return found
        return Verdict(None, FOREVER_S, "the key is another user's than Basic names")

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        return self.check(token)
