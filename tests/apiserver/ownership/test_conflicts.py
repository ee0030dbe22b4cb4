"""Tests of what is told about conflicts."""

from __future__ import annotations

from apfproxy.apiserver.ownership.conflicts import OwnershipConflicts


def test_one_conflict_is_told_on_one_line() -> None:
    """A single conflict names the manager and the field."""
    error = OwnershipConflicts([('"m1"', ".spec.size")])

    assert 'Apply failed with 1 conflict: conflict with "m1": .spec.size' == error.message
    assert error.message == str(error)
    assert [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "m1"',
            "field": ".spec.size",
        }
    ] == error.causes()


def test_several_conflicts_are_told_by_manager() -> None:
    """Several conflicts are a list for each manager."""
    error = OwnershipConflicts([('"m1"', ".a"), ('"m1"', ".b"), ('"m2" using v1', ".a")])

    assert (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .a\n- .b\n'
        'conflicts with "m2" using v1:\n- .a'
    ) == error.message
    assert ['"m1"', '"m1"', '"m2" using v1'] == [
        cause["message"].removeprefix("conflict with ") for cause in error.causes()
    ]
