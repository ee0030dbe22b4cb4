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

from apfproxy.apiserver.go_values import value_name
from apfproxy.apiserver.patch.errors import PatchError
from apfproxy.apiserver.patch.merge import DEEPEST
from apfproxy.objects.documents import is_deep

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

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
    """The object that a JSON patch makes of another, which is not changed and shares nothing.

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
                    raise PatchError(422)
            patched = jsonpatch.apply_patch(patched, [adapted], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise PatchError(422) from error
    except RecursionError:
        raise PatchError(422) from None
    if not isinstance(patched, dict) or is_deep(patched, DEEPEST):
        raise PatchError(422)
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


def _checked(operations: object) -> list[Object]:
    """The operations, after a look at their number and the types of their members."""
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _mismatch(operations, "value of type []handlers.jsonPatchOp")
    if len(operations) > MOST_OPERATIONS:
        raise PatchError(
            413,
            f"Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MOST_OPERATIONS}, got {len(operations)}",
        )
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise _mismatch(operation, "value of type handlers.jsonPatchOp")
        for name in TEXT_MEMBERS:
            value = (operation or {}).get(name)
            if value is not None and not isinstance(value, str):
                raise _mismatch(value, f"struct field jsonPatchOp.{name} of type string")
    return [operation or {} for operation in operations]


def _mismatch(found: object, wanted: str) -> PatchError:
    """The error of a patch with a value of a wrong type."""
    cannot = f"json: cannot unmarshal {value_name(found)} into Go {wanted}"
    return PatchError(400, f"error decoding patch: {cannot}")


def _adapted(document: object, operation: Object) -> Object | None:
    """The operation in the library's terms; None for one that has nothing left to do."""
    kind, path, source = operation.get("op"), operation.get("path"), operation.get("from")
    is_known = kind in jsonpatch.JsonPatch.operations
    if not is_known or path is None or (path == "" and kind not in {"test", "replace"}):
        raise PatchError(422)
    value = operation.get("value")
    path = _plain_path(document, path, is_addition=kind in {"add", "copy", "move"})
    adapted = {"op": kind, "path": path, "value": value}
    if kind in {"copy", "move"}:
        if not source:
            raise PatchError(422)
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
    """The path with the indices that RFC 6901 has, for others, which may be beyond their lists."""
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
