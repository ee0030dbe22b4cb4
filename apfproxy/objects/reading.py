"""Reads FlowSchemas and PriorityLevelConfigurations, as people and servers write them.

JSON or YAML is decoded by the description in `types`, gets the defaults of its version, and is
validated.  Refused is what an API server refuses: names are case-sensitive, null stands for an
absent field (in a list or map, for an empty element), integers have no fraction.  But all values of
a wrong type are reported, not the first, since people who edit a file want to hear of all.

In v1 zero `nominalConcurrencyShares` of a Limited level are zero; in v1beta3 they are the default
unless an annotation says to keep them.  Nothing else differs.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3; KEP-1040, "v1beta3
and v1".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from apfproxy.objects.field_errors import FieldError, Reason, invalid, not_supported, suggestion
from apfproxy.objects.types import (
    GROUP,
    MODELS,
    FlowControlObject,
    Member,
    Model,
    Object,
    WrittenMeta,
    members_of,
)
from apfproxy.objects.validation import (
    PRESERVE_ZERO,
    drop_repeated_owners,
    validate,
    validate_bare_finalizers,
    validate_metadata,
)

V1 = "v1"
V1BETA3 = "v1beta3"
SHARES = "nominalConcurrencyShares"
LENDABLE = "lendablePercent"
MATCHING_PRECEDENCE = 1000
NOMINAL_CONCURRENCY_SHARES = 30
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
API_VERSIONS = {f"{GROUP}/{version}": version for version in (V1, V1BETA3)}
SERVED_UNTIL = {
    f"{GROUP}/{version}": release
    for version, release in (("v1alpha1", "1.21"), ("v1beta1", "1.26"), ("v1beta2", "1.29"))
}
"""Versions that Kubernetes no longer serves, and the release since when."""
OLD_SHARES = "assuredConcurrencyShares"
"""The name of the shares in these versions; nothing else differs."""
NOT_READ = frozenset({"apiVersion", "kind", "status"})
OF_OBJECT = NOT_READ | {"metadata", "spec"}
METADATA_NOT_READ = frozenset(
    {"deletionGracePeriodSeconds", "deletionTimestamp", "managedFields", "selfLink"}
)
"""Fields that may have any value: only servers set them, and nothing here depends on them."""
METADATA_DROPPED = frozenset({"creationTimestamp", "namespace"})
UID = re.compile(r"[\x21-\x7e]{0,253}")
"""Stricter than Kubernetes, which has only UIDs that it made: others become part of responses'
heads, and one with a line break would become header fields."""
UID_DETAIL = (
    "must be at most 253 visible ASCII characters, as header fields of responses have it; leave it"
    " out for one that is made of the object's kind and name"
)
INT_LIMITS = {"": 2**31, "int64": 2**63}
WANTED = {
    dict: "a mapping",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "an integer",
}
NAMES = {**WANTED, bool: "a truth value", int: "a number", float: "a number"}
"""Names of types; the first that fits counts, since True is an int, too."""
TRUE_WORDS = {True: "y, yes and on", False: "n, no and off"}
DIGITS = re.compile(r"-?[0-9]+")
LONGEST_SHOWN = 60
LONGEST_NUMBER = 40


def read_object(raw: object, *, strict: bool = False) -> FlowControlObject | list[FieldError]:
    """Read an object into v1, give it its defaults and validate it, or say all that is wrong.

    Args:
        raw: Decoded JSON or YAML without lone surrogates.
        strict: Whether an unknown field is an error.  kube-apiserver drops it, with a warning.
    """
    kind, api_version = type_of(raw)
    if kind in MODELS and api_version in SERVED_UNTIL:
        return _old_errors(raw, api_version, strict=strict)
    errors = []
    if kind not in MODELS:
        errors.append(not_supported("kind", kind, tuple(MODELS)))
    if api_version not in API_VERSIONS:
        errors.append(not_supported("apiVersion", api_version, tuple(API_VERSIONS)))
    if errors:
        return errors
    decoder = Decoder()
    obj = decoder.decode_object(raw, msgspec.structs.fields(MODELS[kind])[1].type)
    unknown = [
        FieldError(path, Reason.UNKNOWN, suggestion(name, sorted(known)))
        for path, name, known in (decoder.unknown if strict else ())
    ]
    if decoder.mistakes:
        return decoder.mistakes + unknown
    if kind == "FlowSchema":
        default_flow_schema(obj)
    elif API_VERSIONS[api_version] == V1:
        default_priority_level(obj)
    else:
        default_priority_level_v1beta3(obj)
        obj = level_to_v1(obj)
    metadata = obj["metadata"]
    drop_repeated_owners(metadata)
    uid = metadata.get("uid", "")
    if UID.fullmatch(uid) is None:
        errors.append(invalid("metadata.uid", uid, UID_DETAIL))
    errors += validate_metadata(metadata, is_namespaced=False)
    errors += validate_bare_finalizers(metadata)
    found = msgspec.convert(obj, MODELS[kind])
    return unknown + errors + validate(found) or found


class Decoder:
    """Takes the values that a description has, and keeps the errors of the others.

    Attributes:
        mistakes: Values of wrong types, in the order of the document.
        unknown: Path, name and known names of fields that the description does not have.
    """

    def __init__(self) -> None:
        self.mistakes: list[FieldError] = []
        self.unknown: list[tuple[str, str, frozenset[str]]] = []

    def decode_object(self, raw: Any, spec: type[Model]) -> Object:  # noqa: ANN401  a JSON object
        obj: Object = {"metadata": {}, "spec": {}}
        for name, value in raw.items():
            if name in NOT_READ or (value is None and name in obj):
                continue
            if name == "metadata":
                obj[name] = self.decode_model(WrittenMeta, value, name, METADATA_NOT_READ)
            elif name == "spec":
                obj[name] = self.decode_model(spec, value, name)
            else:
                self.unknown.append((name, name, OF_OBJECT))
        for name in METADATA_DROPPED:
            obj["metadata"].pop(name, None)
        return obj

    def decode_model(
        self, model: type[Model], raw: object, path: str, not_read: frozenset[str] = frozenset()
    ) -> Object:
        if not isinstance(raw, dict):
            self.refuse(path, dict, raw)
            return {}
        members = members_of(model)
        known: frozenset[str] = frozenset()
        found: Object = {}
        for name, value in raw.items():
            member = members.get(name)
            if member is None:
                known = known or not_read.union(members)
                if name not in known:
                    self.unknown.append((f"{path}.{name}", name, known))
            elif value is not None:
                found[name] = self.decode_member(member, value, f"{path}.{name}")
        for name, member in members.items():
            if member.wire.is_required and member.type is str and not member.is_list:
                found.setdefault(name, "")
        return {name: found[name] for name in members if name in found}

    def decode_member(self, member: Member, raw: object, path: str) -> object:
        if not member.is_list:
            return self.decode_value(member, raw, path)
        if not isinstance(raw, list):
            self.refuse(path, list, raw)
            return []
        empty: object = "" if member.type is str else {}
        return [
            self.decode_value(member, empty if each is None else each, f"{path}[{index}]")
            for index, each in enumerate(raw)
        ]

    def decode_value(self, member: Member, raw: object, path: str) -> object:
        kind = member.type
        if issubclass(kind, Model):
            return self.decode_model(kind, raw, path)
        if kind is dict:
            return self.decode_texts(raw, path)
        if kind is int:
            limit = INT_LIMITS[member.wire.format]
            if type(raw) is not int:
                self.refuse(path, int, raw)
            elif not -limit <= raw < limit:
                self.refuse(path, int, str(raw)[:LONGEST_NUMBER], f" from {-limit} to {limit - 1}")
        elif not isinstance(raw, kind):
            self.refuse(path, kind, raw)
        return raw

    def decode_texts(self, raw: object, path: str) -> dict[str, str]:
        if not isinstance(raw, dict):
            self.refuse(path, dict, raw)
            return {}
        for key, value in raw.items():
            if not isinstance(value, str | None):
                self.refuse(f"{path}[{key}]", str, value)
        return {key: value or "" for key, value in raw.items()}

    def refuse(self, path: str, wanted: type, value: object, more: str = "") -> None:
        detail = f"want {WANTED[wanted]}{more}"
        if isinstance(value, dict | list):
            shown = type_name(value)
        else:
            shown = str(value).lower() if isinstance(value, bool) else str(value)[:LONGEST_SHOWN]
            if wanted is str and isinstance(value, bool):
                detail += f", and YAML takes {TRUE_WORDS[value]} for {shown}"
            if wanted is str:
                detail += ": put it in quotes"
            elif wanted is int and not more and isinstance(value, str) and DIGITS.fullmatch(value):
                detail += ": leave the quotes out"
        if wanted is list:
            detail += ": write it as [...], or each item after a dash"
        self.mistakes.append(FieldError(path, Reason.TYPE_INVALID, detail, shown))


def type_name(value: object) -> str:
    return next((name for kind, name in NAMES.items() if isinstance(value, kind)), "nothing")


def _old_errors(raw: Any, api_version: str, *, strict: bool) -> list[FieldError]:  # noqa: ANN401  a JSON object
    # Source: Kubernetes documentation, "Deprecated API Migration Guide".
    since = SERVED_UNTIL[api_version]
    detail = f"Kubernetes has not served it since {since}: write {GROUP}/{V1}"
    errors = [invalid("apiVersion", api_version, detail)]
    content: dict[str, Any] = {**raw, "apiVersion": f"{GROUP}/{V1BETA3}"}
    spec = raw.get("spec")
    limited = spec.get("limited") if isinstance(spec, dict) else None
    if isinstance(limited, dict) and OLD_SHARES in limited:
        detail = f"its name is {SHARES} since v1beta3"
        errors.append(invalid(f"spec.limited.{OLD_SHARES}", limited[OLD_SHARES], detail))
        renamed = {SHARES if key == OLD_SHARES else key: limited[key] for key in limited}
        content["spec"] = {**spec, "limited": renamed}
    found = read_object(content, strict=strict)
    return errors + (found if isinstance(found, list) else [])


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
    kind, version = raw.get("kind"), raw.get("apiVersion")
    return kind if isinstance(kind, str) else "", version if isinstance(version, str) else ""


def default_flow_schema(obj: Object) -> None:
    spec = obj["spec"]
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or MATCHING_PRECEDENCE


def default_priority_level(obj: Object) -> None:
    """Give a level of v1 its defaults; zero shares stay."""
    limited = obj["spec"].get("limited")
    exempt = obj["spec"].get("exempt")
    if exempt is not None:
        exempt.setdefault(SHARES, 0)
        exempt.setdefault(LENDABLE, 0)
    if limited is None:
        return
    if limited.get(SHARES) is None:
        limited[SHARES] = NOMINAL_CONCURRENCY_SHARES
    limited.setdefault(LENDABLE, 0)
    queuing = limited.get("limitResponse", {}).get("queuing")
    if queuing is not None:
        for field, default in QUEUING.items():
            queuing[field] = queuing.get(field) or default


def default_priority_level_v1beta3(obj: Object) -> None:
    limited = obj["spec"].get("limited")
    if limited is not None and not limited.get(SHARES):
        preserved = PRESERVE_ZERO in obj["metadata"].get("annotations", ())
        limited[SHARES] = 0 if preserved else NOMINAL_CONCURRENCY_SHARES
    default_priority_level(obj)


def level_to_v1(obj: Object) -> Object:
    annotations = obj["metadata"].get("annotations", {})
    if PRESERVE_ZERO not in annotations:
        return obj
    left = {key: value for key, value in annotations.items() if key != PRESERVE_ZERO}
    return _annotated(obj, left)


def level_to_v1beta3(obj: Object) -> Object:
    limited = obj["spec"].get("limited")
    if limited is None or limited[SHARES] != 0:
        return obj
    return _annotated(obj, {**obj["metadata"].get("annotations", {}), PRESERVE_ZERO: ""})


def _annotated(obj: Object, annotations: dict[str, str]) -> Object:
    metadata = {**obj["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**obj, "metadata": metadata}
