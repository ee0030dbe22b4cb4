"""The rules of capacities: which amounts of them may be requested.

Source: Kubernetes API reference, "CapacityRequestPolicy"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from apfproxy.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
)
from apfproxy.api.quantity import NANO, Quantity, parse

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

MOST_VALUES = 10


def validate_capacity(capacity: Object, path: str, *, is_shared: bool) -> list[FieldError]:
    """All errors of a capacity.

    Args:
        capacity: Of the right types.
        path: Of it.
        is_shared: Whether the device may be allocated several times.
    """
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    path = f"{path}.requestPolicy"
    if not is_shared:
        return [forbidden(path, "allowMultipleAllocations must be true")]
    values, value_range = policy.get("validValues"), policy.get("validRange")
    if values and value_range is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at'
            " the same time"
        )
        return [forbidden(path, detail)]
    if not values and value_range is None:
        return []
    default = policy.get("default")
    if default is None:
        kind = "validValues" if values else "validRange"
        return [required(f"{path}.default", f"required when {kind} is defined")]
    whole = parse(capacity["value"])
    if values:
        parsed = [parse(value) for value in values]
        return validate_values(parsed, parse(default), whole, f"{path}.validValues")
    return validate_range(value_range, parse(default), whole, f"{path}.validRange")


def validate_values(
    values: list[Quantity], default: Quantity, whole: Quantity, path: str
) -> list[FieldError]:
    """All errors of a list of amounts that may be requested."""
    errors = [
        invalid(f"{path}[{index}]", later.text, "values must be sorted in ascending order")
        for index, (earlier, later) in enumerate(pairwise(values), start=1)
        if earlier > later
    ]
    if len(values) > MOST_VALUES:
        # Nothing more is looked at, not even for the default.
        errors.append(too_many(path, len(values), MOST_VALUES))
    else:
        errors += [
            invalid(
                f"{path}[{index}]",
                value.text,
                f"option is larger than capacity value: {whole}",
            )
            for index, value in enumerate(values)
            if value > whole
        ]
        seen = set()
        for index, value in enumerate(values):
            if integer(value) in seen:
                errors.append(duplicate(f"{path}[{index}]", str(integer(value))))
            seen.add(integer(value))
    if len(values) > MOST_VALUES or default not in values:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, default.text, detail))
    return errors


def validate_range(
    value_range: Object, default: Quantity, whole: Quantity, path: str
) -> list[FieldError]:
    """All errors of a range of amounts that may be requested."""
    if value_range.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    least = parse(value_range["min"])
    most = parse(value_range["max"]) if value_range.get("max") is not None else None
    errors: list[FieldError] = []

    def check(name: str, value: Quantity, detail: str, *, is_wrong: bool) -> None:
        if is_wrong:
            errors.append(invalid(f"{path}.{name}", value.text, detail))

    detail = f"min is larger than capacity value: {whole}"
    check("min", least, detail, is_wrong=least > whole)
    check("min", default, f"default is less than min: {least}", is_wrong=default < least)
    if most is not None:
        check("max", least, f"min is larger than max: {most}", is_wrong=least > most)
        detail = f"max is larger than capacity value: {whole}"
        check("max", most, detail, is_wrong=most > whole)
        check("max", default, f"default is more than max: {most}", is_wrong=default > most)
    if value_range.get("step") is None:
        return errors
    step = parse(value_range["step"])
    if step.nano <= 0:
        # Kubernetes 1.36 divides by it without a look; later versions say this.
        check("step", step, "must be greater than zero", is_wrong=True)
        return errors
    detail = f"one step {least + step} is larger than capacity value: {whole}"
    check("step", step, detail, is_wrong=least + step > whole)
    for value in (default, most):
        if value is not None:
            check(
                "step",
                value,
                f"value is not a multiple of a given step ({step}) from ({least})",
                is_wrong=(integer(value) - integer(least)) % integer(step) != 0,
            )
    return errors


def integer(quantity: Quantity) -> int:
    """The value rounded away from zero, as Kubernetes compares amounts and steps."""
    whole = -(-abs(quantity.nano) // NANO)
    return whole if quantity.nano >= 0 else -whole
