"""The access log of a running proxy."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apfproxy.settings import (
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    EndpointAddress,
)
from tests.end_to_end import served as whole
from tests.end_to_end.scene import (
    AGREED,
    EXEC,
    GET,
    NARROW,
    OK,
    REJECTING,
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

UNUSED_PORT = 9
"""For the discard service, which does not run."""
LIST = (
    b"GET /apis/apps/v1/namespaces/shop/deployments?limit=5&continue=abc&token=s3cret"
    b"&labelSelector=app%3D%22x%22 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cret\r\n"
    b'Cookie: s3cret\r\nX-Remote-User: ann"\\\r\nX-Remote-Group: dev\r\n\r\n'
)
SLOW = GET.replace(b"healthz", b"healthz?timeout=40ms")
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ONE_SEAT = Setup(objects=NARROW, seats=1)


def logging_to(path: Path, setup: Setup = ONE_SEAT, **settings: Any) -> Setup:  # noqa: ANN401
    return replace(setup, access_log=AccessLogSettings(path=str(path), **settings))


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@on_uvloop
async def test_a_whole_line_without_secrets(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(logging_to(log)) as scene:
        ports = (UNUSED_PORT, scene.upstream.port)
        scene.process.cluster.served.pool.set_endpoints(
            [EndpointAddress(address=Address(host="127.0.0.1", port=port)) for port in ports]
        )
        await scene.exchange(LIST, source=TRUSTED)
        upstream = f"127.0.0.1:{scene.upstream.port}"
    (line,) = await asyncio.to_thread(read, log)

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("time"))
    assert 0 <= line.pop("executionSeconds")
    assert re.fullmatch(r"[0-9a-f-]{36}", line.pop("auditId"))
    assert {
        "userAgent": None,
        "protocol": "HTTP/1.1",
        "user": 'ann"\\',
        "groups": ["dev", "system:authenticated"],
        "verb": "list",
        "method": "GET",
        "path": "/apis/apps/v1/namespaces/shop/deployments",
        "query": {"limit": "5", "continue": True, "labelSelector": 'app="x"'},
        "apiGroup": "apps",
        "apiVersion": "v1",
        "resource": "deployments",
        "subresource": "",
        "namespace": "shop",
        "name": "",
        "flowSchema": "everybody",
        "priorityLevel": "narrow",
        "flow": "",
        "seats": 1,
        "waitSeconds": 0.0,
        "status": 200,
        "upstream": upstream,
        "upstreamStatus": 200,
        "bytes": 2,
        "reason": "",
        "client": TRUSTED,
    } == line
    assert "s3cret" not in json.dumps(line)


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


@on_uvloop
async def test_rotation(tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    async with running(logging_to(path)) as scene:
        await scene.exchange(GET)
        path.rename(old)
        await scene.exchange(GET.replace(b"healthz", b"old"))
        scene.process.observation.reopen()
        await scene.exchange(GET.replace(b"healthz", b"new"))

    found = [await asyncio.to_thread(read, each) for each in (old, path)]
    assert [["/healthz", "/old"], ["/new"]] == [[line["path"] for line in log] for log in found]


def test_flood_of_a_banned_client(tmp_path: Path) -> None:
    """The log has some lines a second, and says how many it left out, as a metric does."""
    uid = "uid: 00000000-0000-0000-0000-00000000aaaa"
    banned = REJECTING.replace(uid, uid + ', annotations: {apfproxy.io/ban: "true"}')
    objects, log, number = tmp_path / "objects.yaml", tmp_path / "log", 2000
    objects.write_text(banned.replace("Shares: 1000", "Shares: 0"))
    with (
        whole.started_upstream() as upstream,
        whole.command(
            *("serve", "--upstream", upstream, "--objects", str(objects)),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--access-log", str(log)),
        ) as served,
    ):
        found = served.line(r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)")
        port, admin_port = int(found[1]), int(found[2])
        statuses = set()
        with socket.create_connection(("127.0.0.1", port)) as client:
            for _ in range(number):
                client.sendall(b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n")
                statuses.add(whole.answered(client))
        metrics = whole.ask(admin_port, "/metrics")[1]
        served.end()
    lines = read(log)
    says = [line for line in lines if "leftOut" in line]
    left_out = sum(line["leftOut"] for line in says)
    counted = re.search(r'access_log_left_out_total\{cause="refused"\} (\d+)', metrics)

    assert {403} == statuses
    assert number == len(lines) - len(says) + left_out
    assert left_out > number / 2  # however slow the machine, in the time that a test has
    assert {"everybody"} == {flow["flowSchema"] for line in says for flow in line["flows"]}
    assert counted is not None
    assert left_out == float(counted[1])
