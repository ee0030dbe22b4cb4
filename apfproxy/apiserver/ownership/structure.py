"""How the fields of a type are owned, in tables made once from its description.

Of the description only this matters here: what is owned as one (a leaf), what is owned by its
fields or keys, and by what the items of a list are told apart.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.ownership.field_set import FieldSetError, as_json
from apfproxy.apiserver.schema.reading import canonical, zero_of
from apfproxy.apiserver.schema.types import List, ListType, Map, Scalar, Struct

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Type


@dataclass(frozen=True, slots=True)
class Leaf:
    """Owned as one: a scalar, or something atomic."""


LEAF = Leaf()


@dataclass(slots=True, eq=False)
class Branch:
    """Owned by its fields or keys.

    Attributes:
        fields: Of a struct: name to path element and what is there.
        value: Of a map, and of a struct that keeps unknown fields: what is at every other key.
    """

    fields: dict[str, tuple[str, Node]]
    value: Node | None = None

    def at(self, key: str) -> tuple[str, Node] | None:
        """The path element of a field or key and what is there; None if nothing may be there."""
        found = self.fields.get(key)
        if found is None and self.value is not None:
            return f"f:{key}", self.value
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A list whose items are owned one by one.

    Attributes:
        item: What every item is.
        keys: Fields that tell items apart, sorted; none for a set of scalars.
        defaults: Of keys: their values where an item leaves them out.
    """

    item: Node
    keys: tuple[str, ...]
    defaults: dict[str, object]

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
        values = self.defaults | {key: item[key] for key in self.keys if key in item}
        for key in self.keys:
            if key not in values:
                raise FieldSetError(
                    f'associative list with keys has an element that omits key field "{key}" '
                    "(and doesn't have default value)"
                )
        return f"k:{as_json(values)}"


NOT_IN_SETS = {
    list: "not supported: associative list with lists as elements",
    dict: "associative list without keys has an element that's a map type",
    type(None): "associative list without keys has an element that's an explicit null",
}

Node = Leaf | Branch | Items

UNTYPED = Branch({})
"""Of what has no type: an object is owned by its keys, anything else as one."""
UNTYPED.value = UNTYPED


@functools.cache
def structure(struct: Struct) -> Branch | Leaf:
    """The tables of a struct and everything below it."""
    if struct.is_atomic:
        return LEAF
    fields = {field.name: (f"f:{field.name}", node_of(field.type)) for field in struct.fields}
    return Branch(fields, UNTYPED if struct.keeps_unknown else None)


def node_of(type_: Type) -> Node:
    """The tables of a type."""
    if isinstance(type_, Scalar):
        return UNTYPED if type_ is Scalar.ANY else LEAF
    if isinstance(type_, Struct):
        return structure(type_)
    if isinstance(type_, Map):
        return LEAF if type_.is_atomic else Branch({}, node_of(type_.value))
    if type_.list_type in {ListType.ATOMIC, None}:
        return LEAF
    return items_of(type_)


def items_of(list_: List) -> Items:
    """The tables of a list that is owned by its items."""
    return Items(node_of(list_.item), tuple(sorted(list_.list_keys)), defaults_of(list_))


def defaults_of(list_: List) -> dict[str, object]:
    """The defaults of the keys of a list's items."""
    if not isinstance(list_.item, Struct):
        return {}
    defaults: dict[str, object] = {}
    for key in list_.list_keys:
        field = list_.item.by_name[key]
        if field.default is not None:
            defaults[key] = field.default
        elif field.is_always_written and not field.is_pointer and isinstance(field.type, Scalar):
            defaults[key] = zero_of(field.type)  # what Go writes where it is absent
    return defaults


@functools.cache
def empty(struct: Struct) -> dict[str, Any]:
    """What Go writes for an object of this type in which nothing is set; not to be changed.

    A creation is an update of it: so nobody owns a struct that is always there, or a zero value
    that is always written.
    """
    return canonical(struct, {})
