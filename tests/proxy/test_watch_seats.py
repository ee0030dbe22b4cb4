"""When a WATCH gives its seats back."""

from __future__ import annotations

import pytest

from apfproxy.proxy.watch_seats import INITIAL_EVENTS_END, WatchSeats, asks_for_initial_events
from apfproxy.request.attributes import parse_attributes
from apfproxy.settings import WatchSettings
from tests.proxy.fakes import FakeLoop
from tests.support.clocks import VirtualClock

SETTINGS = WatchSettings(silence_s=0.1, limit_s=10.0, bookmark_limit_s=60.0)
MS = 1_000_000


class Followed:
    def __init__(self, query: bytes, settings: WatchSettings = SETTINGS) -> None:
        self.clock = VirtualClock()
        self.given_back_ms: list[int] = []
        self.seats = WatchSeats(
            FakeLoop(self.clock).as_event_loop(),
            settings,
            parse_attributes("GET", b"/api/v1/pods?watch=1" + query),
            lambda: self.given_back_ms.append(self.clock.now_ns() // MS),
        )

    def wait(self, duration_ms: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ms * MS)


def test_silence_ends_the_initial_events() -> None:
    watch = Followed(b"")
    watch.wait(1000)

    assert [100] == watch.given_back_ms


def test_events_put_the_end_off() -> None:
    watch = Followed(b"")
    for _ in range(5):
        watch.wait(60)
        watch.seats.on_data(b"event")
    watch.wait(1000)

    assert [500] == watch.given_back_ms


def test_limit_ends_it_however_busy() -> None:
    watch = Followed(b"")
    for _ in range(300):
        watch.wait(50)
        watch.seats.on_data(b"event")

    assert [10_000] == watch.given_back_ms


@pytest.mark.parametrize("at_once", [True, False], ids=["whole", "byte-by-byte"])
def test_bookmark_ends_it(at_once: bool) -> None:
    watch = Followed(b"&sendInitialEvents=true")
    watch.wait(5_000)
    watch.seats.on_data(b"event" * 10)
    watch.wait(5_000)
    event = b'{"annotations":{"' + INITIAL_EVENTS_END + b'":"true"}}'
    for piece in [event] if at_once else [event[i : i + 1] for i in range(len(event))]:
        watch.seats.on_data(piece)
    watch.seats.on_data(event)
    watch.wait(100_000)

    assert [10_000] == watch.given_back_ms


def test_bookmark_is_not_waited_for_without_end() -> None:
    watch = Followed(b"&sendInitialEvents=true")
    watch.wait(59_000)
    watch.seats.on_data(b"event")
    watch.wait(100_000)

    assert [60_000] == watch.given_back_ms


@pytest.mark.parametrize("query", [b"", b"&sendInitialEvents=1"], ids=["silence", "bookmark"])
def test_nothing_comes_after_the_end(query: bytes) -> None:
    watch = Followed(query)
    watch.seats.cancel()
    watch.seats.on_data(INITIAL_EVENTS_END)
    watch.wait(100_000)

    assert [] == watch.given_back_ms


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        pytest.param(b"", False, id="absent"),
        pytest.param(b"&sendInitialEvents=true", True, id="true"),
        pytest.param(b"&sendInitialEvents=false", False, id="false"),
        pytest.param(b"&sendInitialEvents=false&sendInitialEvents=true", False, id="first-counts"),
    ],
)
def test_who_asks_for_initial_events(query: bytes, asks: bool) -> None:
    assert asks == asks_for_initial_events(parse_attributes("GET", b"/api/v1/pods?watch=1" + query))
