"""The load test of many clusters: what it takes for wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from loadtest.clusters_gateway import SPECIAL, make_clusters, place_of
from loadtest.many_clusters import MAX_RATIO, Changes, Round, judge


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
    ("others", "moving", "ratio", "message"),
    [
        pytest.param({"200": 9}, {"200": 5, "404": 4}, 1.0, "", id="good"),
        pytest.param(
            {"200": 9, "503": 1}, {}, 1.0, "clusters that are well: 200:9 503:1", id="bad"
        ),
        pytest.param({"200": 9}, {"lost": 1}, 1.0, "came and went: lost:1", id="lost"),
        pytest.param({"200": 9}, {}, MAX_RATIO + 0.1, "1.60 times as long", id="slow"),
    ],
)
def test_what_is_wrong(
    others: dict[str, int], moving: dict[str, int], ratio: float, message: str
) -> None:
    """Clusters that are well always answer; what comes and goes is there or is not."""
    rounds = [Round(with_special=True, p50_ms=1, p99_ms=2, others=Counter(others))]

    wrong = judge(rounds, Changes(moving=Counter(moving)), ratio)

    assert [message in each for each in wrong] == ([True] if message else [])
