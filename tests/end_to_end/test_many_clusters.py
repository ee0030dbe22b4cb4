"""The load test of many clusters: what it takes for wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from loadtest.clusters_gateway import SPECIAL, make_clusters, place_of
from loadtest.gateway_notes import Outcome
from loadtest.many_clusters import MAX_RATIO, Changes, Round, find_lost, judge


def test_clusters_are_told_apart() -> None:
    """Each has a host or a prefix of its own, and sends a Host of its own to its servers."""
    clusters = make_clusters(20, [1, 2, 3, 4])
    places = [place_of(name) for name in clusters]

    assert set(SPECIAL) < set(clusters)
    assert 20 == len(clusters) == len({(place.host, place.prefix) for place in places})
    assert [place.host_behind for place in places] == [
        each["upstream"]["hostHeader"] for each in clusters.values()
    ]


@pytest.mark.parametrize(
    ("others", "lost", "ratio", "message"),
    [
        pytest.param({"200": 9}, [], 1.0, "", id="good"),
        pytest.param(
            {"200": 9, "503": 1}, [], 1.0, "clusters that are well: 200:9 503:1", id="bad"
        ),
        pytest.param({"200": 9}, ["broken"], 1.0, "came and went: broken", id="lost"),
        pytest.param({"200": 9}, [], MAX_RATIO + 0.1, "1.60 times as long", id="slow"),
    ],
)
def test_what_is_wrong(others: dict[str, int], lost: list[str], ratio: float, message: str) -> None:
    """Clusters that are well always answer, and changes lose nothing."""
    rounds = [Round(with_special=True, p50_ms=1, p99_ms=2, others=Counter(others))]

    wrong = judge(rounds, Changes(lost=lost), ratio)

    assert [message in each for each in wrong] == ([True] if message else [])


@pytest.mark.parametrize(
    ("due_s", "done_s", "result", "is_lost"),
    [
        pytest.param(1, 2, "404", False, id="before"),
        pytest.param(11, 12, "503", False, id="starts"),
        pytest.param(21, 22, "200", False, id="is-there"),
        pytest.param(21, 22, "503", True, id="was-there"),
        pytest.param(29, 31, "404", False, id="goes-meanwhile"),
        pytest.param(29, 31, "lost", True, id="breaks-off"),
    ],
)
def test_what_is_lost(due_s: float, done_s: float, result: str, *, is_lost: bool) -> None:
    """A cluster that is there answers each request, whatever changes."""
    outcome = Outcome(1, "GET", due_s, done_s, result, text=b"why")
    permitted = [(0, {"404"}), (10, {"200", "404", "503"}), (20, {"200"}), (30, {"200", "404"})]

    assert ([f"{result} why"] if is_lost else []) == find_lost([outcome], permitted)
