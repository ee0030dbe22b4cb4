"""What happens to a simulated fleet."""

from __future__ import annotations

import pytest

from apfproxy.simulation.fleet_events import FleetEvent, FleetPlan, What, parse_event

S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "event"),
    [
        pytest.param("20s die 1", FleetEvent(20 * S, What.DIE, 1), id="replica"),
        pytest.param("1m30s store-away", FleetEvent(90 * S, What.STORE_AWAY, 0), id="store"),
        pytest.param("0s weigh 2 0", FleetEvent(0, What.WEIGH, 2, 0), id="weight"),
        pytest.param("0.5s  cut-off  99", FleetEvent(S // 2, What.CUT_OFF, 99), id="blanks"),
    ],
)
def test_events(text: str, event: FleetEvent) -> None:
    """An event has a time, a name and, unless it is of the store, a replica; maybe a weight."""
    assert event == parse_event(text)
    assert event == parse_event(str(event))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20s",
        "die 1",
        "20s die",
        "20s die one",
        "20s die 1 2",
        "20s sleep 1",
        "20s store-away 1",
        "20 die 1",
        "9999h die 1",
        "-1s die 1",
        "20s die 100",
        "20s die ²",
        "20s weigh 1",
        "20s weigh 1 1001",
        "20s weigh 1 -1",
        "20s weigh 1 2 3",
    ],
)
def test_wrong_events(text: str) -> None:
    """Whatever is no event is named."""
    with pytest.raises(ValueError, match=r"expected a time|replicas are 0 to 99|weights are 0"):
        parse_event(text)


@pytest.mark.parametrize(("lease_s", "most_s"), [(5.0, 0.5), (60.0, 1.0)])
def test_latency(lease_s: float, most_s: float) -> None:
    """A member waits for the store for a part of its lease, and no longer than a while."""
    assert most_s == FleetPlan(replicas=1, lease_s=lease_s).most_latency_s()


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        pytest.param(["20s die 0", "30s store-away"], None, id="there-from-the-start"),
        pytest.param(["20s die 7"], "20s die 7", id="never-there"),
        pytest.param(["20s die 7", "10s join 7"], None, id="joined-before"),
        pytest.param(["20s die 7", "30s join 7"], "20s die 7", id="joins-later"),
    ],
)
def test_events_of_replicas_that_are_not_there(events: list[str], wrong: str | None) -> None:
    """What happens to a replica happens after it joined, in whatever order it is written."""
    plan = FleetPlan(replicas=3, events=tuple(map(parse_event, events)))

    assert (None if wrong is None else parse_event(wrong)) == plan.misplaced()
