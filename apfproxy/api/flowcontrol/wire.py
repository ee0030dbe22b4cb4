"""Objects as the API shows them: read from decoded JSON, and written to it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from apfproxy.api.field_errors import FieldError, not_supported
from apfproxy.api.flowcontrol.conversion import V1, V1BETA3, VERSIONS, from_v1beta3, to_v1beta3
from apfproxy.api.flowcontrol.defaults import with_defaults
from apfproxy.api.flowcontrol.types import (
    GROUP,
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
)
from apfproxy.api.flowcontrol.validation import validate
from apfproxy.api.meta import SystemFields, as_created, canonical
from apfproxy.api.names import well_formed
from apfproxy.api.shape import Reading, read_struct

KINDS: dict[str, type[FlowSchema | PriorityLevelConfiguration]] = {
    "FlowSchema": FlowSchema,
    "PriorityLevelConfiguration": PriorityLevelConfiguration,
}
API_VERSIONS = {f"{GROUP}/{version}": version for version in VERSIONS}


def kind_of(obj: FlowControlObject) -> str:
    """The object's kind."""
    return type(obj).__name__


def from_wire(
    wire: object, *, created: SystemFields | None = None, strict: bool = False
) -> FlowControlObject | list[FieldError]:
    """Read an object, give it its defaults and validate it.

    Args:
        wire: As a JSON parser returns it, of one of `KINDS` and `API_VERSIONS`.
        created: Treat the object as one that a server is asked to create: the fields that a server
            sets get these values, whatever the client put there.  Without it they are read as they
            are, and no name is generated.
        strict: Whether an unknown field is an error.  kube-apiserver drops it, with a warning.

    Returns:
        The object in v1, or all that is wrong.  Kubernetes would answer 400 where an error's reason
        is TYPE_INVALID or UNKNOWN or its field is `kind` or `apiVersion`, else 422.
    """
    obj, errors, unknown = read(wire)
    if strict:
        errors = errors + unknown
    if obj is None:
        return errors
    metadata = canonical(obj.metadata)
    if created is not None:
        metadata = as_created(metadata, created)
    obj = with_defaults(replace(obj, metadata=metadata))
    return (errors + validate(obj)) or obj


def with_type(wire: object, kind: str, api_version: str) -> object:
    """The JSON of an object with the type that its surroundings imply where it names none itself.

    A server leaves it out in the items of a list, and accepts requests that leave it out.
    """
    if not isinstance(wire, dict):
        return wire
    own_kind, own_version = type_of(wire)
    return {**wire, "kind": own_kind or kind, "apiVersion": own_version or api_version}


def read(wire: object) -> tuple[FlowControlObject | None, list[FieldError], list[FieldError]]:
    """Read an object, without defaults and unvalidated.

    Returns:
        The object in v1, None if there are errors; the errors; the unknown fields, which are no
        part of these.
    """
    kind, api_version = type_of(wire)
    errors = []
    if kind not in KINDS:
        errors.append(not_supported("kind", kind, tuple(KINDS)))
    if api_version not in API_VERSIONS:
        errors.append(not_supported("apiVersion", api_version, tuple(API_VERSIONS)))
    if errors:
        return None, errors, []
    reading = Reading()
    obj: FlowControlObject | None = read_struct(KINDS[kind], wire, reading)
    if obj is not None and API_VERSIONS[api_version] == V1BETA3:
        obj = from_v1beta3(obj)
    return obj, reading.errors, reading.unknown


def type_of(wire: object) -> tuple[str, str]:
    """Kind and apiVersion; empty where they are missing or no strings."""
    if not isinstance(wire, dict):
        return "", ""
    kind, api_version = wire.get("kind"), wire.get("apiVersion")
    return (
        well_formed(kind) if isinstance(kind, str) else "",
        well_formed(api_version) if isinstance(api_version, str) else "",
    )


def to_wire(obj: FlowControlObject, version: str = V1) -> dict[str, Any]:
    """The object as a server's JSON has it.

    Args:
        obj: With its defaults.
        version: One of `VERSIONS`.

    Returns:
        Plain dictionaries, lists and scalars.  Fields without a value are left out, but for
        `namespaces` of a resource rule, which is then null, and the status, which is empty.

    Raises:
        ValueError: If there is no such version.
    """
    if version not in VERSIONS:
        raise ValueError(f"no version {version!r} of {GROUP}: use one of {', '.join(VERSIONS)}")
    shown = to_v1beta3(obj) if version == V1BETA3 else obj
    # By way of JSON, because converting to builtins would leave the tuples as they are.
    body = msgspec.json.decode(msgspec.json.encode(shown))
    spec = body.get("spec", {})
    for rules in spec.get("rules", ()):
        for rule in rules.get("resourceRules", ()):
            rule.setdefault("namespaces", None)
    return {
        "kind": kind_of(obj),
        "apiVersion": f"{GROUP}/{version}",
        "metadata": body.get("metadata", {}),
        "spec": spec,
        "status": {},
    }
