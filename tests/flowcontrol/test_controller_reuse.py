"""What a controller makes when it is first needed, beforehand, or not again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol import controller as controller_module
from apfproxy.flowcontrol.controller import Checked, Route
from tests.flowcontrol.test_controller import (
    GET_POD,
    controller_of,
    counters_of,
    level_object,
    schema_object,
    user,
)

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject, FlowSchema


def test_what_no_request_used_has_no_counters() -> None:
    """Counters begin with the first request of a FlowSchema, at the level where it is then."""
    controller = controller_of(level_object("a"), schema_object("s", "a"), schema_object("t", "a"))
    assert [] == counters_of(controller)

    found = controller.classify(user("u"), GET_POD)

    assert [found.flow.counters] == counters_of(controller)
    assert ("a", "s") == (found.flow.counters.priority_level, found.flow.counters.flow_schema)
    assert found.flow.counters is controller.classify(user("v"), GET_POD).flow.counters


@pytest.mark.interpreted
def test_only_what_changed_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand objects that come again, equal or the very same, one that changed is checked.

    The same goes for what a commit makes of them.
    """
    objects = [schema_object(f"s-{number}", "a", user_name=f"u-{number}") for number in range(1000)]
    controller = controller_of(level_object("a"), *objects)
    checked: list[str] = []
    routed: list[str] = []

    def check(given: FlowControlObject) -> Checked:
        checked.append(given.metadata.name)
        return Checked(given)

    def route(flow_schema: FlowSchema, *others: Any) -> Route:  # noqa: ANN401 - as Route has them
        routed.append(flow_schema.metadata.name)
        return Route(flow_schema, *others)

    monkeypatch.setattr(controller_module, "Checked", check)
    monkeypatch.setattr(controller_module, "Route", route)
    objects[:500] = [
        schema_object(f"s-{number}", "a", user_name=f"u-{number}") for number in range(500)
    ]
    objects[7] = schema_object("s-7", "a", user_name="other")
    controller.commit(controller.digest([level_object("a"), *objects]))

    assert ["s-7"] == checked == routed
    assert "s-7" == controller.classify(user("other"), GET_POD).flow_schema.metadata.name
    assert "s-8" == controller.classify(user("u-8"), GET_POD).flow_schema.metadata.name


def test_a_digest_makes_new_levels_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit makes no queues; only one that comes twice, of levels that went since, has to."""
    controller = controller_of()
    digest = controller.digest([level_object("a"), schema_object("s", "a")])
    made = digest.new_levels["a"]

    with monkeypatch.context() as patch:
        patch.setattr(controller_module, "QueueSet", None)
        controller.commit(digest)
    assert made is controller.levels["a"]
    controller.commit(controller.digest(()))
    controller.commit(digest)

    assert made is not controller.levels["a"]
    assert "a" == controller.classify(user("u"), GET_POD).level.name
