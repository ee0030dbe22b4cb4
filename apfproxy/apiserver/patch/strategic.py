"""Strategic merge patches: merge patches that know of lists, and of instructions in the patch.

A patch is merged with an object member by member:

1. null takes the member away;
2. an object is merged with the one that is there, and so are lists that the schema says are merged:
   their items are told apart by the merge key, or by themselves if they are no objects;
3. anything else takes the place of what is there.

The instructions:

- `$patch: replace` in an object replaces the other; as an item of a list, the other items do.
- `$patch: delete` empties an object; as an item of a list, the item of the same merge key goes.
- `$deleteFromPrimitiveList/x`: these values go from the list `x`.
- `$setElementOrder/x`: the list `x` gets this order; items that are not named are not moved.
- `$retainKeys`: all members but these go.

Sources: Kubernetes' contributor documentation, "Strategic Merge Patch"; apimachinery
`pkg/util/strategicpatch` v0.36, which calls some odd patches a fault of the server's (500).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.errors import StatusError, bad_request, unknown_error
from apfproxy.apiserver.go_values import printed
from apfproxy.apiserver.schema.types import List, Map, Scalar, Struct, Type

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList"
ORDER_PREFIX = "$setElementOrder"

BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
BAD_LISTS = {
    ORDER_PREFIX: "invalid patch format of setElementOrder list",
    DELETE_PREFIX: "invalid patch format of primitive list",
}

LONGEST_SHOWN = 200  # characters of an object that a message shows

Identify = Callable[[Any], tuple[type, object]]
"""A function whose result tells an item apart from others: 1, 1.0 and true differ."""


def strategic_merge(schema: Type, obj: Object, patch: Object) -> Object:
    """The object that a strategic merge patch makes of another, which is not changed.

    It shares with both arguments what it has of only one of them.  Fields that the schema does not
    have are merged like others, where the object has no such member, for the reader of the result
    to judge.

    Raises:
        StatusError: The patch or one of its instructions is none (400), or cannot be followed.
    """
    if PATCH in patch:
        return _directed(patch)
    new = dict(obj)
    if RETAIN_KEYS in patch:
        _retain_keys(new, patch)
    fields = schema.by_name if isinstance(schema, Struct) else {}
    settled: set[str] = {RETAIN_KEYS}
    for key, order in patch.items():
        if key.startswith(ORDER_PREFIX):
            name = _list_name(key, ORDER_PREFIX)
            _merge_in_order(schema, new, patch, name, order)
            settled.update((key, name))
    for key, value in patch.items():
        if key in settled:
            continue
        is_deletion = key.startswith(DELETE_PREFIX)
        name = _list_name(key, DELETE_PREFIX) if is_deletion else key
        if value is None:
            new.pop(name, None)
        elif name not in new or type(new[name]) is not type(value):
            if _is_instruction(value):
                new.pop(name, None)
            elif not is_deletion:
                new[name] = _cleaned(value)
        elif isinstance(value, dict) and not (name in fields and fields[name].is_replaced):
            new[name] = strategic_merge(_member_type(schema, name), new[name], value)
        elif isinstance(value, list):
            type_ = _member_type(schema, name)
            new[name] = _merged_list(type_, new[name], value, is_deletion=is_deletion)
        else:
            new[name] = value
    return new


def _directed(patch: Object) -> Object:
    if patch[PATCH] == "delete":
        return {}
    if patch[PATCH] == "replace":
        return {name: value for name, value in patch.items() if name != PATCH}
    raise unknown_error(f"unknown patch type: {printed(patch[PATCH])} in map: {printed(patch)}")


def _retain_keys(new: Object, patch: Object) -> None:
    retained = patch[RETAIN_KEYS]
    if not isinstance(retained, list):
        raise bad_request(BAD_RETAIN_KEYS)
    names = {name for name in retained if isinstance(name, str)}
    for name, value in patch.items():
        is_instruction = name == RETAIN_KEYS or name.startswith((DELETE_PREFIX, ORDER_PREFIX))
        if value is not None and not is_instruction and name not in names:
            raise bad_request(BAD_RETAIN_KEYS)
    for name in new.keys() - names:
        del new[name]


def _list_name(key: str, prefix: str) -> str:
    found, _, name = key.partition("/")
    if found != prefix or not name:
        raise bad_request(BAD_LISTS[prefix])
    return name


def _is_instruction(value: object) -> bool:
    return isinstance(value, dict) and PATCH in value


def _cleaned(value: Any) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, dict):
        return {
            name: _cleaned(member)
            for name, member in value.items()
            if member is not None and not _is_instruction(member)
        }
    if isinstance(value, list):
        return [_cleaned(item) for item in value if not _is_instruction(item)]
    return value


def _member_type(schema: Type, name: str) -> Type:
    """The type of a member; 500 if there is no such member."""
    if isinstance(schema, Map):
        return schema.value
    field = schema.by_name.get(name) if isinstance(schema, Struct) else None
    if field:
        return field.type
    if not isinstance(schema, Struct) or name in schema.kept:
        return Scalar.ANY
    message = f"unable to find api field in struct {schema.name} for the json field"
    raise unknown_error(f"{message} {_shown(name)}")


def _merge_in_order(schema: Type, new: Object, patch: Object, name: str, order: Any) -> None:  # noqa: ANN401  any JSON
    old, change = new.get(name), patch.get(name)
    for value in (order, [] if old is None else old, [] if change is None else change):
        if not isinstance(value, list):
            raise unknown_error(f"expected a []interface {{}}, but received a {_shown(value)}")
    list_type = _member_type(schema, name)
    if not isinstance(list_type, List):
        # The schema does not have the list, so that its items cannot be identified.
        if change is not None:
            new[name] = _cleaned(change)
        return
    identify = _identifier(list_type.merge_key)
    if order and change:
        _check_order(change, order, identify)
    if old is not None and change is not None:
        merged = _merged_list(list_type, old, change)
    else:
        merged = old or _cleaned(change or [])
    if old is not None or change is not None:
        new[name] = _arranged(merged, order, old or [], identify)


def _check_order(change: list[Any], order: list[Any], identify: Identify) -> None:
    """Check that the items of a patch are all in the order it asks for, and in that order."""
    left = iter([identify(item) for item in order])
    for item in change:
        # A membership test takes from the iterator up to the item, so the next is sought after it.
        if not _is_instruction(item) and identify(item) not in left:
            sent = f"The order in patch list:\n{_shown(change)}\n"
            raise unknown_error(f"{sent} doesn't match {ORDER_PREFIX} list:\n{_shown(order)}\n")


def _merged_list(
    list_type: Type, old: list[Any], patch: list[Any], *, is_deletion: bool = False
) -> list[Any]:
    if not isinstance(list_type, List) or not list_type.is_merged:
        return patch
    if not old and not patch:
        return old
    if _item_type(old, patch) is not dict:
        identify = _identifier("")
        changed = {identify(item) for item in patch}
        if is_deletion:
            return [item for item in old if identify(item) not in changed]
        merged = list({identify(item): item for item in [*old, *patch]}.values())
        return _arranged(merged, patch, old, identify)
    if not list_type.merge_key:
        raise unknown_error("cannot merge lists without merge key for type struct")
    identify = _identifier(list_type.merge_key)
    old, patch = _directed_list(old, patch, identify)
    merged = list(old)
    places = _places(old, identify)
    for item in patch:
        place = places.setdefault(identify(item), len(merged))
        if place < len(merged):
            merged[place] = strategic_merge(list_type.item, merged[place], item)
        else:
            merged.append(_cleaned(item))
    return _arranged(merged, patch, old, identify)


def _directed_list(
    old: list[Any], patch: list[Any], identify: Identify
) -> tuple[list[Any], list[Any]]:
    changes = [item for item in patch if PATCH not in item]
    instructions = [item for item in patch if PATCH in item]
    for item in instructions:
        if item[PATCH] == "merge":
            raise unknown_error("merging lists cannot yet be specified in the patch")
        if item[PATCH] not in ("delete", "replace"):  # which may be of any type
            shown = _shown(item[PATCH])
            raise unknown_error(f"unknown patch type: {shown} in map: {_shown(item)}")
    deleted = {identify(item) for item in instructions if item[PATCH] == "delete"}
    if any(item[PATCH] == "replace" for item in instructions):
        return changes, []
    return [item for item in old if identify(item) not in deleted], changes


def _item_type(*lists: list[Any]) -> type:
    """Find the one type of all items; 422 for lists, 500 for several types."""
    types = {type(item) for items in lists for item in items}
    if list in types:
        raise StatusError(422, "Invalid", "lists of lists are not supported", {})
    if len(types) > 1:
        raise unknown_error(f"list element types are not identical: {_shown(lists)}")
    return types.pop()


def _identifier(merge_key: str) -> Identify:
    """Tell items apart by their merge key, or by themselves if there is none."""

    def identify(item: Any) -> tuple[type, object]:  # noqa: ANN401  any JSON
        if merge_key:
            if not isinstance(item, dict):
                wanted = "a map[string]interface {}"
                raise unknown_error(f"expected {wanted}, but received a {_shown(item)}")
            if merge_key not in item:
                missing = f"does not contain declared merge key: {merge_key}"
                raise unknown_error(f"map: {_shown(item)} {missing}")
            item = item[merge_key]
        if isinstance(item, dict | list):
            raise unknown_error(f"no value to compare items by: {_shown(item)}")
        return type(item), item

    return identify


def _arranged(
    items: list[Any], wanted: list[Any], before: list[Any], identify: Identify
) -> list[Any]:
    """The items, some in the wanted order, all others in the one before.

    The two are interleaved as they were before, as far as both orders allow it.
    """
    wanted_places, places = _places(wanted, identify), _places(before, identify)
    nowhere = len(places)

    def place(item: object) -> int:
        return places.get(identify(item), nowhere)

    named = [item for item in items if identify(item) in wanted_places]
    named.sort(key=lambda item: wanted_places[identify(item)])
    others = [item for item in items if identify(item) not in wanted_places]
    others.sort(key=place, reverse=True)  # the next one is last
    arranged = []
    for item in named:
        while others and place(others[-1]) < place(item) < nowhere:
            arranged.append(others.pop())
        arranged.append(item)
    return [*arranged, *reversed(others)]


def _places(items: list[Any], identify: Identify) -> dict[tuple[type, object], int]:
    places: dict[tuple[type, object], int] = {}
    for place, item in enumerate(items):
        places.setdefault(identify(item), place)
    return places


def _shown(value: object) -> str:
    return json.dumps(value)[:LONGEST_SHOWN]
