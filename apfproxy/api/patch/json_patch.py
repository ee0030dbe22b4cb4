"""JSON patches: a list of operations.

The operations are the library's; what is here is Kubernetes' own, which is more lenient in places:

- `replace` of a member that is absent adds it.
- `test` against null passes where a member is absent.
- `copy` of a member that is absent gives null.
- An operation without `value` has the value null.
- The whole document may be tested and replaced, nothing else.
- An index may have a sign and leading zeros; a negative one counts from the end.

Sources: RFC 6902 and RFC 6901; gopkg.in/evanphx/json-patch.v4.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer
import msgspec

from apfproxy.api.patch.errors import PatchError, rejected
from apfproxy.api.patch.merge import DEEPEST, GO_TYPES

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

MOST_OPERATIONS = 10_000
"""Of one patch; Kubernetes' limit."""
MOST_COPIED_BYTES = 3 * 1024 * 1024
"""Of all `copy` operations of one patch, as JSON; Kubernetes' limit."""

INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
UNUSUAL_INDEX = re.compile(r"/(?:[+-][0-9]|0[0-9])")
"""What RFC 6901 does not have for an index; a path without it is as the library wants it."""

TEXT_MEMBERS = ("op", "path", "from")
MEMBERS = frozenset({*TEXT_MEMBERS, "value"})


def json_patch(obj: Object, operations: object) -> Object:
    """Apply a JSON patch.

    Args:
        obj: The object; it is not changed.
        operations: Decoded JSON.

    Returns:
        A new object, which shares nothing with `obj`.

    Raises:
        PatchError: The patch is none (400), too large (413), or does not fit the object (422).
    """
    checked = _checked(operations)
    patched: Any = copy.deepcopy(obj)
    left_bytes = MOST_COPIED_BYTES
    try:
        for operation in checked:
            adapted = _adapted(patched, operation)
            if adapted is None:
                continue
            if adapted["op"] == "copy":
                source = jsonpointer.JsonPointer(adapted["from"]).resolve(patched)
                left_bytes -= len(msgspec.json.encode(source))
                if left_bytes < 0:
                    raise rejected(f"copies make more than {MOST_COPIED_BYTES} bytes")
            patched = jsonpatch.apply_patch(patched, [adapted], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise rejected(str(error)) from error
    except RecursionError:
        raise rejected(f"the result has more than {DEEPEST} levels") from None
    if not isinstance(patched, dict):
        raise rejected("the result is no object")
    if not _is_within(patched, DEEPEST):
        raise rejected(f"the result has more than {DEEPEST} levels")
    return patched


def unknown_members(operations: object) -> tuple[str, ...]:
    """The members of operations that JSON patches do not have, as warnings name them."""
    if not isinstance(operations, list):
        return ()
    return tuple(
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        if isinstance(operation, dict)
        for name in operation
        if name not in MEMBERS
    )


def _checked(operations: object) -> list[dict[str, Any]]:
    """The operations, after a look at their number and the types of their members."""
    if operations is None:
        return []
    if not isinstance(operations, list):
        found = "object" if isinstance(operations, dict) else GO_TYPES[type(operations)]
        raise _mismatch(found, "value of type []handlers.jsonPatchOp")
    if len(operations) > MOST_OPERATIONS:
        raise PatchError(
            413,
            f"Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MOST_OPERATIONS}, got {len(operations)}",
        )
    checked: list[dict[str, Any]] = []
    for operation in operations:
        if operation is None:
            checked.append({})
            continue
        if not isinstance(operation, dict):
            raise _mismatch(GO_TYPES[type(operation)], "value of type handlers.jsonPatchOp")
        for name in TEXT_MEMBERS:
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                found = "object" if isinstance(value, dict) else GO_TYPES[type(value)]
                raise _mismatch(found, f"struct field jsonPatchOp.{name} of type string")
        checked.append(operation)
    return checked


def _mismatch(found: str, wanted: str) -> PatchError:
    """The error of a patch with a value of a wrong type."""
    return PatchError(400, f"error decoding patch: json: cannot unmarshal {found} into Go {wanted}")


def _adapted(document: object, operation: dict[str, Any]) -> dict[str, Any] | None:
    """The operation in the library's terms; None for one that has nothing left to do."""
    kind, path, source = operation.get("op"), operation.get("path"), operation.get("from")
    if kind not in jsonpatch.JsonPatch.operations:
        raise rejected(f"Unexpected kind: {kind or 'unknown'}")
    if path is None or (path == "" and kind not in {"test", "replace"}):
        raise rejected(f"{kind} operation does not apply: doc is missing path: {path!r}")
    value = operation.get("value")
    path = _plain_path(document, path, is_addition=kind in {"add", "copy", "move"})
    adapted = {"op": kind, "path": path, "value": value}
    if kind in {"copy", "move"}:
        if not source:
            raise rejected(f"{kind} operation does not apply: doc is missing from path")
        source = _plain_path(document, source, is_addition=False)
        if kind == "copy" and _is_absent_member(document, source):
            adapted["op"] = "add"
        else:
            adapted["from"] = source
    elif kind == "replace" and _is_absent_member(document, path):
        adapted["op"] = "add"
    elif kind == "test" and value is None and _is_absent_member(document, path):
        return None
    return adapted


def _plain_path(document: object, path: str, *, is_addition: bool) -> str:
    """The path with the indices that RFC 6901 has.

    Args:
        document: That the path leads into.
        path: Perhaps with other indices, which may be beyond their lists.
        is_addition: Whether the place behind the end of the last list counts, too.
    """
    if not UNUSUAL_INDEX.search(path):
        return path
    parts = jsonpointer.JsonPointer(path).parts
    value: Any = document
    for position, part in enumerate(parts):
        if isinstance(value, list) and INDEX.fullmatch(part):
            index = int(part)
            if index < 0:
                is_last = position == len(parts) - 1
                index += len(value) + (is_addition and is_last)
            parts[position] = str(index)
            value = value[index] if 0 <= index < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return str(jsonpointer.JsonPointer.from_parts(parts).path)


def _is_absent_member(document: object, path: str) -> bool:
    """Whether the path names a member that its object, which is there, does not have."""
    parent, name = jsonpointer.JsonPointer(path).to_last(document)
    return isinstance(parent, dict) and name is not None and name not in parent


def _is_within(value: object, levels: int) -> bool:
    """Whether a value has no more levels than these."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list):
        children = value
    return levels > 0 and all(_is_within(child, levels - 1) for child in children)
