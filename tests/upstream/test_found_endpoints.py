"""Endpoints that a source has found: in order, bounded, told once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.tasks import spawn
from apfproxy.settings import Address, EndpointAddress
from apfproxy.upstream import found_endpoints
from apfproxy.upstream.found_endpoints import FoundEndpoints

if TYPE_CHECKING:
    import pytest


def at(host: str, port: int = 443) -> EndpointAddress:
    return EndpointAddress(address=Address(host=host, port=port))


class Told:
    """Endpoints, and the hosts that were told of them, each time."""

    def __init__(self) -> None:
        self.hosts: list[list[str]] = []
        self.now_ns = 0
        self.found = FoundEndpoints("it", lambda: self.now_ns)
        self.found.tell(self.take)

    def take(self, endpoints: tuple[EndpointAddress, ...]) -> None:
        self.hosts.append([each.address.host for each in endpoints])


async def test_endpoints_come_in_the_order_of_their_numbers_each_once() -> None:
    told = Told()
    hosts = ("10.0.0.10", "::2", "fe80::1%eth9", "10.0.0.9", "::1", "10.0.0.9")
    told.found.put(map(at, hosts))

    assert [["10.0.0.9", "10.0.0.10", "::1", "::2", "fe80::1%eth9"]] == told.hosts


async def test_told_of_changes_only() -> None:
    told = Told()
    told.found.put([])
    told.found.put([])
    told.found.put([at("10.0.0.2"), at("10.0.0.1")])
    told.found.put([at("10.0.0.1"), at("10.0.0.2")])
    told.found.put([])

    assert [[], ["10.0.0.1", "10.0.0.2"], []] == told.hosts


async def test_late_listener_is_told_what_is_known() -> None:
    found, told = FoundEndpoints("it"), Told()
    found.put([at("10.0.0.1")])
    found.tell(told.take)
    found.put([at("10.0.0.2")])

    assert [["10.0.0.1"], ["10.0.0.2"]] == told.hosts


async def test_last_ones_beyond_the_bound_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(found_endpoints, "MAX_ENDPOINTS", 2)
    told = Told()
    told.found.put([at("10.0.0.3"), at("10.0.0.1"), at("10.0.0.2")])

    assert [["10.0.0.1", "10.0.0.2"]] == told.hosts
    assert "it has 3 endpoints; 2 of them are used" in caplog.text


async def test_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    told = Told()
    for number in range(10):
        told.found.put([at(f"10.0.{number}.{last}") for last in range(10)])
    told.now_ns += 61_000_000_000
    told.found.put([at("10.0.0.1")])

    assert [
        "it has the endpoints "
        + ", ".join(f"10.0.0.{last}:443" for last in range(8))
        + " and 2 more",
        "it has the endpoints 10.0.0.1:443 (9 more since)",
    ] == caplog.messages


async def test_text_says_how_many_stay_in_use() -> None:
    told, texts = Told(), []
    for hosts in ([], ["10.0.0.1"], ["10.0.0.1", "10.0.0.2"]):
        told.found.put(map(at, hosts))
        texts.append(told.found.kept)

    assert [
        "no endpoint is known",
        "the last known endpoint (1) stays in use",
        "the last known endpoints (2) stay in use",
    ] == texts


async def test_wait_ends_with_any_answer_or_when_told_to_stop() -> None:
    answered, given_up, late = Told(), Told(), Told()
    waits = {}

    async def wait(told: Told, timeout_s: float) -> None:
        waits[told] = await told.found.wait(timeout_s)

    tasks = [
        spawn(wait(told, timeout_s), name="waiting")
        for told, timeout_s in ((answered, 60.0), (given_up, 60.0), (late, 0.0))
    ]
    answered.found.put([])
    given_up.found.stop_waiting()
    for task in tasks:
        await task

    assert {answered: True, given_up: False, late: False} == waits
