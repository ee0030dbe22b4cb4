"""Numbers that may be percentages: `3` or `"50%"`.

Source: apimachinery's `util/intstr` and `util/validation`.
"""

from __future__ import annotations

import re

IntOrString = int | str
"""A number, or a percentage such as `50%`."""

PERCENT = re.compile("[0-9]+%")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    f" '93%', regex used for validation is '{PERCENT.pattern}')"
)


def check_percent(value: str) -> list[str]:
    """What keeps a text from being a percentage."""
    return [] if PERCENT.fullmatch(value) else [PERCENT_RULE]


def percentage(value: IntOrString) -> int | None:
    """The percentage that a value is; None for a number, and for what is neither."""
    if isinstance(value, str) and PERCENT.fullmatch(value):
        return int(value[:-1])
    return None


def scaled(value: IntOrString, total: int) -> int:
    """The number that a value stands for.

    Args:
        value: A number, which is the result, or a percentage of `total`, which is rounded up.
        total: What 100 % is.

    Raises:
        ValueError: If the value is a text but no percentage.
    """
    if isinstance(value, int):
        return value
    percent = percentage(value)
    if percent is None:
        message = "invalid value for IntOrString: invalid type: string is not a percentage"
        raise ValueError(message)
    return -(-percent * total // 100)
