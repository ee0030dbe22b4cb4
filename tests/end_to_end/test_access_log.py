"""The access log of a running proxy."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apfproxy.settings import (
    AccessLogSettings,
    Address,
    AuthenticationSettings,
)
from tests.end_to_end.scene import (
    AGREED,
    EXEC,
    GET,
    NARROW,
    OK,
    TRUSTED,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

Line = dict[str, Any]

SLOW = GET.replace(b"healthz", b"healthz?timeout=1s")
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ONE_SEAT = Setup(objects=NARROW, seats=1)


def logging_to(path: Path, setup: Setup = ONE_SEAT, **settings: Any) -> Setup:  # noqa: ANN401
    return replace(setup, access_log=AccessLogSettings(path=str(path), **settings))


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@over_both_protocols
@on_uvloop
async def test_every_end_has_a_line(tmp_path: Path) -> None:
    """Queued, timed out, rejected, cut by the client and the upstream, and HEAD."""
    log = tmp_path / "log"
    flows_page = Address(host="127.0.0.1", port=0)
    async with running(replace(logging_to(log), admin=flows_page)) as scene:
        queue_set, counters = scene.level().queue_set, scene.process.cluster.counters
        hold = await scene.take_seat()
        waiting = [await scene.ask(GET), await scene.ask(SLOW)]
        await until(lambda: queue_set.requests_waiting == 2)
        await (await scene.ask(GET)).read_answer()
        await waiting[1].read_answer()
        await hold.end()
        await (await scene.upstream.next_request()).peer.send(OK)
        await waiting[0].read_answer()
        hold = await scene.take_seat()
        await scene.deliver_answer(hold.arrival.peer, STREAM + b"3\r\nabc\r\n")
        await hold.client.leave()
        await until(lambda: counters.client_aborts)
        hold = await scene.take_seat()
        await scene.deliver_answer(hold.arrival.peer, STREAM + b"3\r\nabc\r\n")
        hold.arrival.peer.close()
        await hold.client.read_head()
        await hold.client.read_to_end()
        hold = await scene.take_seat(GET.replace(b"GET", b"POST"))
        hold.arrival.peer.close()
        await hold.client.read_answer()
        await scene.exchange(GET.replace(b"GET", b"HEAD"), OK.removesuffix(b"ok"))
        top_flows = scene.process.observation.top_flows(scene.process.cluster.served)
        assert top_flows is not None
        (flow,) = top_flows.state().flows
    lines = await asyncio.to_thread(read, log)

    assert [
        (429, None, "queue-full", 43),
        (429, None, "time-out", 43),
        (200, 200, "", 2),
        (200, 200, "", 2),
        (200, 200, "cancelled", 3),
        (200, 200, "upstream", 3),
        (502, None, "upstream", None),
        (200, 200, "", 0),
    ] == [
        (
            line["status"],
            line["upstreamStatus"],
            line["reason"],
            None if line["status"] == 502 else line["bytes"],
        )
        for line in lines
    ]
    assert [False, True, False, True] == [line["waitSeconds"] > 0 for line in lines[:4]]
    assert ("everybody", "narrow", "") == (flow.flow_schema, flow.priority_level, flow.flow)
    assert min(flow.seat_seconds, flow.wait_seconds, flow.rejected) > 0


@on_uvloop
async def test_tunnels_and_what_is_refused_before_its_class(tmp_path: Path) -> None:
    log = tmp_path / "log"
    known_only = AuthenticationSettings(anonymous=False)
    setup = logging_to(log, replace(ONE_SEAT, upstream_reads=False, authentication=known_only))
    async with running(setup) as scene:
        await (await scene.ask(b"nonsense\r\n\r\n")).read_answer()
        await (await scene.ask(GET)).read_answer()
        named = EXEC.replace(b"\r\n\r\n", b"\r\nX-Remote-User: ann\r\n\r\n")
        client = await scene.ask(named, source=TRUSTED)
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        await upstream.send(AGREED + b"12345678")
        await client.read_head()
        await client.read_exactly(8)
        client.close()
        upstream.close()
        await until(lambda: not scene.process.cluster.counters.tunnels_open)
    lines = await asyncio.to_thread(read, log)

    assert [
        (400, "malformed", None, None, 0),
        (401, "unidentified", None, "/healthz", 0),
        (101, "", "ann", "/api/v1/namespaces/a/pods/b/exec", 0),
    ] == [tuple(line[n] for n in ("status", "reason", "user", "path", "seats")) for line in lines]
    assert 8 == lines[-1]["bytes"]
