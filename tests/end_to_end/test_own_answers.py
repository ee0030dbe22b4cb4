"""Responses of the proxy's own as clients see them, and requests that look odd as servers do."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings, AuthenticationSettings
from tests.end_to_end.kubectl import Kubectl, find_kubectl, minor_version
from tests.end_to_end.scene import GET, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

BROKEN_OFF = "the upstream did not answer: the connection was closed early"
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


def test_kubectl_prints_the_cause(tmp_path: Path) -> None:
    """Whether it reads a `Status`, or the body as it came, as of all that is no resource."""
    program = find_kubectl()

    async def broken_off(arrival: Arrival) -> None:
        arrival.peer.close()

    @on_uvloop
    async def run() -> None:
        async with running() as scene:
            scene.upstream.answer_with(broken_off)
            minor, url = minor_version(program, tmp_path), f"http://127.0.0.1:{scene.process.port}"
            kubectl = Kubectl(program, minor, url, tmp_path, tmp_path)
            for command in (
                ["get", "--raw", "/api/v1/namespaces/a/pods"],
                ["get", "--raw", "/api/v1/namespaces/a/services/b/proxy/"],
                ["get", "--raw", "/healthz"],
            ):
                errors = await asyncio.to_thread(kubectl.fail, *command)
                assert BROKEN_OFF in errors.splitlines()[-1]
                assert "unknown" not in errors

    run()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(
            [f"X-Field-{i}: a" for i in range(300)],
            b"more than 256 header fields (downstream.maxHeaderFields)",
            id="fields",
        ),
        pytest.param(
            ["X-Field: " + "a" * 50_000] * 2,
            b"longer than 65536 bytes (downstream.maxHeadBytes)",
            id="bytes",
        ),
    ],
)
@over_both_protocols
@on_uvloop
async def test_431_names_the_setting(lines: list[str], said: bytes) -> None:
    """And says how much it is."""
    request = "\r\n".join(["GET /x HTTP/1.1", "Host: a.test", *lines, "", ""]).encode()
    async with running() as scene:
        answer = await (await scene.ask(request)).read_answer()

    assert (431, True) == (answer.status, said in answer.body)


@over_both_protocols
@on_uvloop
async def test_401_says_how() -> None:
    """RFC 9110, section 15.5.2, wants one challenge at least; each response is dated."""
    before = int(time.time())
    setup = Setup(authentication=AuthenticationSettings(anonymous=False))
    async with running(setup) as scene:
        answer = await (await scene.ask(GET)).read_answer()

    assert 401 == answer.status
    assert b'Bearer realm="apfproxy"' == answer.value(b"www-authenticate")
    date = parsedate_to_datetime((answer.value(b"date") or b"").decode()).timestamp()
    assert before <= date <= time.time()


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
