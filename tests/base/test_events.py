"""What the live page tells of the configuration."""

from __future__ import annotations

import pytest

from apfproxy.base.events import (
    MAX_EVENTS,
    MAX_MESSAGE_CHARACTERS,
    ConfigurationEvent,
    ConfigurationEvents,
    shortfall,
)

NOT_TAKEN = "the last change is not in force: "
LEFT_OUT = "what is not valid stays as it last was valid, or is left out: "


@pytest.mark.parametrize(
    ("problems", "dangling", "is_whole", "expected_lacking", "expected_message"),
    [
        pytest.param([], [], True, "", "Generation 7 is in force", id="files-well"),
        pytest.param([], [], False, "", "Generation 7 is in force", id="objects-well"),
        pytest.param(
            ["a: broken", "b: broken"],
            [],
            True,
            f"{NOT_TAKEN}a: broken; b: broken",
            "The last change is not in force: a: broken; b: broken",
            id="files-problems",
        ),
        pytest.param(
            ["a: broken", "b: broken"],
            [],
            False,
            f"{LEFT_OUT}a: broken; b: broken",
            f"Generation 7 is in force, but {LEFT_OUT}a: broken; b: broken",
            id="objects-problems",
        ),
        pytest.param(
            [],
            ["FlowSchema c: no level"],
            True,
            "FlowSchema c: no level",
            "Generation 7 is in force, but for: FlowSchema c: no level",
            id="dangling",
        ),
        pytest.param(
            ["a: broken"],
            ["FlowSchema c: no level"],
            False,
            f"FlowSchema c: no level; {LEFT_OUT}a: broken",
            f"Generation 7 is in force, but for: FlowSchema c: no level; {LEFT_OUT}a: broken",
            id="objects-problems-and-dangling",
        ),
        pytest.param(
            [str(number) for number in range(13)],
            [],
            True,
            f"{NOT_TAKEN}0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more",
            "The last change is not in force: 0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more",
            id="many",
        ),
    ],
)
def test_loaded(
    problems: list[str],
    dangling: list[str],
    is_whole: bool,
    expected_lacking: str,
    expected_message: str,
) -> None:
    """A load says in words what became of it, whether it is taken whole or by objects."""
    events = ConfigurationEvents()

    events.loaded(5.0, 7, problems, dangling, is_whole=is_whole)

    assert expected_lacking == shortfall(problems, dangling, is_whole=is_whole)
    assert [ConfigurationEvent(5.0, expected_message, bool(expected_lacking))] == list(events)


def test_bounds() -> None:
    """Of many events the last are kept, of a long message its start."""
    events = ConfigurationEvents()
    for number in range(MAX_EVENTS + 3):
        events.record(number, "x" * (MAX_MESSAGE_CHARACTERS + 1))

    assert list(range(3, MAX_EVENTS + 3)) == [event.unix_s for event in events]
    assert {"x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"} == {event.message for event in events}
