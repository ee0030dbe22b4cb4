"""Requests and responses of many forms, over real connections that are kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import (
    GATHERED_BYTES,
    OK,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

PODS = b"/api/v1/namespaces/default/pods"
PIPELINE = b"".join(
    (
        b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST %b/two HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" % PODS,
        b"GET /three HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PUT %b/four HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS,
        b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
        b"\r\nDELETE %b/five HTTP/1.1\r\nHost: a\r\n\r\n" % PODS,
    )
)
PIPELINED = [
    b"/one ",
    PODS + b"/two hello",
    b"/three ",
    PODS + b"/four abcdefg",
    PODS + b"/five ",
]

REPORTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: reports}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: exempt}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["/données"]}]
"""


async def say_request(arrival: Arrival) -> None:
    body = arrival.request.line.split(b" ")[1] + b" " + arrival.request.body
    await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


@pytest.mark.parametrize("step", [1, 7, len(PIPELINE)])
@on_uvloop
async def test_pipelined_requests(step: int) -> None:
    """Pipelined requests get their responses in their order, however their bytes come."""
    async with running() as scene:
        scene.upstream.answer_with(say_request)
        client = await scene.connect()
        pieces = [PIPELINE[at : at + step] for at in range(0, len(PIPELINE), step)]
        await scene.deliver(client, *pieces)

        assert PIPELINED == [(await client.read_answer()).body for _ in PIPELINED]
        assert 1 == len(scene.upstream.peers)


@on_uvloop
async def test_a_thousand_pipelined_requests() -> None:
    """So many requests in a few reads all get a response, each once."""
    async with running() as scene:
        scene.upstream.answer_with(say_request)
        client = await scene.connect()
        targets = [b"/%d" % number for number in range(1000)]
        requests = b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % each for each in targets)
        sending = begin(client.send(requests))
        bodies = [(await client.read_answer()).body for _ in targets]
        await sending

        assert [target + b" " for target in targets] == bodies


@on_uvloop
async def test_bodies_are_streamed() -> None:
    """Each part of a body is passed on before the next one is there, both ways."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % PODS
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        for part in (b"one", b"two"):
            await client.send(b"3\r\n%b\r\n" % part)
            assert part == await upstream.read_chunk()
        await client.send(b"0\r\n\r\n")
        assert b"" == await upstream.read_chunk()
        await upstream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.read_head()
        for part in (b"four", b"five"):
            await upstream.send(b"4\r\n%b\r\n" % part)
            assert part == await client.read_chunk()
        await upstream.send(b"0\r\n\r\n")
        assert b"" == await client.read_chunk()


@on_uvloop
async def test_a_response_before_the_end_of_the_request() -> None:
    """A response that comes while the body is still on its way reaches the client at once."""
    async with running(Setup(upstream_reads=False)) as scene:
        client = await scene.ask(
            b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" % PODS
            + b"first".ljust(GATHERED_BYTES)
        )
        upstream = await scene.upstream.next_connection()
        await upstream.read_head()
        assert b"first" == (await upstream.read_exactly(GATHERED_BYTES)).rstrip()
        await upstream.send(OK.replace(b"200 OK", b"413 Content Too Large"))
        got = await client.read_answer()

        assert (413, b"ok", b"close") == (got.status, got.body, got.value(b"connection"))
        assert await client.is_at_end()
        assert await upstream.is_at_end()


@pytest.mark.parametrize("preset", ["http", "kubernetes"])
@over_both_protocols
@on_uvloop
async def test_odd_request_lines(preset: str, tmp_path: Path) -> None:
    """Any method and raw UTF-8 go on as they came; the path is classified as it is decoded."""
    log = tmp_path / "log"
    setup = Setup(preset=preset, objects=REPORTS, access_log=AccessLogSettings(path=str(log)))
    lines = ["x-Made_up.1 /données?à=ü", "LIST /donn%C3%A9es"]
    async with running(setup) as scene:
        for line in lines:
            head = f"{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n".encode()
            got, answer = await scene.exchange(head + b"ab")
            assert (f"{line} HTTP/1.1".encode(), b"ab") == (got.line, got.body)
            assert 200 == answer.status

    assert log.read_bytes().isascii()
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.split()[0] for line in lines] == [each["method"] for each in logged]
    assert [("x-made_up.1", "/données", "reports"), ("list", "/données", "reports")] == [
        (each["verb"], each["path"], each["flowSchema"]) for each in logged
    ]
