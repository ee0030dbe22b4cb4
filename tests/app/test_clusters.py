"""The clusters of a process: made, changed and removed while others serve."""

from __future__ import annotations

import asyncio
import gc
import resource
import weakref
from typing import TYPE_CHECKING

from apfproxy.app import clusters
from apfproxy.app.running import spare_collector
from tests.end_to_end.gateway import Gateway, gateway, get
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import OK, on_uvloop
from tests.end_to_end.slices_api import kubeconfig
from tests.end_to_end.upstream import Arrival, Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

A, B = {"name": "a", "hosts": ["a.test"]}, {"name": "b", "hosts": ["b.test"]}


def silent_api(folder: Path) -> tuple[Upstream, dict[str, object]]:
    """A Kubernetes API that accepts connections and answers nothing, and settings that name it."""
    upstream = Upstream(reads=False)
    upstream.start()
    path = kubeconfig(folder, f"http://127.0.0.1:{upstream.port}")
    kubernetes = {"enabled": True, "kubeconfig": path, "firstSyncTimeout": "30s"}
    return upstream, kubernetes


def arrivals(scene: Gateway, *names: str) -> list[Arrival]:
    found: list[Arrival] = []

    async def hold(arrival: Arrival) -> None:
        found.append(arrival)

    for name in names:
        scene.upstreams[name].answer_with(hold)
    return found


@on_uvloop
async def test_a_cluster_that_cannot_be_used(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    broken = {**B, "authentication": {"tokenFile": str(tokens)}}
    refused = {"name": "c", "hosts": ["c.test"], "upstream": {"urll": "x", "tsl": {}}}
    async with gateway(tmp_path, A, broken, refused) as scene:
        health = scene.process.health
        assert (200, "a / a.test") == await scene.asked("a.test")
        for name in "bc":
            answer = await scene.ask(get(f"{name}.test"))
            assert (503, b"10") == (answer.status, answer.value(b"retry-after"))
            assert str(tmp_path).encode() not in answer.body
        page = health.page("readyz", verbose=True)
        assert page.is_healthy
        assert f"[!]cluster/b: authentication.tokenFile: {tokens}" in page.text
        first, second = (health.problem("cluster/c") or "").split("; did you mean url?; ")
        assert "gateway.yaml" in first
        assert "gateway.yaml" in second
        tokens.write_text("secret,ann,1\n")
        await scene.process.clusters.try_again()

        assert (200, "b / b.test") == await scene.asked("b.test")
        assert None is health.problem("cluster/b")


@on_uvloop
async def test_clusters_come_change_and_leave(tmp_path: Path) -> None:
    async with gateway(tmp_path, A, B) as scene:
        first = scene.member("a").cluster
        held = arrivals(scene, "b")
        client, watcher = await scene.connect(), await scene.connect()
        await client.send(get("b.test", "/slow"))
        await until(lambda: len(held) == 1)
        await watcher.send(get("b.test", "/api/v1/pods?watch=1"))
        await until(lambda: len(held) == 2)
        await held[1].peer.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        left = scene.member("b").cluster
        await watcher.read_until(b"abc\r\n")
        changed = {**A, "flowControl": {"serverConcurrencyLimit": 77}}
        await scene.reload({"name": "c", "hosts": ["c.test"]}, changed)

        assert (404, 200) == ((await scene.asked("b.test"))[0], (await scene.asked("c.test"))[0])
        assert first is scene.member("a").cluster
        assert 77 == first.controller.server_concurrency_limit
        assert ["c", "a"] == [each.name for each in scene.process.clusters]
        # As if the watch were through: an end in order.
        assert b"0\r\n\r\n" == await watcher.read_until(b"0\r\n\r\n")
        assert 1 == left.served.pool.open_count - left.served.pool.idle_count
        await held[0].peer.send(OK)
        assert b"ok" == (await client.read_answer()).body
        await until(lambda: not left.served.pool.open_count)
        assert 404 == (await scene.ask(get("b.test"), client)).status
        assert not [each.name for each in scene.process.health if "/b" in each.name]


@on_uvloop
async def test_a_changed_cluster_keeps_to_the_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    async with gateway(tmp_path, A, B) as scene:
        pool = scene.member("a").cluster.served.pool
        before = pool._settings.max_connections  # noqa: SLF001  nothing else tells
        await scene.reload({**A, "flowControl": {"serverConcurrencyLimit": 77}}, B)

        assert before == pool._settings.max_connections < 500  # noqa: SLF001  as above


@on_uvloop
async def test_nothing_is_left_of_clusters_that_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "LEAST_GONE", 1)
    async with gateway(tmp_path, A, B) as scene:
        client = await scene.connect()
        assert 200 == (await scene.ask(get("b.test"), client)).status
        client.close()
        await until(lambda: not scene.process.server.connection_count)
        left = weakref.ref(scene.member("b").cluster.controller)
        spare_collector()  # as once a process has started
        thresholds = gc.get_threshold()
        gc.set_threshold(0)
        await scene.reload(A)
        await until(lambda: left() is None)
        gc.set_threshold(*thresholds)
    gc.unfreeze()


@on_uvloop
async def test_a_change_that_cannot_be_used(tmp_path: Path) -> None:
    async with gateway(tmp_path, A, B) as scene:
        wrong = {"authentication": {"tokenFile": str(tmp_path / "missing")}}
        await scene.reload({**A, **wrong, "hosts": ["new.test"]}, {**B, "pathPrefix": "/x"})

        assert (200, "a / a.test") == await scene.asked("a.test")
        assert 404 == (await scene.asked("new.test"))[0]
        assert (200, "b /y b.test") == await scene.asked("b.test", "/x/y")
        assert "missing" in (scene.process.health.problem("cluster/a") or "")
        await scene.reload(A, {**B, "pathPrefix": "/x"})
        assert None is scene.process.health.problem("cluster/a")


@on_uvloop
async def test_one_cluster_starts_slowly(tmp_path: Path) -> None:
    upstream, kubernetes = silent_api(tmp_path)
    async with gateway(tmp_path, A, {**B, "flowControl": {"kubernetes": kubernetes}}) as scene:
        assert (200, "a / a.test") == await scene.asked("a.test")
        answer = await scene.ask(get("b.test"))
        assert (503, "it is starting") == (answer.status, scene.process.health.problem("cluster/b"))
        assert b"is starting" in answer.body
        scene.process.hurry(lambda: None)
        await until(lambda: scene.member("b").cluster)
        assert (200, "b / b.test") == await scene.asked("b.test")
        await upstream.stop()


@on_uvloop
async def test_hosts_that_go_to_another_cluster(tmp_path: Path) -> None:
    async with gateway(tmp_path, A, B) as scene:
        upstream = {"upstream": {"url": scene.url_of("a")}}
        is_over = False

        async def ask() -> int:
            count, client = 0, await scene.connect()
            while not is_over:
                assert 200 == (await scene.ask(get("a.test"), client)).status
                count += 1
            return count

        asking = begin(ask())
        for name in "cd":
            await scene.reload({**A, "name": name, **upstream}, B)
        without = {"name": "d", "hosts": ["x.test"], **upstream}
        for _ in range(2):
            await scene.reload(without, {**B, "hosts": ["b.test", "a.test"]})
            await scene.reload({**without, "hosts": ["a.test"]}, B)
        is_over = True

        assert await asking


@on_uvloop
async def test_connections_of_a_cluster_are_bounded(tmp_path: Path) -> None:
    async with gateway(tmp_path, {**A, "maxConnections": 1}, B) as scene:
        first = await scene.connect()
        assert 200 == (await scene.ask(get("a.test"), first)).status
        assert (503, 200) == ((await scene.asked("a.test"))[0], (await scene.asked("b.test"))[0])
        assert 200 == (await scene.ask(get("a.test"), first)).status
        assert 200 == (await scene.ask(get("b.test"), first)).status

        assert 200 == (await scene.asked("a.test"))[0]


@on_uvloop
async def test_drain_ends_all_clusters(tmp_path: Path) -> None:
    async with gateway(tmp_path, A, B) as scene:
        arrived = arrivals(scene, *"ab")
        clients = []
        for name in "ab":
            clients.append(await scene.connect())
            await clients[-1].send(get(f"{name}.test"))
        await until(lambda: len(arrived) == 2)
        draining = begin(scene.process.drain())
        await asyncio.sleep(0)
        for arrival in arrived:
            await arrival.peer.send(OK)

        assert [b"ok"] * 2 == [(await client.read_answer()).body for client in clients]
        await draining


@on_uvloop
async def test_settings_change_while_others_are_put_in_force(tmp_path: Path) -> None:
    upstream, kubernetes = silent_api(tmp_path)
    async with gateway(tmp_path, A) as scene:
        first = scene.member("a").cluster
        await scene.reload({**A, "flowControl": {"kubernetes": kubernetes}})
        assert first is scene.member("a").cluster
        await scene.reload(A)
        scene.process.hurry(lambda: None)

        def is_last() -> bool:
            cluster = scene.member("a").cluster
            is_of_files = not cluster.settings.flow_control.kubernetes.is_enabled
            return cluster is not first and is_of_files

        await until(is_last)
        assert (200, "a / a.test") == await scene.asked("a.test")
        await upstream.stop()
