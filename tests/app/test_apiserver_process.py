"""A whole API server in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from apfproxy.apiserver.load import EVERY_VERB, Fault, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.base.errors import ListenError, OperatorError
from apfproxy.settings import Address
from tests.app.test_process import ANY_PORT, page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAMESPACES = "/api/v1/namespaces"


@contextlib.asynccontextmanager
async def serving(
    folder: Path | None = None,
    **settings: Any,  # noqa: ANN401 - any field
) -> AsyncIterator[tuple[ApiServerProcess, aiohttp.ClientSession]]:
    """A process, which keeps its objects in a folder, and a client of it."""
    store = None if folder is None else str(folder / "objects.db")
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT, store=store, **settings))
    await process.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
            yield process, session
    finally:
        await process.stop()


async def created(session: aiohttp.ClientSession, name: str) -> tuple[int, Any]:
    async with session.post(NAMESPACES, json={"metadata": {"name": name}}) as response:
        return response.status, await response.json(content_type=None)


async def test_serves_and_shows_itself() -> None:
    """A started process serves the API, its health and its metrics, and says where they are."""
    async with serving() as (process, session):
        _, found = await page(session, process.port, "/api/v1/namespaces/default")
        ready = await page(session, process.port, "/readyz?verbose")
        _, metrics = await page(session, process.port, "/metrics")
        _, index = await page(session, process.port, "/")
        nowhere = await page(session, process.port, "/nowhere")

    assert "default" == json.loads(found)["metadata"]["name"]
    assert (200, "[+]ping ok\n[+]start ok\n[+]shutdown ok\nreadyz check passed\n") == ready
    assert 'apiserver_resource_objects{group="",resource="namespaces"} 4.0' in metrics
    assert {"/apis/policy/v1", "/metrics", "/readyz"} < set(json.loads(index)["paths"])
    assert (404, "404 page not found\n") == nowhere
    assert process.health.problem("shutdown") == "the process is shutting down"


async def test_headers() -> None:
    """Nothing is to be cached, and plain text not guessed at, where Kubernetes says so."""
    expected = {
        "/healthz": (200, "nosniff"),
        "/readyz?verbose": (200, "nosniff"),
        "/livez/ping": (200, "nosniff"),
        "/livez/bogus": (404, "nosniff"),
        "/nowhere": (404, "nosniff"),
        "/apis/nowhere": (404, "nosniff"),
        "/openapi": (404, "nosniff"),
        "/openapi/v2": (200, None),
        "/openapi/v3/bogus": (404, None),
        "/": (200, None),
    }
    found = {}
    async with serving() as (_, session):
        for path in expected:
            async with session.get(path) as response:
                found[path] = response.status, response.headers.get("X-Content-Type-Options")
                assert "no-cache, private" == response.headers["Cache-Control"]

    assert expected == found


@pytest.mark.parametrize(("groups", "status"), [(200, 200), (600, 400)])
async def test_many_fields(groups: int, status: int) -> None:
    """A user may be in hundreds of groups, but a head has an end."""
    fields = [("Impersonate-User", "ann"), *(("Impersonate-Group", f"g{n}") for n in range(groups))]
    async with serving() as (_, session), session.get("/version", headers=fields) as response:
        assert status == response.status


async def test_restart(tmp_path: Path) -> None:
    """What was written before is there after a restart, and what is seeded is not made again."""
    async with serving(tmp_path, seeds=SeedCounts(slices=3)) as (process, session):
        assert (3, 201) == (process.seeded, (await created(session, "kept"))[0])
    async with serving(tmp_path, seeds=SeedCounts(slices=3)) as (process, session):
        assert 0 == process.seeded
        assert 200 == (await page(session, process.port, f"{NAMESPACES}/kept"))[0]
        assert (200, "ok") == await page(session, process.port, "/readyz/store")


async def test_watches_end(tmp_path: Path) -> None:
    """A stop ends watches after the events of all writes, and at once."""
    async with (
        serving(tmp_path) as (process, session),
        session.get(f"{NAMESPACES}?watch=1&resourceVersion=1") as watch,
    ):
        assert 201 == (await created(session, "last"))[0]
        stopping = asyncio.gather(process.stop())
        lines = [json.loads(line) async for line in watch.content]
        await stopping

    assert "last" == lines[-1]["object"]["metadata"]["name"]


async def test_same_seed_same_answers() -> None:
    """With the same seed the same requests get the same answers, faults and uids included."""
    latency = {EVERY_VERB: Latency(Shape.EXPONENTIAL, 0.0001)}
    load = LoadSettings(latency=latency, faults={Fault.ERROR: 0.3})
    runs = []
    for _ in range(2):
        async with serving(load=load, random_seed=5) as (_, session):
            answers = [await created(session, f"n{number}") for number in range(30)]
        runs.append([(status, each.get("metadata", {}).get("uid")) for status, each in answers])

    assert runs[0] == runs[1]
    assert {201, 500} == {status for status, _ in runs[0]}


async def test_web_pages_do_not_write() -> None:
    async with (
        serving() as (_, session),
        session.post(NAMESPACES, headers={"Origin": "http://evil.example"}) as response,
    ):
        assert 403 == response.status


async def test_port_in_use() -> None:
    """A port in use is named, and nothing goes on running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        process = ApiServerProcess(ApiServerSettings(listen=address))
        with pytest.raises(ListenError, match="address already in use"):
            await process.start()


async def test_store_in_use(tmp_path: Path) -> None:
    async with serving(tmp_path):
        with pytest.raises(OperatorError, match="another process uses it"):
            async with serving(tmp_path):
                pass


async def test_disk_failures_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot write shows on the page of readiness, which reads do not wait for."""

    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    async with serving(tmp_path) as (process, session):
        with monkeypatch.context() as patch:
            patch.setattr("apfproxy.apiserver.store.sqlite.SqliteBackend.write", refuse)
            failed, _ = await created(session, "x")
        status, text = await page(session, process.port, "/readyz?verbose")
        again, _ = await created(session, "x")
        healed = await page(session, process.port, "/readyz/store")

    assert (500, 201) == (failed, again)
    assert 200 == status
    assert "[-]store failed: the disk is full\n" in text
    assert (200, "ok") == healed
