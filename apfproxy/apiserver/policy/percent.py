"""Numbers that may be percentages: `3` or `"50%"`.

Source: apimachinery's `util/intstr` and `util/validation`.
"""

from __future__ import annotations

import re

PERCENT = re.compile("[0-9]+%")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    f" '93%', regex used for validation is '{PERCENT.pattern}')"
)
LONGEST_PERCENT = 19
"""Characters: Kubernetes cannot read a number that has more."""


def percentage(value: str) -> int | None:
    """The percentage that a text is; None if it is none."""
    is_readable = PERCENT.fullmatch(value) and len(value) <= LONGEST_PERCENT
    return int(value[:-1]) if is_readable else None


def scaled(value: int | str, total: int) -> int:
    """The number that a value stands for: itself, or a percentage of `total`, rounded up.

    Raises:
        ValueError: The value is a text but no percentage.
    """
    if isinstance(value, int):
        return value
    percent = percentage(value)
    if percent is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-percent * total // 100)
