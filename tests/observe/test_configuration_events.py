"""What the live page tells of the configuration."""

from __future__ import annotations

import pytest

from apfproxy.observe.configuration_events import (
    MAX_EVENTS,
    MAX_MESSAGE_CHARACTERS,
    ConfigurationEvent,
    ConfigurationEvents,
)


@pytest.mark.parametrize(
    ("problems", "dangling", "expected"),
    [
        pytest.param([], [], (False, "Generation 7 is in force"), id="well"),
        pytest.param(
            ["a: broken", "b: broken"],
            ["c"],
            (True, "The last change is not in force: a: broken; b: broken"),
            id="problems",
        ),
        pytest.param(
            [],
            ["FlowSchema c: no level"],
            (True, "Generation 7 is in force, but for: FlowSchema c: no level"),
            id="dangling",
        ),
        pytest.param(
            [str(number) for number in range(13)],
            [],
            (True, "The last change is not in force: 0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more"),
            id="many",
        ),
    ],
)
def test_loaded(problems: list[str], dangling: list[str], expected: tuple[bool, str]) -> None:
    """A load says in words what became of it."""
    events = ConfigurationEvents()

    events.loaded(5.0, 7, problems, dangling)

    is_error, message = expected
    assert [ConfigurationEvent(5.0, message, is_error)] == list(events)


def test_bounds() -> None:
    """Of many events the last are kept, of a long message its start."""
    events = ConfigurationEvents()
    for number in range(MAX_EVENTS + 3):
        events.record(number, "x" * (MAX_MESSAGE_CHARACTERS + 1))

    assert list(range(3, MAX_EVENTS + 3)) == [event.unix_s for event in events]
    assert {"x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"} == {event.message for event in events}
    assert f"<ConfigurationEvents: {MAX_EVENTS}>" == repr(events)
