"""The rules of capacities: which amounts of them may be requested.

Source: Kubernetes API reference, "CapacityRequestPolicy"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from apfproxy.apiserver.schema.quantity import NANO, Quantity, parse
from apfproxy.objects.field_errors import (
    FieldError,
    forbidden,
    invalid,
    repeated,
    required,
    too_many,
)

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

MOST_VALUES = 10


def validate_capacity(capacity: Object, path: str, *, is_shared: bool) -> list[FieldError]:
    """All errors of a capacity; only a device that may be allocated several times has a policy."""
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
    kind = "validValues" if values else "validRange"
    if policy.get("default") is None:
        return [required(f"{path}.default", f"required when {kind} is defined")]
    default, whole = parse(policy["default"]), parse(capacity["value"])
    if values:
        return validate_values([parse(each) for each in values], default, whole, f"{path}.{kind}")
    return validate_range(value_range, default, whole, f"{path}.{kind}")


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
        detail = f"option is larger than capacity value: {whole}"
        errors += [
            invalid(f"{path}[{index}]", value.text, detail)
            for index, value in enumerate(values)
            if value > whole
        ]
        errors += repeated([str(integer(value)) for value in values], path)
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
    most = parse(value_range["max"]) if "max" in value_range else None
    rules = [
        ("min", least, least > whole, f"min is larger than capacity value: {whole}"),
        ("min", default, default < least, f"default is less than min: {least}"),
    ]
    if most is not None:
        rules += [
            ("max", least, least > most, f"min is larger than max: {most}"),
            ("max", most, most > whole, f"max is larger than capacity value: {whole}"),
            ("max", default, default > most, f"default is more than max: {most}"),
        ]
    if "step" in value_range:
        step = parse(value_range["step"])
        # Kubernetes 1.36 divides by it without a look; later versions say this.
        rules.append(("step", step, step.nano <= 0, "must be greater than zero"))
        if step.nano > 0:
            detail = f"one step {least + step} is larger than capacity value: {whole}"
            rules.append(("step", step, least + step > whole, detail))
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            for value in (default, *([] if most is None else [most])):
                rest = (integer(value) - integer(least)) % integer(step)
                rules.append(("step", value, rest != 0, detail))
    return [
        invalid(f"{path}.{name}", value.text, detail)
        for name, value, is_wrong, detail in rules
        if is_wrong
    ]


def integer(quantity: Quantity) -> int:
    """The value rounded away from zero, as Kubernetes compares amounts and steps."""
    whole = -(-abs(quantity.nano) // NANO)
    return whole if quantity.nano >= 0 else -whole
