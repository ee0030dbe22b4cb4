"""The tables of the live state."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from apfproxy.cli.live_client import state_of
from apfproxy.cli.live_tables import SeatBar, render
from apfproxy.cli.live_view import View
from tests.cli.live_states import flow, level, state

if TYPE_CHECKING:
    from apfproxy.cli.live_client import Level

URL = "http://127.0.0.1:8081"


def lines(view: View, width: int = 80) -> list[str]:
    """What is on the screen."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(render(view, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def view(*levels: dict[str, Any], **changes: Any) -> View:  # noqa: ANN401 - any JSON
    """A view of a state."""
    return View(URL, state_of(URL, state(*levels, **changes)))


def one_level(**changes: Any) -> Level:  # noqa: ANN401 - any JSON
    """A level as it is read."""
    return state_of(URL, state(level(**changes))).levels[0]


def test_levels() -> None:
    """A level shows its seats against all its limits, its loan, its requests and its rates."""
    busy = view(
        level("lender", current=6, lent=4, seatsInUse=3, executing=3),
        level(
            "borrower",
            current=14,
            borrowed=4,
            seatsInUse=14,
            executing=13,
            waiting=7,
            servedPerSecond=12.25,
            rejectedPerSecond={"queue-full": 0.5},
        ),
        level("boundless", type="Exempt", nominal=0, min=0, max=None, current=5, borrowed=5),
    )

    assert lines(busy)[1:7] == [
        "17 of 20 seats in use  7 waiting  12/s served  0.5/s rejected  16 executing",
        "",
        "LEVEL     SEATS                  USE CUR NOM MIN MAX LOAN EXEC WAIT SERV/S REJ/S",
        "borrower  ████████████████│█████  14  14  10   5  40   +4   13    7     12   0.5",
        "lender    ███████░░░░░░·········   3   6  10   5  40   -4    3    0      0     0",
        "boundless ······················   0   -   0   0   -         0    0      0     0",
    ]


def test_narrow() -> None:
    """A narrow terminal has no room for the bounds."""
    assert lines(view(), 60)[3:5] == [
        "LEVEL SEATS               USE CUR NOM EXEC WAIT SERV/S REJ/S",
        "work  ░░░░░░░░░░░░░░░░░░░   0  10  10    0    0      0     0",
    ]


def test_very_narrow() -> None:
    """Half a terminal has whole numbers, whole lines, and what matters most."""
    seen = view(
        level("global-default", waiting=12345), level("b"), level("c"), topFlows=[flow("ann")]
    )
    text = lines(replace(seen, height=11), 40)

    assert text[3:7] == [
        "LEVEL      SEATS     USE CUR  WAIT REJ/S",
        "global-de… ░░░░░░░░░   0  10 12345     0",
        "b          ░░░░░░░░░   0  10     0     0",
        "c          ░░░░░░░░░   0  10     0     0",
    ]
    assert lines(seen, 40)[-2:] == [
        "TOP FLOWS by seats     SEAT-S WAIT-S REJ",
        "ann                       1.0      0   0",
    ]
    assert lines(replace(seen, height=7), 40)[5] == "and 2 more levels"


def test_more_queues_than_are_told() -> None:
    """A level with thousands of queues tells of the first ones alone, and how many it has."""
    seen = view(level(queues=[0, 3], queueCount=10_000))

    assert "work           1 of 10000 1:3" in lines(seen)


@pytest.mark.parametrize(
    ("changes", "bar"),
    [
        pytest.param({}, "==========", id="idle"),
        pytest.param({"seatsInUse": 5}, "#####=====", id="half"),
        pytest.param(
            {"nominal": 1000, "current": 1000, "seatsInUse": 1}, "#=========", id="little"
        ),
        pytest.param({"current": 6, "seatsInUse": 3}, "###===....", id="lends"),
        pytest.param({"current": 20, "borrowed": 10, "seatsInUse": 5}, "##===|====", id="borrows"),
        pytest.param({"current": 20, "borrowed": 10, "seatsInUse": 20}, "#####|####", id="full"),
        pytest.param({"current": 5, "seatsInUse": 10}, "##########", id="more-than-current"),
        pytest.param({"nominal": 0, "current": 0}, "..........", id="no-seats"),
        pytest.param(
            {"type": "Exempt", "nominal": 0, "current": 4, "borrowed": 4, "seatsInUse": 4},
            "##........",
            id="exempt",
        ),
    ],
)
def test_bar(changes: dict[str, Any], bar: str) -> None:
    """A bar shows what is in use, free, lent, and where the nominal limit is."""
    assert bar == SeatBar(one_level(**changes), 20).text(10, is_plain=True).plain


@pytest.mark.parametrize(
    ("changes", "color"),
    [
        ({"seatsInUse": 9}, "green"),
        ({"seatsInUse": 10}, "yellow"),
        ({"seatsInUse": 10, "waiting": 1}, "red"),
        ({"seatsInUse": 10, "waiting": 1, "type": "Exempt"}, "green"),
    ],
)
def test_color(changes: dict[str, Any], color: str) -> None:
    """A full level is yellow, and red once requests wait; an exempt one is never full."""
    assert color == SeatBar(one_level(**changes), 20).text(10, is_plain=False).spans[0].style


def test_queues_and_flows() -> None:
    """Below the levels are the fullest queues, the greediest flows, and the last event."""
    seen = view(
        level("work", queues=[0, 3, 9, 1, 1, 1, 1, 1]),
        level("more", queues=[2, 0]),
        level("calm"),
        topFlows=[flow("alice"), flow("bob", seatSeconds=1234.5, rejected=3.0), flow("")],
        configuration={
            "generation": 3,
            "events": [{"time": 0.0, "message": "Generation 3 is in force", "isError": False}],
        },
    )

    assert [line[:60].rstrip() for line in lines(seen)[8:-1]] == [
        "FULLEST QUEUES IN USE QUEUE:WAITING",
        "work           7 of 8 2:9  1:3  3:1  4:1  5:1  6:1  ...",
        "more           1 of 2 0:2",
        "",
        "TOP FLOWS by seats         FLOW SCHEMA       LEVEL",
        "bob                        everybody         work",
        "alice                      everybody         work",
        "(all)                      everybody         work",
        "",
    ]
    assert lines(seen)[13].split() == ["bob", "everybody", "work", "1234", "0", "3.0"]
    assert lines(seen)[-1].endswith(" Generation 3 is in force")


@pytest.mark.parametrize(
    ("sort", "order"), [("s", ["a", "b", "c"]), ("w", ["b", "c", "a"]), ("r", ["c", "a", "b"])]
)
def test_sort(sort: str, order: list[str]) -> None:
    """Flows come in the order of what they are sorted by."""
    flows = [
        flow("b", waitSeconds=9.0),
        flow("a", seatSeconds=9.0, rejected=1.0),
        flow("c", seatSeconds=0.5, waitSeconds=1.0, rejected=9.0),
    ]
    seen = View(URL, state_of(URL, state(topFlows=flows)), sort=sort)

    assert order == [line.split()[0] for line in lines(seen)[-3:]]


def test_nothing_yet() -> None:
    """What is empty says so."""
    text = "\n".join(lines(view()))

    assert "FULLEST QUEUES\nNothing waits." in text
    assert "TOP FLOWS\nNone yet: a flow counts once a request of it ends" in text


def test_problem_first() -> None:
    """Above all stands that the proxy is away, and then what the proxy said last."""
    said = [{"severity": "note", "text": "nothing is rejected or delayed"}]
    seen = View(URL, view(verdict=said).state, problem="cannot ask: gone", silent_s=12.3)

    assert lines(seen)[:2] == [
        "Nothing new for 12 s, still trying: cannot ask: gone",
        "nothing is rejected or delayed",
    ]


def test_hostile_names() -> None:
    """No control character of a name reaches the terminal, and no markup of it means anything."""
    name = "[red]x[/] \x1b[2J\r\n\u202e\ud800:smile:"
    seen = view(
        level(name, queues=[1]),
        topFlows=[flow(name), flow("x" * 9999)],
        configuration={
            "generation": 1,
            "events": [{"time": 0.0, "message": name, "isError": True}],
        },
    )
    text = "\n".join(lines(seen, 300))

    assert text.count(r"[red]x[/] \x1b[2J\r\n\u202e\ud800:smile:") == 4
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert max(map(len, lines(seen))) <= 80


@pytest.mark.parametrize("height", range(1, 60, 7))
def test_height(height: int) -> None:
    """Where there is room for the levels at all, the screen is not longer than the terminal."""
    levels = [level(f"level-{index}", waiting=index, queues=[index]) for index in range(12)]
    flows = [flow(f"user-{index}") for index in range(90)]
    seen = View(URL, state_of(URL, state(*levels, topFlows=flows)), height=height)

    assert len(lines(seen)) <= max(height, 8)


def test_levels_with_least_are_left_out() -> None:
    """Where not all levels fit, those with most waiting are shown."""
    levels = [level(f"level-{index}", waiting=index % 3) for index in range(12)]
    seen = View(URL, state_of(URL, state(*levels)), height=11)

    assert [line.split()[0] for line in lines(seen)[4:10]] == [
        "level-11",
        "level-2",
        "level-5",
        "level-8",
        "level-1",
        "and",
    ]
    assert "and 7 more levels" in lines(seen)


@pytest.mark.parametrize(
    ("part", "is_typing", "last", "names"),
    [
        pytest.param("", False, "sort: p problems s seats w waits", ["other", "work"], id="all"),
        pytest.param("WOR", False, "only WOR", ["work"], id="kept"),
        pytest.param("wor", True, "only names with: wor_", ["work"], id="typing"),
    ],
)
def test_part_of_a_name(*, part: str, is_typing: bool, last: str, names: list[str]) -> None:
    """Only what has the part in its name is shown; the last line says so."""
    flows = [flow("ann", flowSchema="x", priorityLevel="other"), flow("bob", flowSchema="x")]
    state_ = view(level(), level("other"), topFlows=flows).state
    found = lines(View(URL, state_, height=24, part=part, is_typing=is_typing))

    assert last in found[-1]
    assert names == [each.split()[0] for each in found[4 : 4 + len(names)]]
    assert (part == "") is any(each.startswith("ann") for each in found)


def test_no_such_name() -> None:
    """Where nothing has such a name, that is said."""
    found = lines(View(URL, view(topFlows=[flow("ann")]).state, part="zzz"))

    assert "No level has such a name." in found
    assert found[-2:] == ["TOP FLOWS", "None has such a name."]


def test_failures() -> None:
    """What the server behind failed has a column once there is any."""
    seen = view(level(servedPerSecond=6.0, failedPerSecond=4.0), level("calm"))
    header, busy, calm = (line.split() for line in lines(seen)[3:6])

    assert header[-3:] == ["SERV/S", "FAIL/S", "REJ/S"]
    assert busy[-3:] == ["6.0", "4.0", "0"]
    assert calm[-3:] == ["0", "0", "0"]


def test_help() -> None:
    """The help has a line for each key and fits 80 columns."""
    found = lines(replace(view(), is_help=True, height=24))

    assert found[0] == "KEYS"
    assert max(map(len, found)) <= 80
    assert len(found) <= 24
