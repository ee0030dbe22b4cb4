"""Values as Go prints and names them, for messages that must read like kube-apiserver's.

Sources: Go's documentation of `fmt` and `encoding/json`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from apfproxy.objects.go_text import parse_integer, quoted, refusal

PLAIN_EXPONENTS = range(-4, 6)
INT64 = range(-(1 << 63), 1 << 63)
NAMES = ((bool, "bool"), (str, "string"), (dict, "object"), (list, "array"))
MAP = "map[string]interface {}"
GO_TYPES = {"object": MAP, "array": "[]interface {}"}
TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\"";'
    r' Kind string "json:\"kind,omitempty\"" }'
)


def printed(value: Any) -> str:  # noqa: ANN401  any JSON value
    """The value as `%v` has it; members of objects in the order of their keys."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list):
        return f"[{' '.join(map(printed, value))}]"
    return f"map[{' '.join(f'{key}:{printed(value[key])}' for key in sorted(value))}]"


def source(value: Any) -> str:  # noqa: ANN401  any JSON value
    """The value as `%#v` has it."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(source, value))}}}"
    if isinstance(value, dict):
        members = (f"{quoted(key)}:{source(value[key])}" for key in sorted(value))
        return f"{MAP}{{{', '.join(members)}}}"
    return printed(value)


def type_name(value: object) -> str:
    """The type of the value as `%T` has it."""
    if value is None:
        return "<nil>"
    name = value_name(value)
    if name == "number":
        return "int64" if isinstance(value, int) and value in INT64 else "float64"
    return GO_TYPES.get(name, name)


def value_name(value: object) -> str:
    return next((name for type_, name in NAMES if isinstance(value, type_)), "number")


def mismatch(value: object, wanted: str = f"value of type {TYPE_META}") -> str:
    """Say that a JSON value is not what is wanted, by default an object that has a kind."""
    return f"json: cannot unmarshal {value_name(value)} into Go {wanted}"


def not_registered(kind: str, version: str, scheme: str) -> str:
    return f'no kind "{kind}" is registered for version "{version}" in scheme "k8s.io/{scheme}"'


def number(value: float) -> str:
    """The number as text; one that is no integer of 64 bits is a float, as in decoded JSON."""
    if isinstance(value, int) and value in INT64:
        return str(value)
    # Twice, since what is too large for a float is infinite then, and no error.
    exact = Decimal(repr(float(Decimal(value)))).normalize()
    power = exact.adjusted()
    if not exact or power in PLAIN_EXPONENTS:
        return f"{exact:f}"
    return f"{exact.scaleb(-power)}e{power:+03}"


def parse_uint64(text: str) -> int:
    """Parse an integer without any sign as `strconv.ParseUint` does."""
    if text[:1] in {"+", "-"}:
        raise refusal("ParseUint", text, "invalid syntax")
    return parse_integer("ParseUint", text, 0, (1 << 64) - 1)
