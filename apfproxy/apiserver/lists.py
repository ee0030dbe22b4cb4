"""The objects of a list: which objects, in which state, and where the next page begins.

Tokens for the next page have Kubernetes' form: JSON with the resource version of the first page and
the key after the last object, `namespace/name` or `name` with a NUL, in base64 for URLs without
padding.

Source: Kubernetes documentation, "API Concepts", "Retrieving large results sets in chunks",
"Resource versions"; apiserver's `storage/interfaces.go`, `storage/continue.go`.
"""

from __future__ import annotations

import base64
import posixpath
import string
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request, expired
from apfproxy.apiserver.options import ANY_VERSION, EXACT
from apfproxy.apiserver.schema.body import BodyError, parse_json
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.schema.types import Field, Scalar, Struct
from apfproxy.apiserver.store.entries import TooOldError

if TYPE_CHECKING:
    from apfproxy.apiserver.options import ListOptions
    from apfproxy.apiserver.selectors import FieldSelector, LabelSelector
    from apfproxy.apiserver.store.collection import Collection
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.objects.types import Object

NEWER_WAIT_S = 3.0
"""How long a list waits for a future resource version; Kubernetes' time."""

LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)
LATEST = -1
"""The resource version in tokens for an inconsistent continuation."""

FORM = "meta.k8s.io/v1"
LONGEST_TOKEN = 4096
"""Characters; namespace and name have 316 at most."""
ALPHABET = frozenset(string.ascii_letters + string.digits + "-_")
TOKEN = Struct(
    "continueToken",
    (Field("v", Scalar.STRING), Field("rv", Scalar.INT64), Field("start", Scalar.STRING)),
    "storage",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected objects; "" and None are for all."""

    namespace: str = ""
    name: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    @property
    def is_whole(self) -> bool:
        return not self.name and self.labels is None and self.fields is None

    def matches(self, entry: Entry) -> bool:
        return (
            (not self.namespace or entry.namespace == self.namespace)
            and (not self.name or entry.name == self.name)
            and (self.labels is None or self.labels.matches(entry.labels))
            and (self.fields is None or self.fields.matches(entry.fields))
        )


class Page(NamedTuple):
    entries: list[Entry]
    metadata: Object


async def wait_until_visible(store: Store, resource_version: int) -> None:
    """Wait until readers see a resource version; StatusError 504 after `NEWER_WAIT_S`."""
    if await store.wait_for(resource_version, NEWER_WAIT_S):
        return
    problem = "Too large resource version"
    cause = {"reason": "ResourceVersionTooLarge", "message": problem}
    message = f"Timeout: {problem}: {resource_version}, current: {store.resource_version}"
    raise StatusError(504, "Timeout", message, {"causes": [cause]}, retry_after_s=1)


async def page(
    store: Store, collection: Collection, selection: Selection, options: ListOptions
) -> Page:
    """Select the objects of a list; StatusError if their state is too old or in the future."""
    at: int | None = None
    start: tuple[str, str] | None = None
    limit = options.limit
    if options.continue_token:
        resource_version, start = _read_token(options.continue_token)
        if options.resource_version not in ANY_VERSION:
            raise bad_request("specifying resource version is not allowed when using continue")
        at = None if resource_version == LATEST else resource_version
    elif options.resource_version == "0":
        limit = 0  # as from Kubernetes' watch cache, which ignores the limit
    elif options.resource_version:
        wanted = int(options.resource_version)
        await wait_until_visible(store, wanted)
        is_paged = limit > 0 and not options.resource_version_match
        if options.resource_version_match == EXACT or is_paged:
            at = wanted
    namespace, is_whole = selection.namespace or None, selection.is_whole
    version = store.resource_version if at is None else at
    metadata: Object = {"resourceVersion": str(version)}
    most = limit + 1 if limit > 0 else None  # one more tells whether there are more
    try:
        entries = collection.snapshot(namespace, at, start, most if is_whole else None)
    except TooOldError as error:
        if start is None:
            raise expired(LIST_TOO_OLD) from error
        # With a token to go on without consistency.
        metadata = {"continue": _token(LATEST, start)}
        raise StatusError(410, "Expired", CONTINUE_TOO_OLD, metadata=metadata) from error
    if not is_whole:
        entries = list(islice(filter(selection.matches, entries), most))
    if 0 < limit < len(entries):
        del entries[limit:]
        last = (entries[-1].namespace, entries[-1].name)
        metadata["continue"] = _token(version, last)
        if is_whole:
            metadata["remainingItemCount"] = collection.count(namespace, at, last)
    return Page(entries, metadata)


def _token(resource_version: int, last: tuple[str, str]) -> str:
    key = "/".join(filter(None, last))
    data = msgspec.json.encode({"v": FORM, "rv": resource_version, "start": f"{key}\0"})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    """The resource version, and the key after which the list goes on; StatusError 400."""
    if len(token) > LONGEST_TOKEN:
        raise _refused(f"it has more than {LONGEST_TOKEN} characters")
    wrong = next((at for at, each in enumerate(token) if each not in ALPHABET), None)
    if wrong is None and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong is not None:
        raise _refused(f"illegal base64 data at input byte {len(token[:wrong].encode())}")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        raw = parse_json(data).raw
        found = read(TOKEN, {} if raw is None else raw).obj
    except (BodyError, MismatchError) as error:
        raise _refused(str(error)) from error
    version, resource_version = found.get("v", ""), found.get("rv", 0)
    start = found.get("start", "")
    if version != FORM:
        raise _refused(f"server does not recognize this encoded version {version}")
    if resource_version == 0:
        raise _refused(f"incorrect encoded start resourceVersion (version {FORM})")
    if not start:
        raise _refused(f"encoded start key empty (version {FORM})")
    key = "/" + start.removeprefix("/")
    if posixpath.normpath(key) != key:
        raise _refused(start)
    namespace, _, name = key.removesuffix("\0").removeprefix("/").rpartition("/")
    return resource_version, (namespace, name)


def _refused(message: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {message}")
