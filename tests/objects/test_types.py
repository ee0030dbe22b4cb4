"""Tests of typed objects."""

from __future__ import annotations

from uuid import UUID

from apfproxy.objects.types import (
    FlowSchema,
    ObjectMeta,
    PriorityLevelConfiguration,
    stable_uid,
)


def test_stable_uid() -> None:
    """A uid is kept; without one it depends on kind and name alone."""
    a = FlowSchema(metadata=ObjectMeta(name="a"))
    made = stable_uid(a)

    assert "u-1" == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", uid="u-1")))
    assert made == str(UUID(made))
    assert made == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", annotations={"x": "y"})))
    assert made != stable_uid(FlowSchema(metadata=ObjectMeta(name="b")))
    assert made != stable_uid(PriorityLevelConfiguration(metadata=a.metadata))
