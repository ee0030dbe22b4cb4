"""Objects and patches from the bodies of requests: parsed, of the right kind, with defaults.

Source: apiserver's `endpoints/handlers/{create,update,patch,rest}.go`, `runtime/serializer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apfproxy.apiserver.errors import StatusError, bad_request, invalid
from apfproxy.apiserver.go_values import MAP, mismatch, not_registered, printed
from apfproxy.apiserver.kind import Change, nothing
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.ownership.managed import copied, shown_kind
from apfproxy.apiserver.patch.json_patch import (
    json_patch,
    laid_out,
    merge_patch,
    touched_by,
    unknown_members,
)
from apfproxy.apiserver.patch.strategic import strategic_merge
from apfproxy.apiserver.responses import AVAILABLE, JSON, PROTOBUF, YAML, warn
from apfproxy.apiserver.schema.body import (
    MAGIC,
    MOST_OBJECTS,
    BodyError,
    LostFieldError,
    MessageError,
    Parsed,
    SchemaFor,
    parse_json,
    parse_protobuf,
    parse_yaml,
)
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read, read_in_order
from apfproxy.objects.field_errors import invalid as invalid_field
from apfproxy.objects.go_text import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

LARGEST_BYTES = 3 * 1024 * 1024
"""The largest body; Kubernetes' limit."""
OBJECT_BYTES = 64
"""The weight of an object beside its bytes: its defaults, and the errors of what it has not."""
ITEM_BYTES = 8
"""The weight of a value beside its bytes, for its errors."""
MESSAGE_WEIGHT = 8
"""The weight of a byte of protobuf, in which an object may have two bytes."""
MOST_SHOWN = 30
"""Bytes of a body that a message shows; Kubernetes' number."""

READERS: dict[str, Callable[[bytes, SchemaFor], Parsed]] = {
    JSON: lambda data, _schema_for: parse_json(data),
    YAML: lambda data, _schema_for: parse_yaml(data),
    PROTOBUF: parse_protobuf,
}

TYPE_FIELDS = {"kind": "kind", "apiversion": "apiVersion"}
REGISTERED = frozenset(
    (kind.api_version(version.name), name)
    for kind in KINDS
    for version in kind.versions
    for name in ((kind.name,) if kind.review else (kind.name, f"{kind.name}List"))
) | {
    *((f"{kind.group}/v1beta1", kind.name) for kind in KINDS if kind.review),
    *(("policy/v1", "Eviction"), ("policy/v1beta1", "Eviction"), ("v1", "Status")),
}
"""Versions and kinds that Kubernetes' messages know."""

OPTIONS_KIND = "DeleteOptions"
"""Kubernetes' messages do not name this kind for a body that it cannot read."""

STRICT, IGNORE = "Strict", "Ignore"


def cannot_be_handled(kind: str, api_version: str, wanted: str, why: str) -> StatusError:
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted}: {why}')


class Expected(NamedTuple):
    """The kind that a body has to be of; `set_defaults` gives absent fields their values."""

    kind: str
    api_version: str
    schema: Struct
    set_defaults: Change = nothing


def expected_of(kind: Kind, version: Version) -> Expected:
    return Expected(kind.name, kind.api_version(version.name), version.schema, version.set_defaults)


def too_large(limit: str = str(LARGEST_BYTES)) -> StatusError:
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message, {})


def check_number(data: bytes) -> None:
    if data.count(b"{") + data.count(b"null") > MOST_OBJECTS:
        raise too_large(f"{MOST_OBJECTS} objects")


def weight_of(data: bytes) -> int:
    """How many bytes of usual objects take as long: what is almost empty takes longer."""
    if data.startswith(MAGIC):
        return MESSAGE_WEIGHT * len(data)
    objects = data.count(b"{") + data.count(b"null")
    return len(data) + OBJECT_BYTES * objects + ITEM_BYTES * data.count(b",")


def media_type(content_type: str) -> str:
    """The media type without its parameters; JSON where the client names none."""
    return content_type.partition(";")[0].strip().lower() or JSON


def check_media_type(content_type: str) -> None:
    if media_type(content_type) not in READERS:
        message = (
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(AVAILABLE)
        )
        raise StatusError(415, "UnsupportedMediaType", message)


def parse(
    content_type: str, data: bytes, kind_name: str, schema_for: SchemaFor, api_version: str = ""
) -> Parsed:
    """Parse a body; StatusError 400 or 415.

    `schema_for` knows the structs that it may have: protobuf cannot be read without.  The
    `apiVersion` is that of a body that does not name one.
    """
    check_media_type(content_type)
    try:
        return READERS[media_type(content_type)](data, schema_for)
    except LostFieldError as error:
        message = f"{error} from {PROTOBUF}: send the {kind_name} as {JSON} or {YAML}"
        raise StatusError(415, "UnsupportedMediaType", message) from error
    except MessageError as error:
        own_kind, version = error.kind or kind_name, error.api_version or api_version
        raise cannot_be_handled(own_kind, version, kind_name, str(error)) from error
    except BodyError as error:
        message = str(error)
        if media_type(content_type) == JSON:
            message = f"couldn't get version/kind; json parse error: {message}"
        if kind_name == OPTIONS_KIND:
            raise bad_request(message) from error
        raise _unrecognized(kind_name, message, data) from error


def _unrecognized(kind_name: str, message: str, data: bytes) -> StatusError:
    shown = data[:MOST_SHOWN]
    text = shown.decode(errors="replace") if data.startswith(b"{") else shown.hex()
    text = f"{text} ..." if len(data) > MOST_SHOWN else text or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind_name}): {message} ({text})"
    )


def decode(
    expectations: Sequence[Expected], content_type: str, data: bytes, validation: str
) -> Object:
    """Make a canonical object of a body; StatusError 400 or 415.

    The expectations are versions of one kind, of which the first counts unless the body names
    another.  The validation, `Strict`, `Warn` or `Ignore`, says what becomes of unknown and
    repeated fields.
    """
    expected = expectations[0]
    schemas = {each.api_version: each.schema for each in expectations}

    def schema_for(api_version: str, kind: str) -> Struct | None:
        known = kind in {"", expected.kind}
        return schemas.get(api_version or expected.api_version) if known else None

    parsed = parse(content_type, data, expected.kind, schema_for, expected.api_version)
    if isinstance(parsed.raw, dict):
        sent = parsed.raw.get("apiVersion")
        expected = next((each for each in expectations if each.api_version == sent), expected)
    raw = {} if parsed.raw is None else parsed.raw  # null leaves Go's objects as they are
    check_type(expected, raw, data)
    own = expected.kind, expected.api_version
    try:
        found = read_in_order(expected.schema, raw)
    except MismatchError as error:
        raise cannot_be_handled(*own, expected.kind, str(error)) from error
    # A repeated unknown field is reported as unknown only.
    duplicates = tuple(path for path in parsed.duplicates if path not in found.unknown)
    warnings = () if validation == IGNORE else dropped(duplicates, found.unknown)
    if warnings and validation == STRICT:
        why = f"strict decoding error: {', '.join(warnings)}"
        raise cannot_be_handled(*own, expected.kind, why)
    obj = found.obj
    obj["kind"], obj["apiVersion"] = own
    keep_reset(obj, raw)
    expected.set_defaults(obj)
    obj = canonical(expected.schema, obj)
    warn(warnings)
    return obj


def keep_reset(obj: Object, raw: object) -> None:
    """Keep an empty list of managed fields, by which a client asks to forget all owners."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        obj["metadata"]["managedFields"] = [{}]


def dropped(duplicates: tuple[str, ...], unknown: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *(f'duplicate field "{path}"' for path in duplicates),
        *(f'unknown field "{path}"' for path in unknown),
    )


def check_type(expected: Expected, raw: object, data: bytes = b"") -> None:
    """Raise 400 unless a parsed body is of the kind and version that the path has."""
    wrong = "" if isinstance(raw, dict) else mismatch(raw)
    found = {"kind": expected.kind, "apiVersion": expected.api_version}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        # Names match in any case of letters; the last one counts.
        name = TYPE_FIELDS.get(key.lower())
        if name is None or not value:
            continue
        if isinstance(value, str):
            found[name] = value
        elif not wrong:
            wrong = mismatch(value, f"struct field .{name} of type string")
    if wrong:
        message = f"couldn't get version/kind; json parse error: {wrong}"
        raise _unrecognized(expected.kind, message, data)
    kind, version = found["kind"], found["apiVersion"]
    if (kind, version) == (expected.kind, expected.api_version):
        return
    if (version, kind) not in REGISTERED:
        why = not_registered(kind, version, "kubernetes/pkg/api/legacyscheme/scheme.go:30")
        raise cannot_be_handled(kind, version, expected.kind, why)
    if kind == expected.kind:
        raise bad_request(
            f"the API version in the data ({version}) does not match"
            f" the expected API version ({expected.api_version})"
        )
    short = version.rpartition("/")[2]
    group = expected.api_version.rpartition("/")[0].partition(".")[0] or "core"
    why = f"converting ({short}.{kind}) to ({group}.{expected.kind}): unknown conversion"
    raise cannot_be_handled(kind, version, expected.kind, why)


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


def unsupported_patch_type() -> StatusError:
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


class Patch:
    """A patch of one request, other than an applied configuration, in the form of a version.

    Raises:
        StatusError: 400, the body is no such patch.
    """

    def __init__(
        self, kind: Kind, version: Version, patch_type: str, data: bytes, validation: str
    ) -> None:
        self._expected = expected_of(kind, version)
        self._version = version
        self._type = patch_type
        self._validation = validation
        self.warnings: tuple[str, ...] = ()
        try:
            self._parsed = parse_json(data)
        except BodyError as error:
            prefix = "" if patch_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
            raise bad_request(f"{prefix}{error}") from error
        if patch_type == STRATEGIC_MERGE_PATCH:
            if self._parsed.raw is None:
                self._parsed = Parsed({})
            if not isinstance(self._parsed.raw, dict):
                raise bad_request(mismatch(self._parsed.raw, f"value of type {MAP}"))

    @property
    def copies(self) -> bool:
        """Whether it multiplies what it and the object have; only of one that is well-formed."""
        operations = self._parsed.raw if self._type == JSON_PATCH else None
        return isinstance(operations, list) and any(
            isinstance(each, dict) and each.get("op") == "copy" for each in operations
        )

    def change(self, live: Object) -> Object:
        """The patched object, canonical and with defaults; StatusError if the patch fails."""
        schema = self._version.schema
        raw = copied(self._parsed.raw)  # what comes of it may share parts with it
        unknown_operations: tuple[str, ...] = ()
        if self._type == STRATEGIC_MERGE_PATCH:
            patched = strategic_merge(schema, live, raw)
        elif self._type == MERGE_PATCH:
            patched = merge_patch(live, raw)
        else:
            patched = json_patch(live, raw)
            unknown_operations = unknown_members(self._parsed.raw)
        if self._type != STRATEGIC_MERGE_PATCH:
            # The kind in a strategic merge patch is ignored; the path decides.
            try:
                check_type(self._expected, patched)
            except StatusError as error:
                # Kubernetes' message has the reason alone here.
                reason = error.message.rpartition(f"cannot be handled as a {self._expected.kind}: ")
                raise self._refused(patched, reason[2]) from error
        try:
            found = read(schema, patched)
        except MismatchError as error:
            is_restored = self._type == STRATEGIC_MERGE_PATCH
            raise self._refused(patched, error.restored if is_restored else str(error)) from error
        if self._validation != IGNORE:
            # Members that a patch has merged are in the order of their keys.
            unknown = found.unknown if self._type == JSON_PATCH else tuple(sorted(found.unknown))
            self.warnings = unknown_operations + dropped(self._parsed.duplicates, unknown)
        if self.warnings and self._validation == STRICT:
            raise self._refused(patched, f"strict decoding error: {', '.join(self.warnings)}")
        keep_reset(found.obj, patched)
        self._version.set_defaults(found.obj)
        return canonical(schema, found.obj)

    def _refused(self, patched: Object, reason: str) -> StatusError:
        raw = self._parsed.raw
        if self._type == STRATEGIC_MERGE_PATCH:
            text = printed(raw)
        else:
            touched = touched_by(raw) if self._type == JSON_PATCH else raw
            text = as_json(laid_out(self._version.schema, patched, touched))
        return invalid("", "", "", [invalid_field("patch", text, reason)])


def applied(kind: Kind, version: Version, data: bytes, validation: str) -> tuple[Object, list[str]]:
    """The fields that a body of `APPLY_PATCH` wants to own, as the client wrote them, and warnings.

    Raises:
        StatusError: 400, the body is no configuration of the kind.
    """
    try:
        parsed = parse_yaml(data)
    except BodyError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from error
    raw = {} if parsed.raw is None else parsed.raw
    if not isinstance(raw, dict):
        wrong = f"while decoding JSON: {mismatch(raw, f'value of type {MAP}')}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: {wrong}")
    sent = raw.get("apiVersion") or "", raw.get("kind") or ""
    if sent != (kind.api_version(version.name), kind.name):
        raise bad_request(f"invalid object type: {shown_kind(*sent)}")
    # Fields that the schema does not have are an error in any case, when ownership is worked out.
    warnings = [] if validation == IGNORE else list(dropped(parsed.duplicates, ()))
    if warnings and validation == STRICT:
        raise bad_request(f"error strict decoding YAML: {', '.join(warnings)}")
    return raw, warnings
