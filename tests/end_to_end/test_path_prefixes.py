"""APIs below prefixes that the server itself owns, on the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import HTTP_API, KUBERNETES_API, AccessLogSettings, RequestSettings
from tests.end_to_end.scene import NARROW, OK, Setup, on_uvloop, over_both_protocols, running
from tests.end_to_end.test_access_log import read

if TYPE_CHECKING:
    from pathlib import Path

PREFIXES = RequestSettings(path_prefixes=("/k8s/clusters/{cluster}", "/clusters/{workspace}"))
SCHEMA = "metadata: {name: everybody, uid: 00000000-0000-0000-0000-00000000bbbb"
BY_CLUSTER = NARROW.replace(
    SCHEMA,
    SCHEMA
    + ", annotations: {apfproxy.io/distinguisher: path-prefix, apfproxy.io/request-rate: '0.01',"
    " apfproxy.io/request-burst: '2'}",
)
"""Each cluster may make two requests."""


def get(target: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("preset", [KUBERNETES_API, HTTP_API])
@over_both_protocols
@on_uvloop
async def test_flows_of_clusters(preset: str) -> None:
    """Each cluster has its own rate, whatever is asked of it; no other one can spend it."""
    async with running(Setup(objects=BY_CLUSTER, request=PREFIXES, preset=preset)) as scene:

        async def statuses(*targets: bytes) -> list[int]:
            found = []
            for target in targets:
                client = await scene.ask(get(target))
                found.append((await client.read_answer()).status)
            return found

        scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        for cluster in (b"/clusters/a", b"/clusters/b", b"/k8s/clusters/c"):
            found = await statuses(cluster + b"/api/v1/pods", cluster, cluster + b"/version")
            assert [200, 200, 429] == found
        # All that have none, or might be another's, share one.
        assert [200, 200, 429, 429, 429, 429] == await statuses(
            b"/clusters/d/../d/api/v1/pods",
            b"/clusters/d/%2e%2e/d/x",
            b"/clusters/d%2fx/api/v1/pods",
            b"/clusters//d/api/v1/pods",
            b"/clusters/%2e%2e/d/x",
            b"/api/v1/pods",
        )
        assert [200] == await statuses(b"/clusters/d/api/v1/pods")


@over_both_protocols
@on_uvloop
async def test_probes_below_a_prefix_are_not_exempt(tmp_path: Path) -> None:
    """Anybody may ask for the server's own health without a limit, not for another one's."""
    log = AccessLogSettings(path=str(tmp_path / "log"))
    targets = (b"/healthz", b"/clusters/a/healthz", b"/clusters/a/..%2f..%2fhealthz")
    async with running(Setup(request=PREFIXES, access_log=log)) as scene:
        for target in targets:
            arrived, _ = await scene.exchange(get(target))
            assert target == arrived.line.split(b" ")[1]
    lines = await asyncio.to_thread(read, tmp_path / "log")
    assert ["exempt", "global-default", "global-default"] == [
        line["priorityLevel"] for line in lines
    ]
