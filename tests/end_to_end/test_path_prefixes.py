"""APIs below prefixes that the server itself owns, on the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import aiohttp
import pytest

from apfproxy.settings import (
    HTTP_API,
    KUBERNETES_API,
    AccessLogSettings,
    Address,
    RequestSettings,
)
from tests.end_to_end.scene import NARROW, OK, Setup, on_uvloop, over_both_protocols, running
from tests.end_to_end.test_access_log import read

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.end_to_end.upstream import Arrival

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
    """A request."""
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n"


async def say_ok(arrival: Arrival) -> None:
    """Answer."""
    await arrival.peer.send(OK)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(
            b"/k8s/clusters/c-m-1/api/v1/namespaces/n/pods/p/log?follow=true",
            ("get", "pods", "log", "n", True, "/k8s/clusters/c-m-1"),
            id="long-running",
        ),
        pytest.param(
            b"/clusters/root:a/apis/apps/v1/deployments?watch=1",
            ("watch", "deployments", "", "", True, "/clusters/root:a"),
            id="watch",
        ),
        pytest.param(
            b"/clusters/%72oot/api/v1/secrets",
            ("list", "secrets", "", "", False, "/clusters/root"),
            id="escaped",
        ),
        pytest.param(b"/clusters/a/healthz", ("get", "", "", "", False, "/clusters/a"), id="url"),
        pytest.param(b"/api/v1/pods", ("list", "pods", "", "", False, ""), id="elsewhere"),
        pytest.param(b"/clusters/a%2fb/api/v1/pods", ("get", "", "", "", False, ""), id="slash"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_what_is_asked(target: bytes, expected: tuple[Any, ...], tmp_path: Path) -> None:
    """The path goes on and is logged as it came; what follows the prefix says what is asked."""
    setup = Setup(
        objects=NARROW,
        request=PREFIXES,
        access_log=AccessLogSettings(path=str(tmp_path / "log")),
        admin=Address(host="127.0.0.1", port=0),
    )
    async with running(setup) as scene:
        hold = await scene.take_seat(get(target))
        assert target == hold.arrival.request.line.split(b" ")[1]
        assert 200 == (await hold.end()).status
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{scene.process.admin_port}") as session,
            session.get(f"/debug/explain?method=GET&target={quote(target, safe='')}") as explained,
        ):
            found = (await explained.json())["request"]
    names = ("verb", "resource", "subresource", "namespace", "isLongRunning", "pathPrefix")
    assert expected == tuple(found[name] for name in names)
    [line] = await asyncio.to_thread(read, tmp_path / "log")
    path = unquote(target.partition(b"?")[0].decode())
    assert (expected[0], path) == (line["verb"], line["path"])


@pytest.mark.parametrize("preset", [KUBERNETES_API, HTTP_API])
@over_both_protocols
@on_uvloop
async def test_flows_of_clusters(preset: str) -> None:
    """Each cluster has its own rate, whatever is asked of it; nobody can spend another's."""
    async with running(Setup(objects=BY_CLUSTER, request=PREFIXES, preset=preset)) as scene:

        async def statuses(*targets: bytes) -> list[int]:
            found = []
            for target in targets:
                client = await scene.ask(get(target))
                found.append((await client.read_answer()).status)
            return found

        scene.upstream.answer_with(say_ok)
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
    async with running(Setup(request=PREFIXES, access_log=log)) as scene:
        for target in (b"/healthz", b"/clusters/a/healthz", b"/clusters/a/..%2f..%2fhealthz"):
            await scene.exchange(get(target))
    lines = await asyncio.to_thread(read, tmp_path / "log")
    assert ["exempt", "global-default", "global-default"] == [
        line["priorityLevel"] for line in lines
    ]
