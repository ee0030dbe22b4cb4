"""Patches from the bodies of requests: what they make of an object.

Source: apiserver's `endpoints/handlers/patch.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.field_errors import invalid as invalid_field
from apfproxy.api.ownership.managed import copied
from apfproxy.api.patch.errors import PatchError
from apfproxy.api.patch.json_patch import json_patch, unknown_members
from apfproxy.api.patch.merge import merge_patch
from apfproxy.api.patch.strategic import strategic_merge
from apfproxy.api.schema.body import BodyError, parse_json, parse_yaml
from apfproxy.api.schema.reading import MismatchError, canonical, read
from apfproxy.apiserver.bodies import IGNORE, STRICT, check_type, dropped, expected_of, keep_reset
from apfproxy.apiserver.errors import StatusError, bad_request, invalid
from apfproxy.apiserver.rendering import encode

if TYPE_CHECKING:
    from apfproxy.api.kind import Kind, Object, Version
    from apfproxy.api.schema.body import Parsed

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


def unsupported_patch_type() -> StatusError:
    """415: no kind of patch."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


class Patch:
    """A patch of one request, other than an applied configuration.

    Args:
        kind: Of the object that it is for.
        version: In whose form it is.
        patch_type: One of `PATCH_TYPES` but `APPLY_PATCH`.
        data: The body.
        validation: `Strict`, `Warn` or `Ignore`, what becomes of unknown and repeated fields.

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
            raise bad_request(f"error decoding patch: {error}") from error

    def __repr__(self) -> str:
        return f"<Patch {self._type} of {self._expected.kind}>"

    def change(self, live: Object) -> Object:
        """What becomes of an object, canonical and with defaults; may be called again.

        Raises:
            StatusError: The patch does not fit the object, or makes none of it.
        """
        raw = copied(self._parsed.raw)  # what comes of it may share parts with it
        unknown_operations: tuple[str, ...] = ()
        try:
            if self._type == JSON_PATCH:
                unknown_operations = unknown_members(raw)
                patched = json_patch(live, raw)
            elif self._type == MERGE_PATCH:
                patched = merge_patch(live, raw)
            else:
                patched = strategic_merge(self._version.schema, live, raw)
        except PatchError as error:
            details: Object | None = {} if error.code != 400 else None  # noqa: PLR2004 - as Kubernetes has it
            raise StatusError(error.code, error.reason, str(error), details) from error
        if self._type != STRATEGIC_MERGE_PATCH:
            # A strategic merge patch is of the kind that its path says, whatever it says itself.
            try:
                check_type(self._expected, patched)
            except StatusError as error:
                raise self._refused(patched, error.message) from error
        try:
            found = read(self._version.schema, patched)
        except MismatchError as error:
            raise self._refused(patched, str(error)) from error
        if self._validation != IGNORE:
            self.warnings = unknown_operations + dropped(self._parsed.duplicates, found.unknown)
        if self.warnings and self._validation == STRICT:
            raise self._refused(patched, f"strict decoding error: {', '.join(self.warnings)}")
        obj = found.obj
        keep_reset(obj, patched)
        self._version.set_defaults(obj)
        return canonical(self._version.schema, obj)

    def _refused(self, patched: Object, reason: str) -> StatusError:
        """422: what the patch made is no object of the kind."""
        shown = self._parsed.raw if self._type == STRATEGIC_MERGE_PATCH else patched
        text = encode(shown).decode()
        return invalid("", "", "", [invalid_field("patch", text, reason)])


def applied(kind: Kind, version: Version, data: bytes, validation: str) -> tuple[Object, list[str]]:
    """The fields that a body of `APPLY_PATCH` wants to own, as the client wrote them.

    Returns:
        The configuration, and warnings.

    Raises:
        StatusError: 400, the body is no configuration of the kind.
    """
    try:
        parsed: Parsed = parse_yaml(data)
    except BodyError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    raw = parsed.raw
    if not isinstance(raw, dict):
        raise bad_request("error decoding YAML: want an object")
    for field in ("apiVersion", "kind"):
        if not raw.get(field):
            raise bad_request(
                f"couldn't get version/kind; json parse error: Object '{field}' is missing"
            )
    check_type(expected_of(kind, version), raw)
    # Fields that the schema does not have are an error in any case, when ownership is worked out.
    warnings = [] if validation == IGNORE else list(dropped(parsed.duplicates, ()))
    if warnings and validation == STRICT:
        raise bad_request(f"error strict decoding YAML: {', '.join(warnings)}")
    return raw, warnings
