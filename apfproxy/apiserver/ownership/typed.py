"""Comparing, merging and cutting objects by what is owned as one and what is not.

A tree of nodes, made once from the description of a type, says what is owned as one (a leaf), what
by its fields or keys, and what tells the items of a list apart.  Absent is not null here: a field
with null is there.  `ABSENT` stands for no value.

Source: structured-merge-diff v6, package typed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apfproxy.apiserver.go_values import printed, source, type_name
from apfproxy.apiserver.ownership.field_set import (
    SELF,
    FieldSet,
    FieldSetError,
    as_json,
    difference,
    intersection,
    is_member,
    shown_element,
    union,
)
from apfproxy.apiserver.schema.reading import canonical, zero_of
from apfproxy.apiserver.schema.types import List, ListType, Map, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.ownership.field_set import Path
    from apfproxy.apiserver.schema.types import Type
    from apfproxy.objects.types import Object

Value = Any  # JSON that fits its type, null included; in some places `ABSENT`
ABSENT: Final[Value] = object()

LONGEST_SHOWN: Final = 64 * 1024  # characters of a wrong value that a message shows
NOT_IN_SETS: Final[dict[type, str]] = {
    list: "not supported: associative list with lists as elements",
    dict: "associative list without keys has an element that's a map type",
    type(None): "associative list without keys has an element that's an explicit null",
}


@dataclass(slots=True, eq=False)
class Node:
    """How the fields, keys or items of a value are owned.

    Attributes:
        fields: Of a struct: name to path element and what is there; None if that is not owned.
        other: What is at every other key, or what every item is; None if nothing may be there.
        keys: Fields that tell items apart, sorted; none for a set of scalars.
        defaults: Of keys that an item leaves out.
    """

    fields: dict[str, tuple[str, Node] | None]
    other: Node | None = None
    is_list: bool = False
    keys: tuple[str, ...] = ()
    defaults: dict[str, object] | None = None

    def at(self, key: str) -> tuple[str, Node] | None:
        """The path element of a field or key and what is there; None if it is not owned."""
        if key in self.fields:
            return self.fields[key]
        return (f"f:{key}", self.other) if self.other else None

    def below(self, element: str) -> Node | None:
        """The node at a path element; None if nothing is owned there."""
        found = self.fields.get(element[2:])
        return found[1] if found else self.other

    def element(self, item: object) -> str:
        """The path element of an item.

        Raises:
            FieldSetError: It has none, for want of a key or because it is no scalar.
        """
        if not self.keys:
            if isinstance(item, dict | list | None):
                raise FieldSetError(NOT_IN_SETS[type(item)])
            return f"v:{as_json(item)}"
        if not isinstance(item, dict):
            raise FieldSetError("associative list with keys may not have non-map elements")
        values = (self.defaults or {}) | {key: item[key] for key in self.keys if key in item}
        for key in self.keys:
            if key not in values:
                raise FieldSetError(
                    f'associative list with keys has an element that omits key field "{key}" '
                    "(and doesn't have default value)"
                )
        return f"k:{as_json(values)}"


LEAF: Final = Node({})  # owned as one: a scalar, or something atomic
UNTYPED: Final = Node({})
"""Node without a type: an object is owned by its keys, anything else as one."""
UNTYPED.other = UNTYPED


@functools.cache
def node_of(type_: Type, unowned: tuple[Path, ...] = ()) -> Node:
    """The node of a type, without fields that are not owned, by their names from here on."""
    if isinstance(type_, Scalar):
        return UNTYPED if type_ is Scalar.ANY else LEAF
    if isinstance(type_, List):
        return LEAF if type_.list_type in {ListType.ATOMIC, None} else node_of_list(type_)
    if type_.is_atomic:
        return LEAF
    if isinstance(type_, Map):
        return Node({}, node_of(type_.value))
    node = Node({name: (f"f:{name}", UNTYPED) for name in type_.kept})
    for name, field in type_.by_name.items():
        inside = tuple(path[1:] for path in unowned if path[0] == name)
        node.fields[name] = None if () in inside else (f"f:{name}", node_of(field.type, inside))
    return node


def node_of_list(list_: List) -> Node:
    defaults: dict[str, object] = {}
    for name, field in list_.item.by_name.items() if isinstance(list_.item, Struct) else ():
        if name not in list_.list_keys:
            continue
        if field.default is not None:
            defaults[name] = field.default
        elif field.is_always_written and not field.is_pointer and isinstance(field.type, Scalar):
            defaults[name] = zero_of(field.type)  # what Go writes where it is absent
    keys = tuple(sorted(list_.list_keys))
    return Node({}, node_of(list_.item), is_list=True, keys=keys, defaults=defaults)


@functools.cache
def empty(struct: Struct) -> Object:
    """The object in which nothing is set, as Go writes it; not to be changed.

    A creation is an update of it: structs and zero values that are always written have no owner.
    """
    return canonical(struct, {})


def resolved(node: Node, *values: Value) -> Node:
    """The node, or `LEAF` where what has no type is no object: only objects are owned by keys."""
    if node is UNTYPED and not all(isinstance(value, dict) for value in values):
        return LEAF
    return node


def parts(node: Node, value: Value) -> Iterator[tuple[Any, str, Node, Value]]:
    """Each key or index with path element ("" for what is not owned), node and value.

    Raises:
        FieldSetError: An item of a list has no path element.
    """
    if node.is_list:
        assert node.other
        for index, item in enumerate(value):
            yield index, node.element(item), node.other, item
        return
    for key, child in value.items():
        yield key, *(node.at(key) or ("", LEAF)), child


def everything(node: Node, value: Value) -> FieldSet:
    found = fields_of(node, value, is_whole=True)
    return {SELF: {}, **found} if found else {}


def fields_of(node: Node, value: Value, *, is_whole: bool = False) -> FieldSet:
    """The set of an applied value: its leaves, and the items and keys that are in it.

    Named fields with fields of their own are only in the set of a value that is whole: who applies
    a field of a struct does not own the struct.  So are lists owned by their items, even if empty.

    Raises:
        FieldSetError: An item of a list has no path element.
    """
    node = resolved(node, value)
    result: FieldSet = {}
    for key, element, below, child in parts(node, value) if node is not LEAF and value else ():
        if not element:
            continue
        # What is there twice is owned as one.
        inside = {} if element in result else fields_of(below, child, is_whole=is_whole)
        if is_whole or key not in node.fields:
            if inside:
                inside[SELF] = {}
            result[element] = inside
        elif inside or child is None or child == {} or resolved(below, child) is LEAF:
            result[element] = inside
    return result


def differences(node: Node, before: Value, after: Value) -> tuple[FieldSet, FieldSet]:
    """The sets of what is added or modified between two values, and of what is removed."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    if not node.is_list:
        before, after = before or {}, after or {}
        for key in {**before, **after}:
            old, new = before.get(key, ABSENT), after.get(key, ABSENT)
            if old is not new and (found := node.at(key)):
                compare(changed, removed, *found, old, new)
        return changed, removed
    assert node.other
    olds, news = by_element(node, before or []), by_element(node, after or [])
    for element in {**olds, **news}:
        old, new = olds.get(element, [ABSENT]), news.get(element, [ABSENT])
        if len(old) == len(new) == 1:
            compare(changed, removed, element, node.other, old[0], new[0])
        elif old != new:
            # Items that are not unique are owned as one.
            if new[0] is not ABSENT:
                changed[element] = everything(node.other if len(new) == 1 else LEAF, new[0])
            if old[0] is not ABSENT and 1 in {len(old), len(new)}:
                removed[element] = everything(node.other if len(old) == 1 else LEAF, old[0])
    return changed, removed


def compare(
    changed: FieldSet, removed: FieldSet, element: str, node: Node, before: Value, after: Value
) -> None:
    if before == after:
        return
    if after is ABSENT:
        removed[element] = everything(node, before)
    elif before is ABSENT:
        changed[element] = everything(node, after)
    elif resolved(node, before, after) is LEAF or not (before or after):
        changed[element] = {}
    else:
        more, less = differences(node, before, after)
        if more:
            changed[element] = more
        if less:
            removed[element] = less


def by_element(node: Node, items: list[Any]) -> dict[str, list[Any]]:
    """The items by path element, more than one only where keys are not unique."""
    result: dict[str, list[Any]] = {}
    for item in items:
        result.setdefault(node.element(item), []).append(item)
    return result


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for element, inside in fields.items():
        result[element] = inside
        if inside and element != SELF:
            if (below := node.below(element)) is not None:
                result[element] = with_named_fields(below, inside)
            if element[2:] in node.fields:
                result[element] = {SELF: {}, **result[element]}
    return result


def without(node: Node, value: Value, unwanted: FieldSet) -> Value:
    """The value without what the set holds; null where nothing is left of it."""
    node = resolved(node, value)
    if node is LEAF:
        return None if isinstance(value, dict | list) else value
    if not value:
        return None
    left = {}
    for key, element, below, child in parts(node, value):
        gone = unwanted.get(element)
        if gone is None:
            left[key] = child
        elif not is_member(gone):
            left[key] = without(below, child, gone)
    return (list(left.values()) if node.is_list else left) or None


def merged(node: Node, live: Value, applied: Value) -> Value:
    """The live value with the applied one merged into it; shares parts with both.

    Nothing is removed: an applied null or empty value says nothing about what the live one holds.
    """
    node = resolved(node, live, applied)
    if live is ABSENT or node is LEAF or not (live or applied):
        return applied
    if node.is_list:
        return merged_items(node, live or [], applied or [])
    result = dict(live or {})
    for key, child in (applied or {}).items():
        if found := node.at(key):
            result[key] = merged(found[1], result.get(key, ABSENT), child)
    return result


def merged_items(node: Node, live: list[Any], applied: list[Any]) -> list[Any]:
    """The items of both lists: those applied in their new order, the others where they were.

    Where both lists have an item, the live items before it stay before it; the applied ones come
    right before it, or at the end.
    """
    assert node.other
    new = {node.element(item): item for item in applied}
    old = by_element(node, live)
    shared, left = iter([element for element in new if element in old]), iter(new.items())
    result: list[Any] = []
    awaited = next(shared, None)
    for item in [*live, ABSENT]:
        element = None if item is ABSENT else node.element(item)
        if element is None or element == awaited:
            for each, value in left:
                olds = old.get(each, [])
                # Of items that are not unique, none can be told to be the one that is applied.
                result.append(merged(node.other, olds[0] if len(olds) == 1 else ABSENT, value))
                if each == element:
                    break
            awaited = next(shared, None)
        elif element not in new:
            result.append(item)
    return result


def pruned(node: Node, value: Value, last: FieldSet, owned: FieldSet) -> Value:
    """The merged value without what was owned by the last apply and is owned no more."""
    if not difference(last, owned):
        return value
    last = with_named_fields(node, last)
    all_fields = with_named_fields(node, fields_of(node, value))
    kept = with_named_fields(node, fields_of(node, without(node, value, last)))
    kept = union(kept, with_named_fields(node, owned))
    smaller = without(node, value, difference(all_fields, kept))
    # What has no owner stays, as long as the applier never owned it either.
    kept = with_named_fields(node, fields_of(node, smaller))
    return without(node, value, intersection(difference(all_fields, kept), last))


def wrong_types(type_: Type, value: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Find everything in an applied value, which no decoder reads, that does not fit its type.

    The path is in pieces, since a long key may have many fields below it.
    """
    if value is None:
        return
    if isinstance(type_, Scalar):
        if wrong := wrong_scalar(type_, value):
            yield f"{''.join(path)}: expected {wrong[0]}, got {wrong[1][:LONGEST_SHOWN]}"
    elif isinstance(type_, List):
        yield from wrong_items(type_, value, path)
    elif not isinstance(value, dict):
        yield f"{''.join(path)}: expected map, got {boxed(value)[:LONGEST_SHOWN]}"
    elif isinstance(type_, Map):
        for key, child in value.items():
            yield from wrong_types(type_.value, child, (*path, f".{key}"))
    else:
        for key, child in value.items():
            if field := type_.by_name.get(key):
                yield from wrong_types(field.type, child, (*path, f".{key}"))
            elif key not in type_.kept:
                yield f"{''.join(path)}.{key}: field not declared in schema"


def wrong_scalar(scalar: Scalar, value: object) -> tuple[str, str] | None:
    """Say what is expected and what is found, in Go's words; None if the value fits."""
    if scalar is Scalar.STRING:
        if isinstance(value, str):
            return None
        return "string", f"&value.valueUnstructured{{Value:{source(value)}}}"
    if scalar is Scalar.BOOLEAN:
        return None if isinstance(value, bool) else ("boolean", boxed(value))
    if scalar is Scalar.INT32 or scalar is Scalar.INT64:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if is_number else ("numeric (int or float)", type_name(value))
    if scalar is Scalar.ANY or scalar is Scalar.INT_OR_STRING or not isinstance(value, dict | list):
        return None
    return "any scalar", boxed(value)


def boxed(value: object) -> str:
    return f"&{{{printed(value)}}}"


def wrong_items(list_: List, items: object, path: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(items, list):
        yield f"{''.join(path)}: expected list, got {boxed(items)[:LONGEST_SHOWN]}"
        return
    node = node_of(list_)
    seen = set()
    for position, item in enumerate(items):
        try:
            element = f"i:{position}" if node is LEAF else node.element(item)
        except FieldSetError as error:
            yield f"{''.join(path)}: element {position}: {error}"
            return
        shown = shown_element(element)
        if element in seen:
            yield f"{''.join(path)}: duplicate entries for key {shown}"
        seen.add(element)
        yield from wrong_types(list_.item, item, (*path, shown))
