"""When a WATCH gives its seats back."""

from __future__ import annotations

import pytest

from apfproxy.proxy.early_seats import INITIAL_EVENTS_END, WatchSeats, asks_for_initial_events
from apfproxy.request.attributes import parse_attributes
from apfproxy.settings import WatchSettings
from tests.proxy.fakes import FakeLoop
from tests.support.clocks import VirtualClock

MS = 1_000_000
EVENTS, EVENT = b"&sendInitialEvents=true", b"event"
BOOKMARK = b'{"annotations":{"' + INITIAL_EVENTS_END + b'":"true"}}'


@pytest.mark.parametrize(
    ("query", "pieces", "expected_ms"),
    [
        pytest.param(b"", [], [100], id="silence"),
        pytest.param(b"", [(60, EVENT)] * 5, [500], id="events-put-it-off"),
        pytest.param(b"", [(50, EVENT)] * 300, [10_000], id="limit"),
        pytest.param(
            EVENTS, [(5000, EVENT), (5000, BOOKMARK), (1, BOOKMARK)], [10_000], id="bookmark"
        ),
        pytest.param(
            EVENTS,
            [(1000, EVENT), *((1, BOOKMARK[i : i + 1]) for i in range(len(BOOKMARK)))],
            [1000 + BOOKMARK.index(INITIAL_EVENTS_END) + len(INITIAL_EVENTS_END)],
            id="bookmark-byte-by-byte",
        ),
        pytest.param(EVENTS, [(59_000, EVENT)], [60_000], id="no-bookmark"),
        pytest.param(b"", [(10, None), (1, BOOKMARK)], [], id="over"),
        pytest.param(EVENTS, [(10, None), (1, BOOKMARK)], [], id="over-before-the-bookmark"),
    ],
)
def test_end_of_the_initial_events(
    query: bytes, pieces: list[tuple[int, bytes | None]], expected_ms: list[int]
) -> None:
    clock, given_back_ms = VirtualClock(), list[int]()
    seats = WatchSeats(
        FakeLoop(clock).as_event_loop(),
        WatchSettings(silence_s=0.1, limit_s=10.0, bookmark_limit_s=60.0),
        parse_attributes("GET", b"/api/v1/pods?watch=1" + query),
        lambda: given_back_ms.append(clock.now_ns() // MS),
    )
    for wait_ms, data in pieces:
        clock.run_until(clock.now_ns() + wait_ms * MS)
        if data is None:
            seats.cancel()
        else:
            seats.on_data(data)
    clock.run_until(clock.now_ns() + 100_000 * MS)

    assert expected_ms == given_back_ms


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        (b"", False),
        (EVENTS, True),
        (b"&sendInitialEvents=false", False),
        (b"&sendInitialEvents=false" + EVENTS, False),
    ],
)
def test_who_asks_for_initial_events(query: bytes, asks: bool) -> None:
    assert asks == asks_for_initial_events(parse_attributes("GET", b"/api/v1/pods?watch=1" + query))
