"""Structs of classes that describe their fields themselves: see `apfproxy.objects.types`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, Struct
from apfproxy.objects.types import Member, Model, members_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.apiserver.schema.types import Type, Union

SCALARS = {
    (str, ""): Scalar.STRING,
    (str, "date-time"): Scalar.TIME,
    (bool, ""): Scalar.BOOLEAN,
    (int, ""): Scalar.INT32,
    (int, "int64"): Scalar.INT64,
}
"""By type in Python and format."""


def struct_of(
    model: type[Model],
    package: str,
    unions: Mapping[str, Union],
    *,
    name: str = "",
    is_atomic: bool = False,
) -> Struct:
    """The struct of a class, and of all classes in it.

    Args:
        model: The class; its docstring is the description.
        package: Of the structs.
        unions: Of structs that have one, by their names.
        name: Of the struct, if it is not that of the class.
        is_atomic: As `Struct` has it.
    """
    fields = tuple(
        Field(
            field,
            type_of(member, package, unions),
            member.wire.text,
            is_pointer=member.is_pointer,
            is_always_written=member.wire.is_written,
            is_required=member.wire.is_required,
            number=member.wire.number,
        )
        for field, member in members_of(model).items()
    )
    description = " ".join((model.__doc__ or "").split())
    name = name or model.__name__
    return Struct(name, fields, package, description, is_atomic, unions.get(name))


def type_of(member: Member, package: str, unions: Mapping[str, Union]) -> Type:
    """The type of a field; lists of texts are sets."""
    kind: Type
    if issubclass(member.type, Model):
        kind = struct_of(member.type, package, unions)
    elif member.type is dict:
        kind = Map(Scalar.STRING)
    else:
        kind = SCALARS[member.type, member.wire.format]
    if not member.is_list:
        return kind
    return List(kind, ListType.SET if kind is Scalar.STRING else ListType.ATOMIC)
