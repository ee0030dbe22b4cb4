"""Clients that ask and leave: the upstream works on no more requests than there are seats."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.scene import NARROW, OK, Setup, on_uvloop, over_both_protocols, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from tests.end_to_end.upstream import Arrival

CLIENTS = 12
FOREVER_S = 3600.0
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("wait_s", "is_stopped"),
    [
        pytest.param(FOREVER_S, False, id="wait"),
        pytest.param(FOREVER_S, True, id="wait-until-the-stop"),
        pytest.param(0.0, False, id="close"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_clients_that_leave(wait_s: float, *, is_stopped: bool) -> None:
    begun: list[Arrival] = []
    may_answer = asyncio.Event()

    async def work(arrival: Arrival) -> None:
        begun.append(arrival)
        await may_answer.wait()
        await arrival.peer.send(OK)

    setup = Setup(NARROW, seats=4).with_upstream(abandoned_wait_s=wait_s)
    async with running(setup) as scene:
        scene.upstream.answer_with(work)
        counters, queue_set = scene.process.cluster.counters, scene.level().queue_set
        for number in range(1, CLIENTS + 1):
            client = await scene.connect()
            await scene.deliver(client, GET)
            await until(lambda: len(begun) == queue_set.dispatched_total)
            await client.leave()
            await until(lambda: counters.client_aborts == number)  # noqa: B023  run at once

        limit = queue_set.concurrency_limit
        assert ((limit, limit) if wait_s else (CLIENTS, 0)) == (len(begun), queue_set.seats_in_use)
        if is_stopped:
            return  # `running` sees whether all seats come back
        may_answer.set()
        await until(lambda: queue_set.seats_in_use == 0)
        assert {} == scene.process.cluster.served.abandoned
