"""Comparing, merging and cutting objects by what is owned as one and what is not.

Absent is not null here: a field with null is there.  `ABSENT` stands for no value.

Source: structured-merge-diff v6, package typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apfproxy.apiserver.ownership.field_set import (
    SELF,
    FieldSet,
    difference,
    intersection,
    is_member,
    union,
)
from apfproxy.apiserver.ownership.structure import LEAF, UNTYPED, Branch, Items, Leaf

if TYPE_CHECKING:
    from apfproxy.apiserver.ownership.structure import Node

Value = Any
"""JSON that fits its type, null included; in some places `ABSENT`."""

ABSENT: Final[Value] = object()
"""No value, not even null."""

STRIPPED: Final = frozenset({"apiVersion", "kind"})
"""Fields of an object that nobody owns."""
STRIPPED_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
"""Fields of an object's metadata that nobody owns."""


def compare_objects(
    structure: Node, old: dict[str, Any], new: dict[str, Any], unowned: frozenset[str]
) -> tuple[FieldSet, FieldSet]:
    """What is added or modified between canonical objects, and what is removed, `unowned` apart."""
    assert isinstance(structure, Branch)
    changed: FieldSet = {}
    removed: FieldSet = {}
    for name, (element, node) in structure.fields.items():
        if name in unowned:
            continue
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if name == "metadata":
            before, after = (
                {key: value for key, value in each.items() if key not in STRIPPED_METADATA}
                for each in (old.get(name) or {}, new.get(name) or {})
            )
        compare_into(changed, removed, element, node, before, after)
    return changed, removed


def compare_into(
    changed: FieldSet, removed: FieldSet, element: str, node: Node, before: Value, after: Value
) -> None:
    """Add to both sets what differs between two values at a path element."""
    if after is ABSENT:
        if before is not ABSENT:
            removed[element] = everything(node, before)
    elif before is ABSENT:
        changed[element] = everything(node, after)
    elif before != after:
        more, less = differences(node, before, after)
        if more is not None:
            changed[element] = more
        if less is not None:
            removed[element] = less


def resolved(node: Node, *values: Value) -> Node:
    """The node, or `LEAF` where what has no type is no object: only objects are owned by keys."""
    if node is UNTYPED and not all(isinstance(value, dict) for value in values):
        return LEAF
    return node


def everything(node: Node, value: Value) -> FieldSet:
    """The set of a value and all that is in it, itself included."""
    node = resolved(node, value)
    if not value or isinstance(node, Leaf):
        return {}
    result: FieldSet = {SELF: {}}
    if isinstance(node, Branch):
        for key, child in value.items():
            if (found := node.at(key)) is not None:
                result[found[0]] = everything(found[1], child)
        return result
    for item in value:
        element = node.element(item)
        # What is there twice is owned as one.
        result[element] = {} if element in result else everything(node.item, item)
    return result


def differences(node: Node, before: Value, after: Value) -> tuple[FieldSet | None, FieldSet | None]:
    """What is added or modified between two values that are not equal, and what is removed."""
    node = resolved(node, before, after)
    if isinstance(node, Leaf) or not (before or after):
        return {}, None
    changed: FieldSet = {}
    removed: FieldSet = {}
    if isinstance(node, Branch):
        before, after = before or {}, after or {}
        for key in {**before, **after}:
            if (found := node.at(key)) is not None:
                old, new = before.get(key, ABSENT), after.get(key, ABSENT)
                compare_into(changed, removed, found[0], found[1], old, new)
    else:
        compare_items(changed, removed, node, before or [], after or [])
    return changed or None, removed or None


def compare_items(
    changed: FieldSet, removed: FieldSet, node: Items, before: list[Any], after: list[Any]
) -> None:
    """Add to both sets what differs between the items of two lists, their order apart."""
    old, new = by_element(node, before), by_element(node, after)
    for element in {**old, **new}:
        olds, news = old.get(element, []), new.get(element, [])
        if len(olds) <= 1 and len(news) <= 1:
            one, other = (olds or [ABSENT])[0], (news or [ABSENT])[0]
            compare_into(changed, removed, element, node.item, one, other)
        elif olds != news:
            # Items that are not unique are owned as one.
            if len(news) > 1:
                changed[element] = {}
            elif news:
                changed[element] = everything(node.item, news[0])
            if len(olds) > 1 and len(news) <= 1:
                removed[element] = {}
            elif len(olds) == 1:
                removed[element] = everything(node.item, olds[0])


def by_element(node: Items, items: list[Any]) -> dict[str, list[Any]]:
    """The items by path element, in order; more than one only where keys are not unique."""
    result: dict[str, list[Any]] = {}
    for item in items:
        result.setdefault(node.element(item), []).append(item)
    return result


def fields_of(node: Node, value: Value) -> FieldSet:
    """The set of an applied value: its leaves, and the items and keys that are in it.

    Named fields with fields of their own are not in it: who applies a field of a struct does not
    own the struct.  Nor are lists owned by their items, empty ones included.

    Raises:
        FieldSetError: An item of a list has no path element.
    """
    result: FieldSet = {}
    node = resolved(node, value)
    if isinstance(node, Leaf) or not value:
        return result
    if isinstance(node, Items):
        for item in value:
            element = node.element(item)
            # What is there twice is owned as one.
            inside = {} if element in result else fields_of(node.item, item)
            result[element] = {SELF: {}, **inside} if inside else {}
        return result
    for key, child in value.items():
        if (found := node.at(key)) is None:
            continue
        element, below = found
        inside = fields_of(below, child)
        if key not in node.fields:
            result[element] = {SELF: {}, **inside} if inside else {}
        elif inside or child is None or child == {} or isinstance(resolved(below, child), Leaf):
            result[element] = inside
    return result


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    """The set with all named fields that have members below them."""
    result: FieldSet = {}
    for element, inside in fields.items():
        if element == SELF or not inside:
            result[element] = inside
            continue
        is_named = isinstance(node, Branch) and element[2:] in node.fields
        below = node_below(node, element)
        result[element] = inside if below is None else with_named_fields(below, inside)
        if is_named and SELF not in inside:
            result[element] = {SELF: {}, **result[element]}
    return result


def node_below(node: Node, element: str) -> Node | None:
    """What is at a path element; None if nothing is owned there."""
    if isinstance(node, Items):
        return node.item
    found = node.at(element[2:]) if isinstance(node, Branch) else None
    return found[1] if found else None


def without(node: Node, value: Value, unwanted: FieldSet) -> Value:
    """The value without what the set holds; null where nothing is left of it."""
    node = resolved(node, value)
    if isinstance(node, Leaf):
        return None if isinstance(value, dict | list) else value
    if not value:
        return None
    if isinstance(node, Items):
        items = []
        for item in value:
            below = unwanted.get(node.element(item))
            if below is None:
                items.append(item)
            elif not is_member(below):
                items.append(without(node.item, item, below))
        return items or None
    result = {}
    for key, child in value.items():
        found = node.at(key)
        below = unwanted.get(found[0]) if found else None
        if found is None or below is None:
            result[key] = child
        elif not is_member(below):
            result[key] = without(found[1], child, below)
    return result or None


def merged(node: Node, live: Value, applied: Value) -> Value:
    """The live value with the applied one merged into it; shares parts with both.

    Nothing is removed: an applied null or empty value says nothing about what the live one holds.
    """
    if applied is ABSENT:
        return live
    node = resolved(node, live, applied)
    if live is ABSENT or isinstance(node, Leaf) or not (live or applied):
        return applied
    if isinstance(node, Items):
        return merged_items(node, live or [], applied or [])
    result = dict(live or {})
    for key, child in (applied or {}).items():
        if (found := node.at(key)) is not None:
            result[key] = merged(found[1], result.get(key, ABSENT), child)
    return result


def merged_items(node: Items, live: list[Any], applied: list[Any]) -> list[Any]:
    """The items of both lists: those applied in their new order, the others where they were.

    Where both lists have an item, the live items before it stay before it; the applied ones come
    right before it, or at the end.
    """
    new = {node.element(item): item for item in applied}
    old = by_element(node, live)
    shared = [element for element in new if element in old]
    shared.reverse()
    waiting = list(reversed(new))
    result = []

    def take_to(last: str | None) -> None:
        while waiting:
            element = waiting.pop()
            olds = old.get(element, [])
            # Of items that are not unique, none can be told to be the one that is applied.
            one = olds[0] if len(olds) == 1 else ABSENT
            result.append(merged(node.item, one, new[element]))
            if element == last:
                return

    for item in live:
        element = node.element(item)
        if element not in new:
            result.append(item)
        elif shared and element == shared[-1]:
            take_to(shared.pop())
    take_to(None)
    return result


def pruned(node: Node, value: Value, last: FieldSet, owned: FieldSet) -> Value:
    """The merged value without what its applier no longer applies and nobody owns.

    Args:
        node: Of the value.
        value: The live value with the applied one merged into it.
        last: What the applier owned before.
        owned: What anybody owns now, the applier included.
    """
    if not difference(last, owned):
        return value
    last = with_named_fields(node, last)
    all_fields = with_named_fields(node, fields_of(node, value))
    kept = with_named_fields(node, fields_of(node, without(node, value, last)))
    kept = union(kept, with_named_fields(node, owned))
    smaller = without(node, value, difference(all_fields, kept))
    # What nobody owns stays, as long as the applier never owned it either.
    kept = with_named_fields(node, fields_of(node, smaller))
    return without(node, value, intersection(difference(all_fields, kept), last))
