"""Who gains and who loses."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.simulation.winners import MOST_SENTENCES, verdict

Row = dict[str, Any]


def client(name: str = "ann", executed: int = 1000, rejected: int = 0, wait_s: float = 0.0) -> Row:
    """A client of a report."""
    return {
        "client": name,
        "requests": executed + rejected,
        "executed": executed,
        "rejectedTotal": rejected,
        "waitP99": wait_s,
    }


def said(*configurations: list[Row]) -> list[tuple[str, str]]:
    """Sides and sentences."""
    found = verdict([{"clients": clients} for clients in configurations])
    return [(each["side"], each["text"]) for each in found]


SAME = ("same", "1 client would notice no difference")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(client(), client(), SAME, id="same"),
        pytest.param(
            client(wait_s=3.5),
            client(wait_s=0.3),
            ("wins", "ann waits 3.2 s less at p99"),
            id="less",
        ),
        pytest.param(
            client(), client(wait_s=0.02), ("loses", "ann waits 20 ms longer at p99"), id="longer"
        ),
        pytest.param(client(), client(wait_s=0.009), SAME, id="too-short-a-wait"),
        pytest.param(client(wait_s=10.0), client(wait_s=9.1), SAME, id="too-small-a-part"),
        pytest.param(
            client(executed=1000),
            client(executed=880),
            ("loses", "ann is served 12% less"),
            id="served-less",
        ),
        pytest.param(
            client(executed=1000),
            client(executed=1010),
            ("wins", "ann is served 1.0% more"),
            id="served-more",
        ),
        pytest.param(client(executed=1000), client(executed=1009), SAME, id="hardly-more"),
        pytest.param(
            client(executed=0, rejected=10),
            client(executed=10),
            ("wins", "ann is served at last and has no requests rejected instead of 100%"),
            id="at-last",
        ),
        pytest.param(
            client(executed=1000),
            client(executed=900, rejected=100),
            ("loses", "ann has 10% of the requests rejected instead of none"),
            id="rejected-and-not-served-is-said-once",
        ),
        pytest.param(
            client(executed=0, rejected=1000),
            client(executed=0, rejected=1000),
            SAME,
            id="never-served",
        ),
        pytest.param(client(), client(executed=996, rejected=4), SAME, id="hardly-rejected"),
        pytest.param(
            client(executed=1000, wait_s=2.0),
            client(executed=2000, rejected=200),
            (
                "trades",
                (
                    "ann is served 100% more and waits 2 s less at p99,"
                    " but has 9.1% of the requests rejected instead of none"
                ),
            ),
            id="trades",
        ),
    ],
)
def test_one_client(before: Row, after: Row, expected: tuple[str, str]) -> None:
    """A difference that somebody would notice is told, and no other."""
    assert [expected] == said([before], [after])


def test_alike() -> None:
    """Clients that differ in the numbers of their names share a sentence if they fare alike."""
    before = [client(f"op-{number}", wait_s=1.0) for number in range(4)] + [client("x")]
    after = [client(f"op-{number}", wait_s=number / 10) for number in range(3)]
    after += [client("op-3", wait_s=2.0), client("x"), client("new")]

    assert [
        ("loses", "op-3 waits 1 s longer at p99"),
        ("wins", "op-* (3 clients) wait 800 ms to 1 s less at p99"),
        SAME,
    ] == said(before, after)


def test_alike_in_all() -> None:
    """Of several, the verbs are in the plural."""
    before = [client("a1"), client("a2")]
    after = [client("a1", executed=500, rejected=900), client("a2", executed=500, rejected=900)]

    assert [
        (
            "loses",
            (
                "a* (2 clients) are served 50% less and have 64% of the requests rejected"
                " instead of none"
            ),
        )
    ] == said(before, after)


def test_many() -> None:
    """Those with most are told, in order; the others are counted."""
    names = [chr(ord("a") + number) for number in range(MOST_SENTENCES + 2)]
    before = [client(name) for name in names]
    after = [client(name, wait_s=float(number + 1)) for number, name in enumerate(names)]
    found = said(before, after)

    assert MOST_SENTENCES + 1 == len(found)
    assert found[0][1].startswith(f"{names[-1]} waits")
    assert found[-1] == ("same", "2 more clients fare differently, but not as much")


def test_nobody() -> None:
    """Without clients there is a sentence, too."""
    assert [("same", "0 clients would notice no difference")] == said([], [])
    assert [("others", "0 clients do not wait at p99")] == said([])


def test_one_configuration() -> None:
    """Of one configuration, those are told who wait long or are rejected."""
    assert [
        ("waits", "ann waits 3.5 s at p99"),
        ("waits", "bob has 50% of the requests rejected"),
        (
            "waits",
            "op-* (2 clients) wait 200 ms to 300 ms at p99 and have 4.8% of the requests rejected",
        ),
        ("others", "2 other clients wait at most 50 ms at p99"),
    ] == said(
        [
            client(wait_s=3.5),
            client("bob", executed=10, rejected=10) | {"waitP99": 0.0},
            client("op-1", wait_s=0.2, rejected=100),
            client("op-2", wait_s=0.3),
            client("x", wait_s=0.05),
            client("y"),
            client("idle", executed=0),
        ]
    )


def test_one_configuration_without_pressure() -> None:
    """If nobody waits, that is said."""
    assert [("others", "1 client does not wait at p99")] == said([client()])


def test_many_under_pressure() -> None:
    """The others are counted."""
    clients = [client(chr(ord("a") + number), wait_s=9.0 - number) for number in range(8)]
    found = said(clients)

    assert found[-1] == ("waits", "2 more clients wait or are rejected, but not as much")
