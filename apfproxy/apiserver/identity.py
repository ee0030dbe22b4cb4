"""Whether an object is the one that a request names, and unchanged since the client read it.

Source: apiserver's `registry/rest/{meta,delete}.go`, `endpoints/handlers/update.go`,
`storage/api_object_versioner.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import bad_request, conflict, invalid, unknown_error
from apfproxy.apiserver.go_values import parse_uint64
from apfproxy.objects.field_errors import invalid as invalid_field

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


def place(metadata: Object, namespace: str) -> None:
    """Put an object into the namespace of the request; StatusError if it names another one."""
    own = metadata.get("namespace", "")
    if own and namespace and own != namespace:
        raise bad_request(OTHER_NAMESPACE)
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_identity(obj: Object, namespace: str, name: str) -> None:
    """Raise 400 unless an object has the name, and no other namespace than, the request's path."""
    metadata = obj.get("metadata", {})
    own = metadata.get("name", "")
    if not own:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable:"
            " name must be provided"
        )
    if own != name:
        raise bad_request(
            f"the name of the object ({own}) does not match the name on the URL ({name})"
        )
    own = metadata.get("namespace", "")
    if namespace and own and own != namespace:
        raise bad_request(OTHER_NAMESPACE)


def check_no_uid(kind: Kind, name: str, patch: Object) -> None:
    """Raise 409 if a patch that creates an object chooses its uid."""
    if uid := patch.get("metadata", {}).get("uid"):
        reason = (
            f"uid mismatch: the provided object specified uid {uid},"
            " and no existing object was found"
        )
        raise conflict(kind.group, kind.plural, name, reason)


def check_uid(kind: Kind, entry: Entry, uid: str) -> None:
    """Raise 409 if an object is another one of its name."""
    check_own_uid(kind, (entry.namespace, entry.name), entry.uid, uid)


def check_own_uid(kind: Kind, key: tuple[str, str], own: str, uid: str) -> None:
    """As `check_uid`, for an object of this namespace, name and uid."""
    if uid and uid != own:
        place = "/".join(filter(None, key))
        reason = (
            f"StorageError: invalid object, Code: 4, Key: /{kind.plural}/{place},"
            " ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
            f" UID in precondition: {uid}, UID in object meta: {own}"
        )
        raise conflict(kind.group, kind.plural, key[1], reason)


def check_unchanged(kind: Kind, entry: Entry, metadata: Object) -> None:
    """Raise 409 if the object has changed since the client read it."""
    text = metadata.get("resourceVersion", "")
    try:
        version = parse_uint64(text) if text else 0
    except ValueError as error:
        raise unknown_error(str(error)) from error
    if version == 0:
        if not kind.rules.allows_unconditional_update:
            wrong = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            # The plural where others have the kind is Kubernetes' own slip.
            raise invalid(kind.group, kind.plural, entry.name, [wrong])
    elif version != entry.resource_version:
        raise conflict(kind.group, kind.plural, entry.name, MODIFIED)


def is_version(text: str) -> bool:
    """Whether the text is a resource version that objects can have."""
    try:
        return parse_uint64(text) > 0
    except ValueError:
        return False


def check_preconditions(
    kind: Kind, entry: Entry, uid: str | None, resource_version: str | None
) -> None:
    """Raise 409 unless the object to be deleted has these; None for any."""
    version = str(entry.resource_version)
    differing = (
        ("UID", uid, entry.uid, "deleted and then recreated"),
        ("ResourceVersion", resource_version, version, "modified"),
    )
    for what, wanted, own, fate in differing:
        if wanted is None or wanted == own:
            continue
        if kind.rules.prepare_finalize is not None:
            # Of what ends in steps Kubernetes says it in other words.
            reason = (
                f"Precondition failed: {what} in precondition: {wanted},"
                f" {what} in object meta: {own}"
            )
            raise conflict(kind.group, kind.plural, entry.name, reason)
        reason = (
            f"the {what} in the precondition ({wanted}) does not match the {what} in record"
            f" ({own}). The object might have been {fate}"
        )
        raise conflict(kind.group, kind.name, entry.name, reason)
