"""Patches from the bodies of requests, and their results.

Source: apiserver's `endpoints/handlers/patch.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.bodies import IGNORE, STRICT, check_type, dropped, expected_of, keep_reset
from apfproxy.apiserver.errors import StatusError, bad_request, invalid
from apfproxy.apiserver.go_values import MAP, mismatch, printed
from apfproxy.apiserver.ownership.managed import copied, shown_kind
from apfproxy.apiserver.patch.json_patch import (
    json_patch,
    laid_out,
    merge_patch,
    touched_by,
    unknown_members,
)
from apfproxy.apiserver.patch.strategic import strategic_merge
from apfproxy.apiserver.schema.body import BodyError, Parsed, parse_json, parse_yaml
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read
from apfproxy.objects.field_errors import invalid as invalid_field
from apfproxy.objects.go_text import as_json

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.objects.types import Object

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
