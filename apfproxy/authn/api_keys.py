"""API keys, known by their SHA-256: CSV of sha256,user,uid,"group1,group2".

Who reads the file learns no key, as long as keys are random: it takes no time to try guesses, so a
password that somebody has chosen is no key.  For the same reason a check takes a microsecond, and
nobody can keep the proxy busy with wrong keys.

The columns are read as those of the file of static tokens.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from apfproxy.authn.basic_password import BasicError, user_and_password
from apfproxy.authn.static_tokens import MAX_FILE_BYTES, StaticTokensError, records, user_of
from apfproxy.authn.verdict import Verdict
from apfproxy.base.files import read_named
from apfproxy.request.user import ANONYMOUS

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


class ApiKeys:
    """Authenticates the keys of a file; empty before `load`.

    Args:
        path: The file.
        is_unknown_anonymous: Whether a key that is not in the file counts as none at all.
    """

    def __init__(self, path: str | Path, *, is_unknown_anonymous: bool = False) -> None:
        self._path = Path(path)
        self._verdicts: dict[bytes, Verdict] = {}
        self._unknown = Verdict(None, FOREVER_S, "the key is not in authentication.apiKeys.file")
        if is_unknown_anonymous:
            self._unknown = Verdict(ANONYMOUS, FOREVER_S)

    def load(self) -> None:
        """Read the file, or raise StaticTokensError and keep the keys as they were."""
        self.take(read_named(self._path, MAX_FILE_BYTES, StaticTokensError))

    def take(self, data: bytes) -> None:
        """Replace the keys by those of a content, or raise StaticTokensError and keep them."""
        verdicts: dict[bytes, Verdict] = {}
        lines: dict[bytes, int] = {}
        for line, fields in records(data, str(self._path)):
            where = f"{self._path}:{line}"
            text, user = user_of(fields, where, "sha256")
            if DIGEST.fullmatch(text) is None:
                raise StaticTokensError(
                    f"{where}: the first column is not the SHA-256 of a key in 64 hexadecimal"
                    " digits; make one with: printf %s KEY | sha256sum"
                )
            digest = bytes.fromhex(text)
            if digest == OF_NOTHING:
                raise StaticTokensError(
                    f"{where}: this is the SHA-256 of nothing, perhaps of a variable that was not"
                    " set"
                )
            if digest in lines:
                raise StaticTokensError(f"{where}: the key of line {lines[digest]} again")
            lines[digest] = line
            verdicts[digest] = Verdict(user, FOREVER_S)
        self._verdicts = verdicts

    def find(self, key: bytes) -> Verdict:
        """The verdict on a key, until another content is taken."""
        found = self._verdicts.get(hashlib.sha256(key).digest())
        if found is not None:
            return found
        with_end = hashlib.sha256(key + b"\n").digest()
        return WITH_LINE_END if with_end in self._verdicts else self._unknown

    def check(self, token: str) -> Verdict:
        """As `find`."""
        return self.find(token.encode("utf-8", "surrogatepass"))

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        """As `check`."""
        return self.check(token)


class BasicKeys:
    """Authenticates users who send their API keys as passwords of Basic."""

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    def check(self, token: str) -> Verdict:
        """The verdict on user name and key in Base64, until the file changes."""
        try:
            name, password = user_and_password(token)
        except BasicError as error:
            return Verdict(None, FOREVER_S, str(error))
        found = self._keys.find(password)
        if found.user is None or found.user is ANONYMOUS or found.user.name == name:
            return found
        return Verdict(None, FOREVER_S, "the key is another user's than Basic names")

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        """As `check`."""
        return self.check(token)
