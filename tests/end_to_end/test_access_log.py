"""The access log of a running proxy: a line for each request, however it ends."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apfproxy.settings import (
    ERRORS,
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    EndpointAddress,
    TunnelSettings,
    WatchSettings,
)
from tests.end_to_end import served as whole
from tests.end_to_end.scene import (
    GET,
    NARROW,
    OK,
    REJECTING,
    TRUSTED,
    Scene,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.end_to_end.test_additions import annotated
from tests.end_to_end.test_upgrades import AGREED, EXEC
from tests.support.clocks import until

Line = dict[str, Any]
Steps = Callable[[Scene], Awaitable[None]]

UNUSED_PORT = 9
"""Of the discard service, which nobody runs."""
FULL = Path("/dev/full")
LIST = (
    b"GET /apis/apps/v1/namespaces/shop/deployments?limit=5&continue=abc&token=s3cret"
    b"&labelSelector=app%3D%22x%22 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cret\r\n"
    b'Cookie: s3cret\r\nX-Remote-User: ann"\\\r\nX-Remote-Group: dev\r\n\r\n'
)
WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: a\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n"
ONE_SEAT = Setup(objects=NARROW, seats=1)


async def logged(
    steps: Steps,
    setup: Setup,
    path: Path,
    upstream_port: int = 0,
    **settings: Any,  # noqa: ANN401
) -> list[Line]:
    """Run a scene with an access log: its lines, once the proxy is gone.

    Args:
        steps: What clients and the upstream do.
        setup: What the scene is made of.
        path: Of the log.
        upstream_port: Where requests go instead of to the upstream, if not 0.
        settings: Of the log.
    """
    setup = replace(setup, access_log=AccessLogSettings(path=str(path), **settings))
    async with running(setup, upstream_port=upstream_port) as scene:
        await steps(scene)
    return await asyncio.to_thread(read, path)


def read(path: Path) -> list[Line]:
    """The lines of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@on_uvloop
async def test_a_plain_answer(tmp_path: Path) -> None:
    """A line says who asked for what, where that belonged, and what became of it; no secret."""

    async def steps(scene: Scene) -> None:
        await scene.exchange(LIST, source=TRUSTED)

    (line,) = await logged(steps, Setup(objects=NARROW), tmp_path / "log")

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
        "upstreamStatus": 200,
        "bytes": 2,
        "reason": "",
        "client": TRUSTED,
    } == line
    assert "s3cret" not in json.dumps(line)


async def queued(scene: Scene) -> None:
    """A request waits until another one ends."""
    hold = await scene.take_seat(GET.replace(b"healthz", b"first"))
    client = await scene.ask(GET)
    await until(lambda: scene.level().queue_set.requests_waiting)
    await hold.end()
    await (await scene.upstream.next_request()).peer.send(OK)
    await client.read_answer()


async def refused_by_full_queue(scene: Scene) -> None:
    """A queue of two places is full."""
    await scene.take_seat(GET.replace(b"healthz", b"first"))
    for waiting in (1, 2):
        await scene.ask(GET.replace(b"healthz", b"waiting"))
        await until(lambda: scene.level().queue_set.requests_waiting == waiting)  # noqa: B023  run at once
    await (await scene.ask(GET)).read_answer()


async def refused_without_queue(scene: Scene) -> None:
    """All seats of a level without queues are taken."""
    await scene.take_seat(GET.replace(b"healthz", b"first"))
    await (await scene.ask(GET)).read_answer()


async def refused_after_waiting(scene: Scene) -> None:
    """A request waits for a quarter of its time."""
    await scene.take_seat(GET.replace(b"healthz", b"first"))
    await (await scene.ask(GET.replace(b"healthz", b"healthz?timeout=40ms"))).read_answer()


async def left_while_executing(scene: Scene) -> None:
    """The client goes while the upstream works."""
    hold = await scene.take_seat()
    hold.client.close()
    await until(lambda: scene.process.cluster.counters.client_aborts)


async def left_while_waiting(scene: Scene) -> None:
    """The client goes while its request waits."""
    await scene.take_seat(GET.replace(b"healthz", b"first"))
    client = await scene.ask(GET)
    await until(lambda: scene.level().queue_set.requests_waiting)
    client.close()
    await until(lambda: scene.process.cluster.counters.client_aborts)


async def left_within_the_answer(scene: Scene) -> None:
    """The client goes with a part of the answer."""
    hold = await scene.take_seat()
    await scene.deliver_answer(hold.arrival.peer, STREAM + b"3\r\nabc\r\n")
    hold.client.close()
    await until(lambda: scene.process.cluster.counters.client_aborts)


async def broken_off(scene: Scene) -> None:
    """The upstream closes before the end of its answer."""
    hold = await scene.take_seat()
    await scene.deliver_answer(hold.arrival.peer, STREAM + b"3\r\nabc\r\n")
    hold.arrival.peer.close()
    await hold.client.read_head()
    await hold.client.read_to_end()


async def not_answered(scene: Scene) -> None:
    """The upstream closes without an answer."""
    hold = await scene.take_seat(GET.replace(b"GET", b"POST"))
    hold.arrival.peer.close()
    await hold.client.read_answer()


async def answered(scene: Scene) -> None:
    """Somebody answers by himself."""
    await (await scene.ask(GET)).read_answer()


async def not_answered_in_time(scene: Scene) -> None:
    """The upstream takes too long."""
    hold = await scene.take_seat()
    await hold.client.read_answer()


async def answered_too_slowly(scene: Scene) -> None:
    """The answer is not through when the request's time is over."""
    hold = await scene.take_seat(GET.replace(b"healthz", b"healthz?timeout=40ms"))
    await hold.arrival.peer.send(STREAM)
    await hold.client.read_head()
    await until(lambda: not scene.process.server.connection_count)


async def watched(scene: Scene) -> None:
    """A watch gives its seat back long before its end."""
    hold = await scene.take_seat(WATCH)
    await scene.deliver_answer(hold.arrival.peer, STREAM + b"3\r\nabc\r\n")
    await until(lambda: not scene.level().queue_set.requests_executing)
    await hold.arrival.peer.send(b"0\r\n\r\n")
    await hold.client.read_answer()


async def headed(scene: Scene) -> None:
    """A HEAD."""
    await scene.exchange(GET.replace(b"GET", b"HEAD"), OK.removesuffix(b"ok"))


async def malformed(scene: Scene) -> None:
    """What is no HTTP."""
    await (await scene.ask(b"nonsense\r\n\r\n")).read_answer()


async def malformed_body(scene: Scene) -> None:
    """A body that breaks off after the request went on."""
    chunked = b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    client = await scene.connect()
    await scene.deliver(client, chunked)
    await client.send(b"no chunk\r\n")
    await client.read_answer()


async def without_its_body(scene: Scene) -> None:
    """A body that does not come in time."""
    await (await scene.ask(POST.replace(b"pods", b"pods?timeout=40ms") + b"a")).read_answer()


async def tunnelled(scene: Scene) -> None:
    """A tunnel through which eight bytes come back."""
    client = await scene.ask(EXEC)
    upstream = await scene.upstream.next_connection()
    await upstream.read_head()
    await upstream.send(AGREED + b"1234")
    await client.read_head()
    await upstream.send(b"5678")
    await client.read_exactly(8)
    client.close()
    upstream.close()
    await until(lambda: not scene.process.cluster.counters.tunnels_open)


NOBODY_ELSE = AuthenticationSettings(anonymous=False)

ENDS = [
    pytest.param(queued, ONE_SEAT, {"status": 200, "bytes": 2, "seats": 1}, id="queued"),
    pytest.param(
        refused_by_full_queue,
        ONE_SEAT,
        {"status": 429, "upstreamStatus": None, "reason": "queue-full", "bytes": 43, "flow": ""},
        id="queue full",
    ),
    pytest.param(
        refused_without_queue,
        replace(ONE_SEAT, objects=REJECTING),
        {
            "status": 429,
            "upstreamStatus": None,
            "reason": "concurrency-limit",
            "seats": 1,
            "waitSeconds": 0,
        },
        id="no queue",
    ),
    pytest.param(
        refused_after_waiting,
        ONE_SEAT,
        {"status": 429, "upstreamStatus": None, "reason": "time-out", "seats": 1},
        id="waited in vain",
    ),
    pytest.param(
        left_while_executing,
        ONE_SEAT,
        {"status": None, "upstreamStatus": None, "reason": "cancelled", "seats": 1},
        id="client left",
    ),
    pytest.param(
        left_while_waiting,
        ONE_SEAT,
        {"status": None, "reason": "cancelled", "executionSeconds": 0.0},
        id="client left the queue",
    ),
    pytest.param(
        left_within_the_answer,
        ONE_SEAT,
        {"status": 200, "upstreamStatus": 200, "reason": "cancelled", "bytes": 3},
        id="client left the answer",
    ),
    pytest.param(
        broken_off,
        ONE_SEAT,
        {"status": 200, "upstreamStatus": 200, "reason": "upstream", "bytes": 3},
        id="answer broken off",
    ),
    pytest.param(
        not_answered,
        ONE_SEAT,
        {"status": 502, "upstreamStatus": None, "reason": "upstream"},
        id="no answer",
    ),
    pytest.param(
        not_answered_in_time,
        ONE_SEAT.with_upstream(answer_timeout_s=0.01),
        {"status": 504, "upstreamStatus": None, "reason": "upstream-timeout"},
        id="no answer in time",
    ),
    pytest.param(
        answered_too_slowly,
        ONE_SEAT,
        {"status": 200, "upstreamStatus": 200, "reason": "deadline", "bytes": 0},
        id="slow answer",
    ),
    pytest.param(
        watched,
        replace(ONE_SEAT, watch=WatchSettings(silence_s=0.001)),
        {"status": 200, "verb": "watch", "seats": 1, "bytes": 3, "query": {"watch": "true"}},
        id="watch",
    ),
    pytest.param(headed, ONE_SEAT, {"status": 200, "method": "HEAD", "bytes": 0}, id="head"),
    pytest.param(
        malformed,
        ONE_SEAT,
        {"status": 400, "reason": "malformed", "user": None, "path": None, "client": "127.0.0.1"},
        id="malformed",
    ),
    pytest.param(
        malformed_body,
        ONE_SEAT.with_downstream(),
        {"status": 400, "upstreamStatus": None, "reason": "malformed", "path": "/healthz"},
        id="malformed body",
    ),
    pytest.param(
        without_its_body,
        ONE_SEAT,
        {"status": 408, "reason": "client-timeout", "resource": "pods", "flowSchema": None},
        id="no body",
    ),
    pytest.param(
        answered,
        replace(ONE_SEAT, authentication=NOBODY_ELSE),
        {"status": 401, "reason": "unidentified", "user": None, "path": "/healthz"},
        id="unidentified",
    ),
    pytest.param(
        tunnelled,
        replace(ONE_SEAT, upstream_reads=False, tunnel=TunnelSettings()),
        {"status": 101, "upstreamStatus": 101, "bytes": 8, "subresource": "exec", "seats": 0},
        id="tunnel",
    ),
]


@pytest.mark.parametrize(("steps", "setup", "expected"), ENDS)
@on_uvloop
async def test_every_end_has_a_line(
    steps: Steps, setup: Setup, expected: Line, tmp_path: Path
) -> None:
    """However a request ends, exactly one line says so."""
    lines = await logged(steps, setup, tmp_path / "log")
    found = [line for line in lines if line["path"] not in {"/first", "/waiting"}]

    assert [expected] == [{name: line[name] for name in expected} for line in found]


@over_both_protocols
@on_uvloop
async def test_the_wait_of_a_queued_request(tmp_path: Path) -> None:
    """The time in the queue and that at the upstream are told apart."""
    lines = await logged(queued, ONE_SEAT, tmp_path / "log")

    assert ["/first", "/healthz"] == [line["path"] for line in lines]
    assert [True, False] == [line["waitSeconds"] == 0 for line in lines]


@over_both_protocols
@on_uvloop
async def test_an_upstream_that_is_not_there(tmp_path: Path) -> None:
    """Nobody listens there."""
    (line,) = await logged(answered, ONE_SEAT, tmp_path / "log", upstream_port=UNUSED_PORT)

    assert (502, None, "upstream") == (line["status"], line["upstreamStatus"], line["reason"])


@over_both_protocols
@on_uvloop
async def test_which_server(tmp_path: Path) -> None:
    """Of several servers the line names the one that has had the request at last."""

    async def steps(scene: Scene) -> None:
        ports = (UNUSED_PORT, scene.upstream.port)
        addresses = [Address(host="127.0.0.1", port=port) for port in ports]
        pool = scene.process.cluster.served.pool
        pool.set_endpoints([EndpointAddress(address=each) for each in addresses])
        for _ in range(2):
            await scene.exchange(GET)
        found.append(f"127.0.0.1:{scene.upstream.port}")

    found: list[str] = []
    lines = await logged(steps, ONE_SEAT, tmp_path / "log")

    assert found * 2 == [line["upstream"] for line in lines]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"requests": ERRORS}, [404]),
        ({"sampled_percent": 0}, [404]),
        ({}, [200, 404]),
    ],
    ids=["errors", "no sample", "all"],
)
@over_both_protocols
@on_uvloop
async def test_only_some(settings: Line, expected: list[int], tmp_path: Path) -> None:
    """Of requests without an error only a sample is logged; errors always are."""

    async def steps(scene: Scene) -> None:
        await scene.exchange(GET)
        await scene.exchange(GET, OK.replace(b"200 OK", b"404 Not Found"))

    lines = await logged(steps, ONE_SEAT, tmp_path / "log", **settings)

    assert expected == [line["status"] for line in lines]


@over_both_protocols
@on_uvloop
async def test_a_full_disk() -> None:
    """Requests go on; the lines are counted as dropped, and the check of readiness says why."""
    setup = replace(Setup(), access_log=AccessLogSettings(path=str(FULL)))
    async with running(setup) as scene:
        access_log = scene.process.observation.access_log
        assert access_log is not None
        await scene.exchange(GET)
        await until(lambda: access_log.problem)
        _, answer = await scene.exchange(GET)

        assert 200 == answer.status
        assert (
            "/dev/full cannot be written: No space left on device"
            == scene.process.health.problem("access-log")
        )
        await until(lambda: 2 == access_log.dropped)


@over_both_protocols
@on_uvloop
async def test_a_rotation(tmp_path: Path) -> None:
    """What ends before the file is opened again is in the old one, the rest in the new one."""
    path, old = tmp_path / "log", tmp_path / "log.1"
    setup = replace(Setup(), access_log=AccessLogSettings(path=str(path)))
    async with running(setup) as scene:
        await scene.exchange(GET)
        path.rename(old)
        await scene.exchange(GET.replace(b"healthz", b"old"))
        scene.process.observation.reopen()
        await scene.exchange(GET.replace(b"healthz", b"new"))

    found = [await asyncio.to_thread(read, each) for each in (old, path)]

    assert [["/healthz", "/old"], ["/new"]] == [[line["path"] for line in log] for log in found]


@on_uvloop
async def test_top_flows() -> None:
    """Who takes seats, waits and is rejected is known without a log."""
    async with running(replace(ONE_SEAT, admin=Address(host="127.0.0.1", port=0))) as scene:
        await queued(scene)
        await refused_by_full_queue(scene)
        top_flows = scene.process.observation.top_flows(scene.process.cluster.served)
        assert top_flows is not None
        (flow,) = top_flows.state().flows

        assert ("everybody", "narrow", "") == (flow.flow_schema, flow.priority_level, flow.flow)
        assert [True, True, True] == [
            number > 0 for number in (flow.seat_seconds, flow.wait_seconds, flow.rejected)
        ]


def test_flood_of_a_banned_client(tmp_path: Path) -> None:
    """Its requests leave some lines a second, and the log and a metric say how many did not."""
    banned = annotated(
        "uid: 00000000-0000-0000-0000-00000000aaaa", 'apfproxy.io/ban: "true"', REJECTING
    )
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
        request = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"
        statuses = set()
        with socket.create_connection(("127.0.0.1", port)) as client:
            for _ in range(number):
                client.sendall(request)
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
