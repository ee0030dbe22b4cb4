"""Values as Go prints them, for messages that must read like kube-apiserver's.

Source: Go's documentation of `fmt`.
"""

from __future__ import annotations

from typing import Any

from apfproxy.objects.go_text import parse_integer, quoted, refusal

LEAST_PLAIN_EXPONENT = -4
MOST_PLAIN_EXPONENT = 6
"""Floats from 1e6 on are written with an exponent."""
LARGEST_INT64 = 2**63 - 1


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
        return f"map[string]interface {{}}{{{', '.join(members)}}}"
    return printed(value)


def type_name(value: Any) -> str:  # noqa: ANN401  any JSON value
    """The type of the value as `%T` has it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -LARGEST_INT64 - 1 <= value <= LARGEST_INT64 else "float64"
    if isinstance(value, str | float):
        return "string" if isinstance(value, str) else "float64"
    if isinstance(value, list):
        return "[]interface {}"
    return "<nil>" if value is None else "map[string]interface {}"


def number(value: float) -> str:
    """A number; one that is no integer of 64 bits is a float, as in decoded JSON."""
    if isinstance(value, int) and -LARGEST_INT64 - 1 <= value <= LARGEST_INT64:
        return str(value)
    mantissa, _, exponent = repr(float(value)).partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = fraction if fraction != "0" else ""
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1 if digits else 0
    digits = digits.rstrip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    if LEAST_PLAIN_EXPONENT <= power < MOST_PLAIN_EXPONENT:
        return mantissa.removesuffix(".0")
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02}"


def parse_uint64(text: str) -> int:
    """Parse an integer without any sign as `strconv.ParseUint` does."""
    if text[:1] in {"+", "-"}:
        raise refusal("ParseUint", text, "invalid syntax")
    return parse_integer("ParseUint", text, 0, (1 << 64) - 1)
