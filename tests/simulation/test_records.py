"""Requests of a log."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import AttributesError, User
from apfproxy.simulation import records as module
from apfproxy.simulation.records import MAX_SHOWN_PROBLEMS, UNKNOWN_NS, Records, essence, kind_of

USER = User("u", ())
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


def test_requests_come_in_the_order_of_their_arrival() -> None:
    """From 0 on, whenever they ended; those alike share a kind."""
    records = Records()
    records.add(50, USER, "GET", PODS, 5)
    records.add(30, USER, "GET", PODS, 7)
    records.add(40, USER, "GET", PODS, 9, seats=2)
    found = list(records.requests())

    assert [(0, 7), (10, 9), (20, 5)] == [(at_ns, service_ns) for at_ns, _, service_ns in found]
    assert found[0][1] is found[2][1]
    assert [0, 2, 0] == [kind.seats for _, kind, _ in found]
    assert (3, 30, 20) == (len(records), records.start_ns, records.span_ns)
    assert "<Records: 3 requests of 2 kinds, 0 broken>" == repr(records)


def test_unknown_service_times_are_guessed() -> None:
    """By what is alike; by all where nothing is; long-running requests say nothing."""
    records = Records()
    for target, service_ns in ((PODS, 10), (PODS, 20), (NODES, 90), (PODS + "?watch=1", 9999)):
        records.add(1, USER, "GET", target, service_ns)
    records.add(2, USER, "GET", PODS, UNKNOWN_NS)
    records.add(3, USER, "GET", "/version", UNKNOWN_NS)

    assert [15, 40] == [service_ns for _, _, service_ns in records.requests()][-2:]
    assert 2 == records.guessed


def test_kinds_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names tell kinds apart only where that may matter, and not without end."""
    monkeypatch.setattr(module, "MAX_RECENT", 3)
    monkeypatch.setattr(module, "MANY_KINDS", 4)
    records = Records()
    for number in range(6):
        records.add(number, USER, "GET", f"{PODS}/{number}", 5)
    assert "6 requests of 1 kinds" in repr(records)
    for number in range(6):
        records.add(number, USER, "PUT", f"{NODES}/{number}", 5)

    assert "12 requests of 5 kinds" in repr(records)


def test_broken_lines_are_counted() -> None:
    """All of them, but only the first are kept; a wrong target adds nothing."""
    records = Records()
    for line in range(20):
        records.break_line(line, "wrong")
    with pytest.raises(AttributesError):
        records.add(1, USER, "GET", "api", 5)

    assert (20, MAX_SHOWN_PROBLEMS) == (records.broken, len(records.problems))
    assert (0, "wrong") == records.problems[0]
    assert 0 == len(records)


@pytest.mark.parametrize(
    ("method", "first", "second", "are_alike"),
    [
        ("GET", "pods/a", "pods/b", True),
        ("GET", "pods/a", "nodes/a", False),
        ("GET", "pods/a/status", "pods/a", False),
        ("PUT", "pods/a", "pods/b", False),
        ("GET", "pods?limit=5", "pods?limit=6", False),
        ("GET", "pods?continue=a&limit=5", "pods?continue=b&limit=5", True),
        ("GET", "pods?watch=1", "pods", False),
        ("GET", "pods?timeout=1s", "pods", False),
        ("GET", "pods?watch=1&fieldSelector=spec.nodeName%3Da", "pods?watch=1", False),
    ],
)
def test_essence(method: str, first: str, second: str, are_alike: bool) -> None:
    """Requests are alike if nothing that decides anything is different."""
    one, other = (
        essence(kind_of("c", USER, method, f"/api/v1/{target}"), with_names=True)
        for target in (first, second)
    )

    assert are_alike == (one == other)
