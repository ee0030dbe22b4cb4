"""Checking that an applied configuration has the types of its kind.

What is applied never becomes a whole object of its own, so that no decoder reads it; an apply of
what does not fit must fail before anything is merged.

Source: structured-merge-diff v6, validation of typed values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.apiserver.go_values import printed, source, type_name
from apfproxy.apiserver.ownership.field_set import FieldSetError, shown_element
from apfproxy.apiserver.ownership.structure import Items, items_of
from apfproxy.apiserver.schema.types import List, ListType, Map, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.schema.types import Type
    from apfproxy.objects.types import Object

LONGEST_SHOWN: Final = 64 * 1024
"""Characters of a wrong value that a message shows."""

NUMBERS: Final = frozenset({Scalar.INT32, Scalar.INT64})


class AppliedTypeError(ValueError):
    """An applied configuration has not the types of its kind.  At fault: the client.

    Kubernetes answers with code 500 and no reason, and names every field that is wrong.
    """


def check_types(applied: Object, schema: Struct) -> None:
    """Check the types of everything that is applied.

    Raises:
        AppliedTypeError: Something does not fit.
    """
    errors = list(wrong_types(schema, applied, ""))
    if errors:
        metadata = applied.get("metadata")
        names = metadata if isinstance(metadata, dict) else {}
        name = f"{names.get('namespace') or ''}/{names.get('name') or ''}"
        kind = shown_kind(applied["apiVersion"], applied["kind"])
        listed = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
        raise AppliedTypeError(f"failed to create typed patch object ({name}; {kind}): {listed}")


def shown_kind(api_version: object, kind: object) -> str:
    """Group, version and kind as messages name them: `policy/v1, Kind=PodDisruptionBudget`."""
    version = str(api_version)
    return f"{version if '/' in version else f'/{version}'}, Kind={kind}"


def wrong_types(type_: Type, value: object, path: str) -> Iterator[str]:
    """Everything in a value that does not fit its type."""
    if value is None:
        return
    if isinstance(type_, Scalar):
        expected = expected_instead(type_, value)
        if expected:
            yield f"{path}: expected {expected}, got {instead(type_, value)[:LONGEST_SHOWN]}"
    elif isinstance(type_, List):
        yield from wrong_items(type_, value, path)
    elif not isinstance(value, dict):
        yield f"{path}: expected map, got {boxed(value)[:LONGEST_SHOWN]}"
    elif isinstance(type_, Map):
        for key, child in value.items():
            yield from wrong_types(type_.value, child, f"{path}.{key}")
    else:
        for key, child in value.items():
            field = type_.by_name.get(key)
            if field is not None:
                yield from wrong_types(field.type, child, f"{path}.{key}")
            elif not type_.keeps_unknown:
                yield f"{path}.{key}: field not declared in schema"


def expected_instead(scalar: Scalar, value: object) -> str:
    """What should be there instead of a value; "" if it fits."""
    if scalar is Scalar.STRING:
        return "" if isinstance(value, str) else "string"
    if scalar is Scalar.BOOLEAN:
        return "" if isinstance(value, bool) else "boolean"
    if scalar in NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if is_number else "numeric (int or float)"
    is_checked = scalar not in {Scalar.ANY, Scalar.INT_OR_STRING}
    return "any scalar" if is_checked and isinstance(value, dict | list) else ""


def instead(scalar: Scalar, value: object) -> str:
    """A value that is there instead of a scalar, in the words of Go for that."""
    if scalar is Scalar.STRING:
        return f"&value.valueUnstructured{{Value:{source(value)}}}"
    return type_name(value) if scalar in NUMBERS else boxed(value)


def boxed(value: object) -> str:
    """A value in the struct that Go keeps it in."""
    return f"&{{{printed(value)}}}"


def wrong_items(list_: List, value: object, path: str) -> Iterator[str]:
    """Everything in a list that does not fit, its items' keys included."""
    if not isinstance(value, list):
        yield f"{path}: expected list, got {boxed(value)[:LONGEST_SHOWN]}"
        return
    items: Items | None = None if list_.list_type in {ListType.ATOMIC, None} else items_of(list_)
    seen = set()
    for position, item in enumerate(value):
        shown = f"[{position}]"
        if items is not None:
            try:
                element = items.element(item)
            except FieldSetError as error:
                yield f"{path}: element {position}: {error}"
                continue
            shown = shown_element(element)
            if element in seen:
                yield f"{path}: duplicate entries for key {shown}"
            seen.add(element)
        yield from wrong_types(list_.item, item, f"{path}{shown}")
