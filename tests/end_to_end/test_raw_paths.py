"""Paths in raw UTF-8, as clients send them that escape nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.end_to_end.scene import OK, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from pathlib import Path

REPORTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: reports, uid: 00000000-0000-0000-0000-00000000dddd}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: exempt}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["/données"]}]
"""


@pytest.mark.parametrize("preset", ["http", "kubernetes"])
@pytest.mark.parametrize(
    ("target", "path", "schema"),
    [
        pytest.param("/données?à=ü".encode(), "/données", "reports", id="utf-8"),
        pytest.param(b"/donn%C3%A9es", "/données", "reports", id="escaped"),
        pytest.param(b"/donn\xe9es", "/donn\N{REPLACEMENT CHARACTER}es", "catch-all", id="latin-1"),
        pytest.param("/\x9b".encode(), "/\x9b", "catch-all", id="control-in-utf-8"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_goes_on_as_it_came(
    target: bytes, path: str, schema: str, preset: str, tmp_path: Path
) -> None:
    """It is classified as what it decodes to, and logged in ASCII."""
    log = tmp_path / "log"
    setup = Setup(preset=preset, objects=REPORTS, access_log=AccessLogSettings(path=str(log)))
    async with running(setup) as scene:
        got, answer = await scene.exchange(b"GET %b HTTP/1.1\r\nHost: a.test\r\n\r\n" % target, OK)

        assert b"GET %b HTTP/1.1" % target == got.line
        assert 200 == answer.status
    (line,) = log.read_bytes().splitlines()
    assert line.isascii()
    assert (path, schema) == (json.loads(line)["path"], json.loads(line)["flowSchema"])


@on_uvloop
async def test_that_comes_bit_by_bit() -> None:
    """Each byte may be the last of a read."""
    request = "GET /é?ü HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
    async with running(Setup(preset="http")) as scene:
        client = await scene.connect()
        await scene.deliver(client, *(request[at : at + 1] for at in range(len(request))))

        assert "GET /é?ü HTTP/1.1".encode() == (await scene.upstream.next_request()).request.line
