"""Reads FlowSchemas and PriorityLevelConfigurations, as people and servers write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apfproxy.objects.field_errors import FieldError, invalid, not_supported
from apfproxy.objects.flowcontrol_schema import SHARES
from apfproxy.objects.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.objects.metadata import drop_repeated_owners
from apfproxy.objects.schema.mistakes import find_mistakes
from apfproxy.objects.schema.reading import MismatchError, read
from apfproxy.objects.types import GROUP, typed_object
from apfproxy.objects.versions import V1, V1BETA3

if TYPE_CHECKING:
    from apfproxy.objects.schema.types import Object
    from apfproxy.objects.types import FlowControlObject

KINDS = {kind.name: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}
API_VERSIONS = {
    FLOW_SCHEMA.api_version(version.name): version.name for version in FLOW_SCHEMA.versions
}

SERVED_UNTIL = {
    f"{GROUP}/{version}": release
    for version, release in (("v1alpha1", "1.21"), ("v1beta1", "1.26"), ("v1beta2", "1.29"))
}
"""Versions that are no more, and the release of Kubernetes from which on."""
OLD_SHARES = "assuredConcurrencyShares"
"""In these versions; nothing else differs."""

NOT_READ = frozenset({"apiVersion", "kind", "status"})
METADATA_NOT_READ = frozenset(
    {"deletionGracePeriodSeconds", "deletionTimestamp", "managedFields", "selfLink"}
)
"""Fields that may have any value: only servers set them, and nothing here depends on them."""
METADATA_DROPPED = frozenset({"creationTimestamp", "namespace"})
"""Fields that must be strings, but may be any."""

UID = re.compile(r"[\x21-\x7e]{0,253}")
"""Stricter than Kubernetes, which has only UIDs that it made: others become part of answers' heads,
and one with a line break would become header fields."""
UID_DETAIL = (
    "must be at most 253 visible ASCII characters, as header fields of answers have it; leave it"
    " out for one that is made of the object's kind and name"
)


def read_object(raw: object, *, strict: bool = False) -> FlowControlObject | list[FieldError]:
    """Read an object, give it its defaults and validate it.

    Args:
        raw: Decoded JSON or YAML without lone surrogates, of one of `KINDS` and `API_VERSIONS`.
        strict: Whether an unknown field is an error.  kube-apiserver drops it, with a warning.

    Returns:
        The object in v1, or all that is wrong.
    """
    kind_name, api_version = type_of(raw)
    if kind_name in KINDS and api_version in SERVED_UNTIL:
        return old_errors(raw, api_version, strict=strict)
    errors = []
    if kind_name not in KINDS:
        errors.append(not_supported("kind", kind_name, tuple(KINDS)))
    if api_version not in API_VERSIONS:
        errors.append(not_supported("apiVersion", api_version, tuple(API_VERSIONS)))
    if errors:
        return errors
    kind = KINDS[kind_name]
    version = kind.version(API_VERSIONS[api_version])
    assert version is not None, "both kinds have the same versions"
    content = content_of(raw)
    try:
        found = read(version.schema, content)
    except MismatchError:
        mistakes = find_mistakes(version.schema, content)
        return mistakes.errors + (mistakes.unknown if strict else [])
    if strict and found.unknown:
        errors = find_mistakes(version.schema, content).unknown
    version.set_defaults(found.obj)
    obj = version.to_storage(found.obj)
    drop_repeated_owners(obj["metadata"])
    uid = obj["metadata"].get("uid", "")
    if UID.fullmatch(uid) is None:
        errors.append(invalid("metadata.uid", uid, UID_DETAIL))
    errors += kind.rules.validate(obj)
    return errors or typed_object(kind.name, obj)


def old_errors(raw: Any, api_version: str, *, strict: bool) -> list[FieldError]:  # noqa: ANN401  a JSON object
    """What to write instead of a version that is no more, and what else is wrong with the object.

    Source: Kubernetes documentation, "Deprecated API Migration Guide".
    """
    wanted = FLOW_SCHEMA.api_version(V1)
    detail = f"Kubernetes has not served it since {SERVED_UNTIL[api_version]}: write {wanted}"
    errors = [invalid("apiVersion", api_version, detail)]
    content: dict[str, Any] = {**raw, "apiVersion": FLOW_SCHEMA.api_version(V1BETA3)}
    spec = raw.get("spec")
    limited = spec.get("limited") if isinstance(spec, dict) else None
    if isinstance(limited, dict) and OLD_SHARES in limited:
        detail = f"its name is {SHARES} since v1beta3"
        errors.append(invalid(f"spec.limited.{OLD_SHARES}", limited[OLD_SHARES], detail))
        renamed = {SHARES if key == OLD_SHARES else key: limited[key] for key in limited}
        content["spec"] = {**spec, "limited": renamed}
    found = read_object(content, strict=strict)
    return errors + (found if isinstance(found, list) else [])


def content_of(raw: Any) -> Object:  # noqa: ANN401  a JSON object
    """What is read of an object."""
    content = {name: value for name, value in raw.items() if name not in NOT_READ}
    metadata = raw.get("metadata")
    if isinstance(metadata, dict):
        content["metadata"] = {
            name: value
            for name, value in metadata.items()
            if name not in METADATA_NOT_READ
            and not (name in METADATA_DROPPED and isinstance(value, str))
        }
    return content


def with_type(raw: object, kind: str, api_version: str) -> object:
    """An object with the type that its surroundings imply where it names none itself.

    A server leaves it out in the items of a list, and accepts requests that leave it out.
    """
    if not isinstance(raw, dict):
        return raw
    own_kind, own_version = type_of(raw)
    return {**raw, "kind": own_kind or kind, "apiVersion": own_version or api_version}


def type_of(raw: object) -> tuple[str, str]:
    """Kind and apiVersion; empty where they are missing or no strings."""
    if not isinstance(raw, dict):
        return "", ""
    kind, api_version = raw.get("kind"), raw.get("apiVersion")
    return (
        kind if isinstance(kind, str) else "",
        api_version if isinstance(api_version, str) else "",
    )
