"""A proxy with so few seats that levels have none while they are idle."""

from __future__ import annotations

import pytest

from apfproxy.settings import AS_KUBERNETES, OBSERVE, PROMPT
from tests.end_to_end.scene import OK, Setup, on_uvloop, running

GET = b"GET /api/v1/namespaces/default/configmaps/a HTTP/1.1\r\nHost: a.test\r\n\r\n"
LEVEL = "global-default"


@pytest.mark.parametrize(
    ("limit_adjustment", "expected"),
    [
        pytest.param(PROMPT, (1, 0), id="prompt"),
        pytest.param(AS_KUBERNETES, (0, 1), id="kubernetes"),
    ],
)
@on_uvloop
async def test_the_first_request_of_an_idle_proxy(
    limit_adjustment: str, expected: tuple[int, int]
) -> None:
    """It goes on at once; as in Kubernetes it would wait for the adjustment every 10 s."""
    async with running(Setup(seats=8, limit_adjustment=limit_adjustment)) as scene:
        client = await scene.connect()
        await scene.deliver(client, GET)
        queue_set = scene.level(LEVEL).queue_set
        assert expected == (queue_set.requests_executing, queue_set.requests_waiting)

        if limit_adjustment == AS_KUBERNETES:
            scene.process.cluster.controller.adjust_limits()
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        assert 200 == (await client.read_answer()).status


@on_uvloop
async def test_many_at_once() -> None:
    """The others follow as seats of idle levels are lent, without an adjustment every 10 s."""
    async with running(Setup(seats=8)) as scene:
        for _ in range(4):
            client = await scene.connect()
            await scene.deliver(client, GET)
        arrivals = [await scene.upstream.next_request() for _ in range(4)]

        assert 4 == len(arrivals) == scene.level(LEVEL).queue_set.requests_executing


@on_uvloop
async def test_observed() -> None:
    """Where flow control only observes, it observes the same."""
    async with running(Setup(seats=8, enforcement=OBSERVE)) as scene:
        client = await scene.connect()
        await scene.deliver(client, GET)

        assert (1, 0) == (
            scene.level(LEVEL).queue_set.requests_executing,
            scene.level(LEVEL).queue_set.requests_waiting,
        )
