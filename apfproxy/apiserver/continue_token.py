"""Where a list goes on: the tokens that a client gets with one part of a list for the next.

They have Kubernetes' form: JSON with the resource version of the first part and the key after the
last object, `namespace/name` or `name` with a NUL, in base64 for URLs without padding.

Source: apiserver's `pkg/storage/continue.go`.
"""

from __future__ import annotations

import base64
import posixpath
import string

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request
from apfproxy.apiserver.schema.body import BodyError, parse_json
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.schema.types import Field, Scalar, Struct

VERSION = "meta.k8s.io/v1"
AFTER = "\0"
"""Appended to a key to get the next possible key."""
LONGEST = 4096
"""Characters of a token; namespace and name have 316 at most."""


ALPHABET = frozenset(string.ascii_letters + string.digits + "-_")
TOKEN = Struct(
    "continueToken",
    (Field("v", Scalar.STRING), Field("rv", Scalar.INT64), Field("start", Scalar.STRING)),
    "storage",
)


def encode(resource_version: int, last: tuple[str, str]) -> str:
    """Make a token from a list's version, negative for the newest, and its last object's key."""
    key = "/".join(part for part in last if part)
    data = msgspec.json.encode({"v": VERSION, "rv": resource_version, "start": key + AFTER})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(token: str) -> tuple[int, tuple[str, str]]:
    """Read a token: the resource version, and the key after which the list goes on.

    Raises:
        StatusError: 400, this server did not make the token.
    """
    if len(token) > LONGEST:
        raise _refused(f"it has more than {LONGEST} characters")
    wrong = next((at for at, each in enumerate(token) if each not in ALPHABET), None)
    if wrong is None and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong is not None:
        at = len(token[:wrong].encode())
        raise _refused(f"illegal base64 data at input byte {at}")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        raw = parse_json(data).raw
        found = read(TOKEN, {} if raw is None else raw).obj
    except (BodyError, MismatchError) as error:
        raise _refused(str(error)) from error
    version, resource_version = found.get("v", ""), found.get("rv", 0)
    start = found.get("start", "")
    if version != VERSION:
        raise _refused(f"server does not recognize this encoded version {version}")
    if resource_version == 0:
        raise _refused(f"incorrect encoded start resourceVersion (version {VERSION})")
    if not start:
        raise _refused(f"encoded start key empty (version {VERSION})")
    key = "/" + start.removeprefix("/")
    if posixpath.normpath(key) != key:
        raise _refused(start)
    namespace, _, name = key.removesuffix(AFTER).removeprefix("/").rpartition("/")
    return resource_version, (namespace, name)


def _refused(message: str) -> StatusError:
    """400: this server did not make the token."""
    return bad_request(f"invalid continue token: continue key is not valid: {message}")
