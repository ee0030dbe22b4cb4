"""The order in which Go writes a patched object, for messages that show it.

What a patch touches becomes a map, which is written in the order of its keys; the rest stays text
that was written from structs, in the order of their fields.

Source: the documentation of Go's `encoding/json`; json-patch, `MergePatch` and `Patch.Apply`.
"""

from __future__ import annotations

from typing import Any

from apfproxy.apiserver.schema.types import List, Map, Struct, Type

Touched = dict[str, Any]
"""Names to what is touched below; anything but such a dictionary for the whole value."""


def touched_by(operations: object) -> Touched:
    """What a JSON patch goes through: the parents of what its operations name."""
    touched: Touched = {}
    for operation in operations if isinstance(operations, list) else ():
        for member in ("path", "from"):
            below = touched
            for part in str(operation.get(member, "")).split("/")[1:-1]:
                below = below.setdefault(part.replace("~1", "/").replace("~0", "~"), {})
    return touched


def laid_out(type_: Type | None, value: Any, touched: object) -> Any:  # noqa: ANN401 - JSON
    """A patched value with its members in order, of a type that may be unknown."""
    if isinstance(value, list):
        below = touched if isinstance(touched, dict) else {}
        item = type_.item if isinstance(type_, List) else None
        return [laid_out(item, each, below.get(str(at))) for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if isinstance(touched, dict):
        return {
            name: laid_out(member(type_, name), value[name], touched.get(name))
            for name in sorted(value)
        }
    names = sorted(value) if isinstance(type_, Map) else list(value)
    if isinstance(type_, Struct):
        fields = list(type_.by_name)
        names.sort(key=lambda name: fields.index(name) if name in fields else len(fields))
    return {name: laid_out(member(type_, name), value[name], None) for name in names}


def member(type_: Type | None, name: str) -> Type | None:
    """The type of a member; None if it is not known."""
    if isinstance(type_, Struct):
        field = type_.by_name.get(name)
        return field.type if field else None
    return type_.value if isinstance(type_, Map) else None
