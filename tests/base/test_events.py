"""Events of the configuration, for the live page."""

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


MANY = "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 3 more"


@pytest.mark.parametrize(
    ("problems", "dangling", "is_whole", "lacking", "message"),
    [
        ("", "", True, "", "Generation 7 is in force"),
        ("", "", False, "", "Generation 7 is in force"),
        ("a b", "", True, f"{NOT_TAKEN}a; b", "The last change is not in force: a; b"),
        ("a", "", False, f"{LEFT_OUT}a", f"Generation 7 is in force, but {LEFT_OUT}a"),
        ("", "c", True, "c", "Generation 7 is in force, but for: c"),
        ("a", "c", False, f"c; {LEFT_OUT}a", f"Generation 7 is in force, but for: c; {LEFT_OUT}a"),
        (
            " ".join(map(str, range(13))),
            *("", True, NOT_TAKEN + MANY, f"The last change is not in force: {MANY}"),
        ),
    ],
)
def test_load_says_what_became_of_it(
    problems: str, dangling: str, is_whole: bool, lacking: str, message: str
) -> None:
    events, lists = ConfigurationEvents(), (problems.split(), dangling.split())
    events.loaded(5.0, 7, *lists, is_whole=is_whole)

    assert lacking == shortfall(*lists, is_whole=is_whole)
    assert [ConfigurationEvent(5.0, message, bool(lacking))] == list(events)


def test_bounds() -> None:
    events = ConfigurationEvents()
    for number in range(MAX_EVENTS + 3):
        events.record(number, "x" * (MAX_MESSAGE_CHARACTERS + 1))

    assert list(range(3, MAX_EVENTS + 3)) == [event.unix_s for event in events]
    assert {"x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"} == {event.message for event in events}
