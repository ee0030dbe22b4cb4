"""A name's addresses: asked for again, kept while there is no answer, one thread at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.tasks import spawn
from apfproxy.settings import Address, EndpointAddress
from apfproxy.upstream import dns_endpoints, found_endpoints
from apfproxy.upstream.dns_endpoints import DnsEndpoints, Resolver, system_addresses
from apfproxy.upstream.found_endpoints import FoundEndpoints
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import Iterable


API = Address(host="api.example.", port=6443, is_tls=True)
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Stop(BaseException):
    """There is no more in the script."""


class Followed:
    """A name whose addresses are a script, errors in it raised, and what came of each entry."""

    def __init__(self, *script: Iterable[str] | Exception) -> None:
        self._script = list(script)
        self.asked: list[str] = []
        self.told: list[tuple[EndpointAddress, ...]] = []
        self.pauses: list[float] = []
        self.problems: list[str | None] = []
        self.endpoints = DnsEndpoints(
            API, 30.0, Resolver(self._look_up), sleep=self._sleep, chance=lambda: 1.0
        )
        self.endpoints.found.tell(self.told.append)

    def _look_up(self, host: str) -> Iterable[str]:
        self.asked.append(host)
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.problems.append(self.endpoints.problem())
        if not self._script:
            raise Stop

    async def run(self) -> Followed:
        with pytest.raises(Stop):
            await self.endpoints.run()
        return self


async def test_other_addresses_are_told_but_not_another_order() -> None:
    """Each is an endpoint that has to have the certificate of the name."""
    followed = await Followed(
        ["10.0.0.2", "2001:db8::1", "10.0.0.1"],
        ["10.0.0.1", "10.0.0.2", "2001:db8::1"],
        ["10.0.0.3"],
    ).run()

    assert [
        tuple(
            EndpointAddress(
                address=Address(host=host, port=6443, is_tls=True), server_name="api.example"
            )
            for host in hosts
        )
        for hosts in (("10.0.0.1", "10.0.0.2", "2001:db8::1"), ("10.0.0.3",))
    ] == followed.told
    assert ["api.example."] * 3 == followed.asked
    assert pytest.approx([33.0] * 3) == followed.pauses


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(UNKNOWN, "cannot be resolved: Name or service not known", id="unknown"),
        pytest.param([], "cannot be resolved: the name has no address", id="empty"),
        pytest.param(UnicodeError("label"), "cannot be resolved: no name of a host", id="odd"),
        pytest.param(OSError("broken"), "cannot be resolved: broken", id="without-a-text"),
    ],
)
async def test_failure_is_said_once_and_leaves_what_is_known(
    answer: Iterable[str] | Exception, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    followed = await Followed(["10.0.0.1"], answer, answer, answer, ["10.0.0.1"]).run()

    text = f"https://api.example.:6443: {expected}; the last known endpoint (1) stays in use"
    assert ["10.0.0.1"] == [each.address.host for [each] in followed.told]
    assert [None, text, text, text, None] == followed.problems
    assert pytest.approx([33.0, 1.0, 2.0, 4.0, 33.0]) == followed.pauses
    assert [text, "https://api.example.:6443: is resolved again"] == caplog.messages[-2:]


async def test_unknown_name_is_said_and_an_error_of_the_program_ends_the_run() -> None:
    followed = Followed(UNKNOWN, KeyError("x"))
    with pytest.raises(KeyError):
        await followed.endpoints.run()

    assert [] == followed.told
    assert not followed.endpoints.found.is_known
    why = "cannot be resolved: Name or service not known"
    assert [f"https://api.example.:6443: {why}; no endpoint is known"] == followed.problems


class Hanging:
    """A resolver that answers once it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = threading.Event()

    def __call__(self, _host: str) -> Iterable[str]:
        self.asked += 1
        self.go.wait()
        return ["10.0.0.1"]


async def test_resolver_that_hangs_holds_one_thread_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dns_endpoints, "ANSWER_S", 0.0)
    look_up, told = Hanging(), asyncio.Event()
    endpoints = DnsEndpoints(API, 30.0, Resolver(look_up))
    endpoints.found.tell(lambda _: told.set())
    running = spawn(endpoints.run(), name="resolving")
    await until(endpoints.problem)
    during = endpoints.problem()
    look_up.go.set()
    await told.wait()
    running.cancel()
    await asyncio.wait((running,))

    text = "the resolver has not answered within 0 s; no endpoint is known"
    assert f"https://api.example.:6443: {text}" == during
    assert (None, 1) == (endpoints.problem(), look_up.asked)
    assert during in caplog.text


async def test_one_question_at_a_time() -> None:
    look_up = Hanging()
    resolver = Resolver(look_up)
    first, second = resolver.ask("a"), resolver.ask("a")
    resolver.ask("b").cancel()
    look_up.go.set()

    assert [("10.0.0.1",)] * 3 == [await first, await second, await resolver.ask("a")]
    assert 3 == look_up.asked


async def test_answer_after_the_end_of_the_loop_is_no_error() -> None:
    look_up = Hanging()
    found: list[threading.Thread] = []

    def ask() -> None:
        async def ask_only() -> None:
            Resolver(look_up).ask("a")
            found.extend(each for each in threading.enumerate() if each.name == "resolving a")

        asyncio.run(ask_only())

    await asyncio.to_thread(ask)
    look_up.go.set()
    errors: list[object] = []
    before, threading.excepthook = threading.excepthook, errors.append
    try:
        await asyncio.to_thread(found[0].join)
    finally:
        threading.excepthook = before

    assert [] == errors


def test_systems_resolver() -> None:
    assert "127.0.0.1" in system_addresses("localhost")
    assert ["10.1.2.3"] == list(system_addresses("10.1.2.3"))
    with pytest.raises(OSError, match=r"."):
        system_addresses("does-not-exist.invalid")


class Told:
    """Endpoints, and the hosts that were told of them, each time."""

    def __init__(self) -> None:
        self.hosts: list[list[str]] = []
        self.now_ns = 0
        self.found = FoundEndpoints("it", lambda: self.now_ns)
        self.found.tell(self.take)

    def take(self, endpoints: tuple[EndpointAddress, ...]) -> None:
        self.hosts.append([each.address.host for each in endpoints])

    def put(self, *hosts: str) -> None:
        self.found.put(EndpointAddress(address=Address(host=each, port=443)) for each in hosts)


async def test_changes_are_told_in_the_order_of_numbers() -> None:
    told, late, kept = Told(), Told(), []
    for hosts in ((), (), ("10.0.0.2", "10.0.0.1"), ("10.0.0.1", "10.0.0.2"), ("10.0.0.1",), ()):
        told.put(*hosts)
        kept.append(told.found.kept)
    told.put("10.0.0.10", "::2", "fe80::1%eth9", "10.0.0.9", "::1", "10.0.0.9")
    told.found.tell(late.take)
    told.put("10.0.0.2")

    last = [["10.0.0.9", "10.0.0.10", "::1", "::2", "fe80::1%eth9"], ["10.0.0.2"]]
    assert [[], ["10.0.0.1", "10.0.0.2"], ["10.0.0.1"], [], last[0]] == told.hosts
    assert last == late.hosts
    none, two = "no endpoint is known", "the last known endpoints (2) stay in use"
    assert [none, none, two, two, "the last known endpoint (1) stays in use", none] == kept


async def test_last_ones_beyond_the_bound_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(found_endpoints, "MAX_ENDPOINTS", 2)
    told = Told()
    told.put("10.0.0.3", "10.0.0.1", "10.0.0.2")

    assert [["10.0.0.1", "10.0.0.2"]] == told.hosts
    assert "it has 3 endpoints; 2 of them are used" in caplog.text


async def test_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    told = Told()
    for number in range(10):
        told.put(*(f"10.0.{number}.{last}" for last in range(10)))
    told.now_ns += 61_000_000_000
    told.put("10.0.0.1")

    first = ", ".join(f"10.0.0.{last}:443" for last in range(8))
    assert [
        f"it has the endpoints {first} and 2 more",
        "it has the endpoints 10.0.0.1:443 (9 more since)",
    ] == caplog.messages


async def test_wait_ends_with_any_answer_or_when_told_to_stop() -> None:
    answered, given_up, late = Told(), Told(), Told()
    waiting = asyncio.gather(
        *(told.found.wait(limit_s) for told, limit_s in ((answered, 60), (given_up, 60), (late, 0)))
    )
    await asyncio.sleep(0)
    answered.put()
    given_up.found.stop_waiting()

    assert [True, False, False] == await waiting
