"""Values of a wrong type, which compiled code refuses where they come in: whom they cost what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.proxy.fakes import GET, OK, Bench, status

if TYPE_CHECKING:
    from apfproxy.base.clock import Clock


class Late:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: list[Any] = ["late"]

    def now_ns(self) -> int:
        return self._answers.pop() if self._answers else self._clock.now_ns()

    def __getattr__(self, name: str) -> object:
        return getattr(self._clock, name)


def make_late(bench: Bench) -> None:
    late = cast("Clock", Late(bench.context.clock))
    bench.context.clock = bench.listener.clock = late


@pytest.fixture
def errors(bench: Bench) -> list[BaseException]:
    bench.loop.errors = []
    return bench.loop.errors


def test_an_exchange(bench: Bench, errors: list[BaseException]) -> None:
    first, second = bench.ask(GET), bench.ask(GET)
    make_late(bench)
    bench.send(bench.upstreams[0], OK)

    assert [TypeError] == [type(error) for error in errors]
    assert "abort" == first.ended_by
    bench.connect()
    bench.send(bench.upstreams[-1], OK)
    assert b"200" == status(second.take())
    bench.end(second)
    bench.assert_at_rest()


def test_a_deadline(bench: Bench, errors: list[BaseException]) -> None:
    clients = [bench.client() for _ in range(3)]
    for client in clients:
        bench.send(client, b"GET / HT")
    make_late(bench)
    bench.wait(3600)

    assert [TypeError] == [type(error) for error in errors]
    assert 1 == [client.ended_by for client in clients].count("abort")
    assert 2 == [status(client.take()) for client in clients if client.ended_by != "abort"].count(
        b"408"
    )
