"""How top shows a state."""

from __future__ import annotations

import io
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from rich.console import Console

from apfproxy.admin.live_state import fleet_json
from apfproxy.cli.errors import CommandError
from apfproxy.cli.top_tables import (
    LONGEST,
    SeatBar,
    View,
    name_text,
    readable,
    render,
)
from apfproxy.flowcontrol.limit_view import DecisionView, LimitView
from tests.cli.top_states import (
    NOW,
    cluster,
    clusters,
    endpoint,
    event,
    flow,
    level,
    state,
    tokens,
    upstream,
)
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView

URL = "http://127.0.0.1:8081"


def view(*levels: dict[str, Any], **changes: Any) -> View:  # noqa: ANN401 - any JSON
    return View(URL, readable(URL, state(*levels, **changes)))


def lines(seen: View, width: int | None = 80, height: int | None = None) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width or 10_000, highlight=False, color_system=None, markup=False
    )
    with console.capture() as capture:
        console.print(render(seen, width, height))
    return [line.rstrip() for line in capture.get().splitlines()]


def words(seen: View, width: int | None = 80, height: int | None = None) -> list[str]:
    return [" ".join(line.split()) for line in lines(seen, width, height)]


def said(*sentences: tuple[str, str]) -> list[dict[str, str]]:
    return [{"severity": severity, "text": text} for severity, text in sentences]


def everything() -> View:
    return view(
        level("lender", current=6, lent=4, seatsInUse=3, executing=3, servedPerSecond=25.0),
        level(
            "borrower",
            current=14,
            borrowed=4,
            seatsInUse=14,
            executing=13,
            waiting=7,
            servedPerSecond=12.25,
            failedPerSecond=4.0,
            rejectedPerSecond={"queue-full": 0.5},
            queues=[0, 3, 9, 1, 1, 1, 1, 1],
            queueCount=10_000,
        ),
        level("boundless", type="Exempt", nominal=0, min=0, max=None, current=5, borrowed=5),
        topFlows=[flow("alice"), flow("bob", seatSeconds=1234.5, rejected=3.0), flow("")],
        verdict=said(("error", "borrower rejects"), ("note", "two of three are out")),
        configuration=event("Generation 3 is in force"),
        upstream=upstream(
            endpoint("http://10.0.0.1"),
            endpoint("http://10.0.0.2", ramp=0.4),
            endpoint("http://10.0.0.3", state="failing", share=0.0, problem="refused", p99=None),
        ),
        fleet=fleet_json(fleet()),
    )


SCREEN = """\
borrower rejects
two of three are out
apfproxy http://127.0.0.1:8081  generation 3  CLOCK
17 of 200 seats in use  7 waiting  37/s served  4.0/s failed  0.5/s rejected  16 executing
servers behind 2 of 3 up  12 answers/s  2.0/s are 5xx  p50 4 ms  p99 45 ms
fleet 3 seen  340 in use, 500 claimed of 600  here 200 held

LEVEL     SEATS                             USE CUR NOM MIN MAX LOAN EXEC WAIT SERV/S FAIL/S REJ/S
borrower  ████████████████████████│████████  14  14  10   5  40   +4   13    7     12    4.0   0.5
lender    ██████████░░░░░░░░░░·············   3   6  10   5  40   -4    3    0     25      0     0
boundless ·································   0   -   0   0   -         0    0      0      0     0

SERVERS BEHIND                                  STATE        SHARE SEATS FLIGHT ANS/S FAIL/S   P99
http://10.0.0.3                                 failing 60 s    0%    12     14   100    0.5     -
http://10.0.0.1                                 up             50%    12     14   100    0.5 45 ms
http://10.0.0.2                                 starting 40%   50%    12     14   100    0.5 45 ms

FULLEST QUEUES     IN USE QUEUE:WAITING
borrower       7 of 10000 2:9  1:3  3:1  4:1  5:1  6:1  ...

TOP FLOWS by seats                 FLOW SCHEMA            LEVEL                  SEAT-S WAIT-S REJ
bob                                everybody              work                     1234      0 3.0
(all)                              everybody              work                      1.0      0   0
alice                              everybody              work                      1.0      0   0

CLOCK Generation 3 is in force
"""


def test_everything() -> None:
    """The words come first, then levels, servers, queues, flows, and the last event."""
    found = [re.sub(r"\d\d:\d\d:\d\d", "CLOCK", line) for line in lines(everything(), 98)]

    assert SCREEN.splitlines() == found


def test_narrow() -> None:
    """A narrow terminal has no room for the bounds; half a one has what matters most."""
    seen = view(level("global-default", waiting=12345), level("b"), topFlows=[flow("ann")])

    assert lines(view(), 60)[3:5] == [
        "LEVEL SEATS               USE CUR NOM EXEC WAIT SERV/S REJ/S",
        "work  ░░░░░░░░░░░░░░░░░░░   0  10  10    0    0      0     0",
    ]
    assert lines(seen, 40, 12)[3:5] == [
        "LEVEL        SEATS   USE CUR  WAIT REJ/S",
        "global-defa… ░░░░░░░   0  10 12345     0",
    ]


@pytest.mark.parametrize(
    ("changes", "bar", "color"),
    [
        ("", "==========", "green"),
        ("seatsInUse: 5", "#####=====", "green"),
        ("nominal: 99, current: 99, seatsInUse: 1", "#=========", ""),
        ("current: 6, seatsInUse: 3", "###===....", "green"),
        ("current: 20, borrowed: 10, seatsInUse: 5", "##===|====", "green"),
        ("current: 20, borrowed: 10, seatsInUse: 20", "#####|####", "yellow"),
        ("current: 5, seatsInUse: 10, waiting: 1", "##########", "red"),
        ("nominal: 0, current: 0", "..........", "dim"),
        ("type: Exempt, nominal: 0, current: 4, borrowed: 4, seatsInUse: 4", "##........", "green"),
    ],
)
def test_bar(changes: str, bar: str, color: str) -> None:
    """A bar shows what is in use, free, lent, and where the nominal limit is.

    A full level is yellow, and red once requests wait; an exempt one is never full.
    """
    shown = view(level(**yaml.safe_load(f"{{{changes}}}")))
    found: SeatBar = shown.state["levels"][0]["bar"]

    assert bar == found.text(10, is_plain=True).plain
    assert color in found.text(10, is_plain=False).markup


@pytest.mark.parametrize(
    ("sort", "levels", "flows"),
    [
        ("p", "dbca", "xwy"),
        ("s", "cabd", "xwy"),
        ("w", "bacd", "ywx"),
        ("r", "dbac", "wxy"),
        ("n", "abcd", "wxy"),
    ],
)
def test_sorts(sort: str, levels: str, flows: str) -> None:
    """Levels and flows have an order for each key; problems are rejections, then waits."""
    seen = view(
        level("a", seatsInUse=1),
        level("b", waiting=5),
        level("c", seatsInUse=9),
        level("d", rejectedPerSecond={"queue-full": 1.5, "rate": 0.5}),
        topFlows=[
            flow("x", seatSeconds=3.0, rejected=1.0),
            flow("y", waitSeconds=9.0),
            flow("w", rejected=5.0),
        ],
    )
    seen.sort = sort
    names = "".join(line.split()[0] for line in lines(seen) if line)

    assert f"LEVEL{levels}FULLEST" in names
    assert names.endswith(f"TOP{flows}")


def test_tokens() -> None:
    """Levels that count tokens, and flows, have them; help says so, in no more lines of height."""
    seen = view(
        level("batch", tokens=tokens(tokensPerSecond=7.0, openStreams=1)),
        level("chat", tokens=tokens()),
        level("other", seatsInUse=3),
        topFlows=[flow("ann", tokens=12.0), flow("bob", tokens=123_456.0)],
    )
    seen.sort = "t"
    found = words(seen)
    place = found.index("TOKENS STREAMS TOK/S PROMPT/S FIRST P99 SEATED BETWEEN P99")
    assert [
        "chat 8 412 9.5 1.2 s 12 s 350 ms 21 ms -",
        "batch 1 7.0 9.5 1.2 s 12 s 350 ms 21 ms -",
    ] == found[place + 1 : place + 3]
    assert ["bob everybody work 1.0 0 0 123k", "ann everybody work 1.0 0 0 12"] == found[-2:]
    assert "t tokens" in lines(seen, 100, 24)[-1]
    assert "t tokens" not in lines(view(), 100, 24)[-1]
    seen.screen = "help"
    assert len(lines(seen)) <= 24
    assert "TOKENS of completions," in " ".join(words(seen))


@pytest.mark.parametrize(
    ("part", "last", "shown"),
    [
        ("", "sort: p problems s seats w waits", {"other", "work", "ann", "bob"}),
        ("WOR", "only WOR", {"work", "bob"}),
    ],
)
def test_part_of_a_name(part: str, last: str, shown: set[str]) -> None:
    """Only what has the part in a name is shown; the last line says so."""
    flows = [flow("ann", flowSchema="x", priorityLevel="other"), flow("bob", flowSchema="x")]
    seen = view(level(), level("other"), topFlows=flows)
    seen.part = part
    found = lines(seen, height=24)

    assert last in found[-1]
    assert shown == {each.split()[0] for each in found if each} & {"other", "work", "ann", "bob"}


def test_hostile_names() -> None:
    """No control character of a name reaches the terminal, and no markup of it means anything."""
    name = "[red]x[/] \x1b[2J\r\n\u202e\ud800:smile:"
    seen = view(
        level(name, queues=[1]),
        topFlows=[flow(name), flow("x" * 9999)],
        verdict=said(("error", name)),
        configuration=event(name, isError=True),
    )
    text = "\n".join(lines(seen, 300))

    assert text.count(r"[red]x[/] \x1b[2J\r\n\u202e\ud800:smile:") == 5
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert max(map(len, lines(seen))) <= 80
    assert LONGEST == len(name_text("x" * 999).plain)


@pytest.mark.parametrize("screen", ["", "servers", "help"])
def test_no_screen_is_longer_or_wider_than_the_terminal(screen: str) -> None:
    seen = view(
        *(level(f"level-{index}", waiting=index, queues=[index]) for index in range(12)),
        topFlows=[flow(f"user-{index}") for index in range(90)],
        upstream=upstream(*(endpoint(f"http://10.0.0.{index}") for index in range(20))),
    )
    seen.screen = screen
    for height in range(25 if screen == "help" else 1, 60, 7):
        found = lines(seen, height=height)
        assert len(found) <= max(height, 12)
        assert max(map(len, found)) <= 80
    seen.screen = ""
    assert "level-11" in lines(seen, height=14)[5]


def test_away() -> None:
    """Above all stands that the proxy is away, and then what the proxy said last."""
    seen = view(verdict=said(("note", "all is well")))
    seen.problem, seen.seen_s = "gone", time.monotonic() - 12

    assert re.fullmatch(
        r"Nothing new for 1\d s, still trying: gone all is well", " ".join(lines(seen)[:2])
    )


def test_no_terminal() -> None:
    """Where there is no terminal nothing is cut; in one the first sentence has two lines."""
    long = "n" * 100
    first, second = " ".join(["word"] * 60), " ".join(["other"] * 40)
    seen = view(
        level(long, queues=[1]),
        verdict=said(("error", first), *[("note", second)] * 8),
        topFlows=[flow(long, flowSchema=long, priorityLevel=long)],
        upstream=upstream(endpoint(f"http://{long}", problem=f"refused by {long}"), endpoint("b")),
    )
    text = "\n".join(lines(seen, None))

    assert lines(seen, None)[:2] == [first, second]
    assert (7, 0) == (text.count(long), text.count("…"))
    assert [line[:4] for line in lines(seen, 40, 24)[:4]] == ["word", "word", "othe", "apfp"]
    assert 3 == sum(line.startswith("other") for line in lines(seen, 40, 40))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"state": "failing", "problem": "connection refused", "failuresPerSecond": 868.4},
            "server behind failing for 60 s: connection refused  868/s without answer  http:",
        ),
        ({"state": "failing", "since": None}, "server behind failing  http:"),
        ({"answersPerSecond": {"2xx": 1.5}}, "up  1.5 answers/s  http:"),
        ({"endpointCount": 3, "healthyCount": 0}, "servers behind up"),
    ],
)
def test_server(changes: dict[str, Any], text: str) -> None:
    """The state of the server comes first, with the reason and since when it fails."""
    quiet: dict[str, Any] = {"answersPerSecond": {}, "p50": None, "p99": None}

    assert text in lines(view(upstream=upstream(**{**quiet, **changes})), 120)[2]


def test_servers() -> None:
    """In a terminal they take the place of queues and flows, those that get no requests first."""
    seen, one = everything(), view(upstream=upstream())
    seen.screen = one.screen = "servers"
    screen = words(seen, 60, 17)

    assert screen[-5:-2] == [
        "SERVERS BEHIND STATE SEATS FLIGHT ANS/S FAIL/S",
        "http://10.0.0.3 failing 60 s 12 14 100 0.5",
        "and 2 more servers",
    ]
    assert not any("TOP FLOWS" in line or "FULLEST" in line for line in screen)
    seen.part = "x"
    assert "None has such a name." == words(seen)[words(seen).index("SERVERS BEHIND") + 1]
    assert "There is but one." in lines(one)


@pytest.mark.parametrize(
    ("shared", "text"),
    [
        (
            fleet(store="the parent process"),
            "workers 3 seen  340 in use, 500 claimed of 600  here 200 held",
        ),
        (
            fleet(state="partitioned", problem="no\x1banswer", age_s=20.0, in_force=120),
            (
                "fleet 3 seen  340 in use, 500 claimed of 600  here 120 partitioned"
                "  not written for 20 s: no\\x1banswer"
            ),
        ),
        (
            fleet(member("a", is_self=True), member("b", age_s=4.0, is_alike=False), claims=700),
            "fleet 1 of 2 seen  300 in use, 700 claimed of 600  here 200 held  1 unlike",
        ),
    ],
)
def test_fleet(shared: FleetView, text: str) -> None:
    """A line says how many members there are, what they use and claim, how this one stands."""
    _, sums, found, *_ = lines(view(level(seatsInUse=7), fleet=fleet_json(shared)), 120)

    assert text == found
    assert f"7 of {shared.in_force} seats in use" in sums


def test_limit_that_is_found() -> None:
    found = LimitView(84, "holding", 84, decisions=(DecisionView(NOW - 9, 84, "more", "a\x1b"),))
    _, _, _, line, *_ = lines(view(upstream=upstream(), foundLimit=msgspec.to_builtins(found)), 120)

    assert line == "the limit finds itself: 84 seats, holding; set 9 s ago: a\\x1b"
    with pytest.raises(CommandError, match="in another way"):
        view(foundLimit={"limit": "x"})


def test_clusters() -> None:
    """Several clusters have a line each, in the order in which they come; the rest is counted."""
    dead = cluster("dead", state="failing", severity="error", problem="refused", p99=None)
    both = View(URL, readable(URL, clusters(dead, cluster("a"))))
    many = View(URL, readable(URL, clusters(*(cluster(f"c{index}") for index in range(100)))))

    assert words(both)[1].endswith("apfproxy top --cluster NAME shows one")
    assert words(both)[3:] == [
        "CLUSTER STATE SERVERS SEATS WAIT SERV/S FAIL/S REJ/S P99 PROBLEM",
        "dead failing 3/3 4/600 0 20 0 0 - refused",
        "a up 3/3 4/600 0 20 0 0 45 ms",
    ]
    assert "refused" not in " ".join(words(both, 60))
    both.part = "x"
    assert "None has such a name." in lines(both)
    assert lines(many, height=24)[-2:] == ["and 82 more clusters", "q quit  h help  / find"]
