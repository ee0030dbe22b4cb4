"""JSON patches, a list of operations, and merge patches, an object of what is to be changed.

Kubernetes is more lenient than RFC 6902 in places:

- `replace` of a member that is absent adds it; `copy` of one gives null.
- `test` against null passes where a member is absent.
- An operation without `value` has the value null.
- The whole document may be tested and replaced, nothing else.
- An index may have a sign and leading zeros; a negative one counts from the end.

Sources: RFC 6902, RFC 6901 and RFC 7386; gopkg.in/evanphx/json-patch.v4.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request
from apfproxy.apiserver.go_values import MAP, mismatch
from apfproxy.apiserver.ownership.managed import copied
from apfproxy.apiserver.schema.types import List, Map, Struct, Type
from apfproxy.objects.documents import is_deep

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

DEEPEST: Final = 200
"""Levels of a patched object: far more than any has, far fewer than exhaust the stack."""
MOST_OPERATIONS: Final = 10_000  # of one patch, as in Kubernetes
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024  # of all copies of one patch, as JSON; as in Kubernetes

INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)

OPERATIONS: Final = frozenset({"add", "copy", "move", "remove", "replace", "test"})
TEXT_MEMBERS: Final = ("op", "path", "from")
MEMBERS: Final = frozenset({*TEXT_MEMBERS, "value"})


def rejected() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})  # Kubernetes says no more


def json_patch(obj: Object, operations: object) -> Object:
    """The object that a JSON patch makes of another, which is not changed.

    The result may share parts with the values in the operations, which may be changed.

    Raises:
        StatusError: The patch is none (400), too large (413), or does not fit the object (422).
    """
    checked = _checked(operations)
    whole: dict[str, Any] = {"": copied(obj)}
    left_bytes = MOST_COPIED_BYTES
    try:
        for operation in checked:
            kind, path, value = (operation.get(name) for name in ("op", "path", "value"))
            if kind not in OPERATIONS or path is None:
                raise rejected()
            if kind in {"copy", "move"}:
                source = _found(whole[""], operation.get("from") or "")
                value = _value_at(*source)
                if kind == "move":
                    _remove(*source)
                elif (left_bytes := left_bytes - len(msgspec.json.encode(value))) < 0:
                    raise rejected()
                else:
                    value = copied(value)
            is_whole = not path and kind in {"replace", "test"}
            parent, name = (whole, "") if is_whole else _found(whole[""], path)
            if kind == "remove":
                _remove(parent, name)
            elif kind == "replace":
                parent[_place(parent, name)] = value
            elif kind != "test":
                _add(parent, name, value)
            elif len({json.dumps(v, sort_keys=True) for v in (_value_at(parent, name), value)}) > 1:
                raise rejected()
        if not isinstance(whole[""], dict) or is_deep(whole, DEEPEST + 1):
            raise rejected()
    except RecursionError:
        raise rejected() from None
    return whole[""]


def _checked(operations: object) -> list[Object]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _mismatch(operations, "value of type []handlers.jsonPatchOp")
    if len(operations) > MOST_OPERATIONS:
        allowed = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}"
        message = f"Request entity too large: {allowed}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise _mismatch(operation, "value of type handlers.jsonPatchOp")
        for name in TEXT_MEMBERS:
            value = (operation or {}).get(name)
            if value is not None and not isinstance(value, str):
                raise _mismatch(value, f"struct field jsonPatchOp.{name} of type string")
    return [operation or {} for operation in operations]


def _mismatch(found: object, wanted: str) -> StatusError:
    return bad_request(f"error decoding patch: {mismatch(found, wanted)}")


def _found(document: Any, path: str) -> tuple[Any, str]:  # noqa: ANN401  any JSON
    _, *names = path.split("/")
    if not names:
        raise rejected()
    *parents, name = [part.replace("~1", "/").replace("~0", "~") for part in names]
    for parent in parents:
        document = _value_at(document, parent)
    if not isinstance(document, dict | list):
        raise rejected()
    return document, name


def _place(parent: Any, name: str, *, size: int = 0) -> Any:  # noqa: ANN401  a key or an index
    """The key, or the index in a list that has so many items more."""
    if not isinstance(parent, list):
        return name
    size += len(parent)
    if not INDEX.fullmatch(name):
        raise rejected()
    index = int(name)
    if not -size <= index < size:
        raise rejected()
    return index % size


def _value_at(parent: Any, name: str) -> Any:  # noqa: ANN401  any JSON
    """The value there; null for an absent member."""
    if isinstance(parent, dict):
        return parent.get(name)
    if not isinstance(parent, list):
        raise rejected()
    return parent[_place(parent, name)]


def _add(parent: Any, name: str, value: object) -> None:  # noqa: ANN401  an object or a list
    if isinstance(parent, dict):
        parent[name] = value
    elif name == "-":
        parent.append(value)
    else:
        parent.insert(_place(parent, name, size=1), value)


def _remove(parent: Any, name: str) -> None:  # noqa: ANN401  an object or a list
    place = _place(parent, name)
    if isinstance(parent, dict) and place not in parent:
        raise rejected()
    del parent[place]


def unknown_members(operations: list[Object] | None) -> tuple[str, ...]:
    """The members of valid operations that JSON patches do not have, as warnings name them."""
    return tuple(
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations or ())
        for name in operation
        if name not in MEMBERS
    )


def merge_patch(obj: Object, patch: object) -> Object:
    """The object that a merge patch makes of another, which is not changed.

    It shares with both arguments what it has of only one of them.

    Raises:
        StatusError: 400, the patch is no object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise _mismatch(patch, f"value of type {MAP}")
    return _merged(obj, patch)


def _merged(old: object, patch: Object) -> Object:
    new: dict[str, Any] = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = _merged(new.get(name), value) if isinstance(value, dict) else value
    return new


def laid_out(type_: Type | None, value: Any, touched: object) -> Any:  # noqa: ANN401 - JSON
    """A patched value with its members in the order in which Go writes them, for messages.

    Parts that a patch touches, names to what is touched below, become maps, in the order of their
    keys; the rest stays text that was written from structs, in the order of fields.
    """
    below = touched if isinstance(touched, dict) else {}
    if isinstance(value, list):
        item = type_.item if isinstance(type_, List) else None
        return [laid_out(item, each, below.get(str(at))) for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    fields = type_.by_name if isinstance(type_, Struct) else {}
    names = list(value)
    if isinstance(touched, dict) or isinstance(type_, Map):
        names.sort()
    elif fields:
        places = {name: place for place, name in enumerate(fields)}
        names.sort(key=lambda name: places.get(name, len(places)))
    other = type_.value if isinstance(type_, Map) else None
    types = {name: fields[name].type if name in fields else other for name in names}
    return {name: laid_out(types[name], value[name], below.get(name)) for name in names}


def touched_by(operations: list[Object] | None) -> dict[str, Any]:
    """The parents of all places that the operations of a valid JSON patch name."""
    touched: dict[str, Any] = {}
    for operation in operations or ():
        for member in ("path", "from"):
            below = touched
            for part in str(operation.get(member, "")).split("/")[1:-1]:
                below = below.setdefault(part.replace("~1", "/").replace("~0", "~"), {})
    return touched
