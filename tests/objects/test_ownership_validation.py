"""Tests of the validation of managed fields."""

from __future__ import annotations

import pytest

from apfproxy.objects.field_errors import Reason
from apfproxy.objects.ownership_validation import validate_managed_fields, validate_manager

FIELD = "metadata.managedFields[0]"
ENTRY = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [], id="right"),
        pytest.param({"fieldsType": "", "subresource": "x" * 256}, [], id="still-right"),
        pytest.param(
            {"operation": "Patch"},
            [f'{FIELD}.operation: Invalid value: "Patch": must be `Apply` or `Update`'],
            id="operation",
        ),
        pytest.param(
            {"fieldsType": "V2"},
            [f'{FIELD}.fieldsType: Invalid value: "V2": must be `FieldsV1`'],
            id="type",
        ),
        pytest.param(
            {"manager": "é" * 65},
            [f"{FIELD}.manager: Too long: may not be more than 128 bytes"],
            id="manager",
        ),
        pytest.param(
            {"subresource": "x" * 257},
            [f"{FIELD}.subresource: Too long: may not be more than 256 bytes"],
            id="subresource",
        ),
    ],
)
def test_stored_entries_are_validated(changes: dict[str, object], expected: list[str]) -> None:
    """Every field of an entry that breaks a rule is told."""
    assert expected == [
        str(error)
        for error in validate_managed_fields([{**ENTRY, **changes}], "metadata.managedFields")
    ]


def test_every_character_that_cannot_be_printed_is_told() -> None:
    """Positions count bytes."""
    errors = validate_manager("é\a b\n")

    assert ["fieldManager"] * 2 == [error.field for error in errors]
    assert [Reason.INVALID] * 2 == [error.reason for error in errors]
    assert [
        "invalid character U+0007 (at position 2)",
        "invalid character U+000A (at position 5)",
    ] == [error.detail for error in errors]
