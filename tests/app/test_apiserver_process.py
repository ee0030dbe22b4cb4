"""A whole API server in one event loop."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING

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
    from pathlib import Path

NAMESPACES = "/api/v1/namespaces"


def namespace(name: str) -> dict[str, object]:
    """A namespace."""
    return {"metadata": {"name": name}}


async def test_serves_and_shows_itself() -> None:
    """A started process serves the API, its health and its metrics, and says where they are."""
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    async with aiohttp.ClientSession() as session:
        _, found = await page(session, process.port, "/api/v1/namespaces/default")
        ready = await page(session, process.port, "/readyz?verbose")
        _, metrics = await page(session, process.port, "/metrics")
        _, index = await page(session, process.port, "/")
        nowhere = await page(session, process.port, "/nowhere")
    await process.stop()

    assert "default" == json.loads(found)["metadata"]["name"]
    assert (200, "[+]ping ok\n[+]start ok\n[+]shutdown ok\nreadyz check passed\n") == ready
    assert 'apiserver_resource_objects{group="",resource="namespaces"} 4.0' in metrics
    assert {"/apis/policy/v1", "/metrics", "/readyz"} < set(json.loads(index)["paths"])
    assert (404, "404 page not found\n") == nowhere
    assert process.health.problem("shutdown") == "the process is shutting down"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/healthz", (200, "no-cache, private", "nosniff")),
        ("/readyz?verbose", (200, "no-cache, private", "nosniff")),
        ("/livez/ping", (200, "no-cache, private", "nosniff")),
        ("/livez/bogus", (404, "no-cache, private", "nosniff")),
        ("/nowhere", (404, "no-cache, private", "nosniff")),
        ("/apis/nowhere", (404, "no-cache, private", "nosniff")),
        ("/openapi", (404, "no-cache, private", "nosniff")),
        ("/openapi/v2", (200, "no-cache, private", None)),
        ("/openapi/v3/bogus", (404, "no-cache, private", None)),
        ("/", (200, "no-cache, private", None)),
    ],
)
async def test_headers(path: str, expected: tuple[int, str, str | None]) -> None:
    """Nothing is to be cached, and plain text not guessed at, where Kubernetes says so."""
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    url = f"http://127.0.0.1:{process.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        found = response.headers
    await process.stop()

    assert expected == (
        response.status,
        found["Cache-Control"],
        found.get("X-Content-Type-Options"),
    )


@pytest.mark.parametrize("path", ["/livez", "/readyz/ping", "/"])
async def test_pages_for_any_method(path: str) -> None:
    """Pages beside the API are answered whatever is asked, as Kubernetes does it."""
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    url = f"http://127.0.0.1:{process.port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        status = response.status
    await process.stop()

    assert 200 == status


async def test_restart(tmp_path: Path) -> None:
    """What was written before is there after a restart, and what is seeded is not made again."""
    settings = ApiServerSettings(
        listen=ANY_PORT, store=str(tmp_path / "objects.db"), seeds=SeedCounts(slices=3)
    )
    seeded = []
    for step in range(2):
        process = ApiServerProcess(settings)
        await process.start()
        seeded.append(process.seeded)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
            if step == 0:
                async with session.post(NAMESPACES, json=namespace("kept")) as response:
                    assert 201 == response.status
            else:
                async with session.get(f"{NAMESPACES}/kept") as response:
                    assert 200 == response.status
                    ready = await page(session, process.port, "/readyz/store")
        await process.stop()

    assert [3, 0] == seeded
    assert (200, "ok") == ready


async def test_watches_end(tmp_path: Path) -> None:
    """A stop ends watches after the events of all writes, and at once."""
    settings = ApiServerSettings(listen=ANY_PORT, store=str(tmp_path / "objects.db"))
    process = ApiServerProcess(settings)
    await process.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
        query = "?watch=1&resourceVersion=1"
        async with session.get(NAMESPACES + query) as watch:
            async with session.post(NAMESPACES, json=namespace("last")) as response:
                assert 201 == response.status
            stopping = asyncio.gather(process.stop())
            lines = [json.loads(line) async for line in watch.content]
            await stopping

    assert "last" == lines[-1]["object"]["metadata"]["name"]


async def test_same_seed_same_answers() -> None:
    """With the same seed the same requests get the same answers, faults and uids included."""
    runs = []
    for _ in range(2):
        settings = ApiServerSettings(
            listen=ANY_PORT,
            load=LoadSettings(
                latency={EVERY_VERB: Latency(Shape.EXPONENTIAL, 0.0001)},
                faults={Fault.ERROR: 0.3},
            ),
            random_seed=5,
        )
        process = ApiServerProcess(settings)
        await process.start()
        answers = []
        async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
            for number in range(30):
                async with session.post(NAMESPACES, json=namespace(f"n{number}")) as response:
                    body = await response.json()
                answers.append((response.status, body.get("metadata", {}).get("uid")))
        await process.stop()
        runs.append(answers)

    assert runs[0] == runs[1]
    assert {201, 500} == {status for status, _ in runs[0]}


async def test_web_pages_do_not_write() -> None:
    """A page in a browser on this machine cannot write."""
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
        headers = {"Origin": "http://evil.example"}
        async with session.post(NAMESPACES, json=namespace("x"), headers=headers) as response:
            pass
    await process.stop()

    assert 403 == response.status


async def test_port_in_use() -> None:
    """A port in use is named, and nothing goes on running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        process = ApiServerProcess(ApiServerSettings(listen=address))
        with pytest.raises(ListenError, match="address already in use"):
            await process.start()


async def test_store_in_use(tmp_path: Path) -> None:
    """Two servers do not share a store."""
    settings = ApiServerSettings(listen=ANY_PORT, store=str(tmp_path / "objects.db"))
    first, second = ApiServerProcess(settings), ApiServerProcess(settings)
    await first.start()
    with pytest.raises(OperatorError, match="another process uses it"):
        await second.start()
    await first.stop()


async def test_disk_failures_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot write shows on the page of readiness, which reads do not wait for."""
    settings = ApiServerSettings(listen=ANY_PORT, store=str(tmp_path / "objects.db"))
    process = ApiServerProcess(settings)
    await process.start()

    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    async with aiohttp.ClientSession(f"http://127.0.0.1:{process.port}") as session:
        with monkeypatch.context() as patch:
            patch.setattr("apfproxy.apiserver.store.sqlite.SqliteBackend.write", refuse)
            async with session.post(NAMESPACES, json=namespace("x")) as response:
                failed = response.status
        status, text = await page(session, process.port, "/readyz?verbose")
        async with session.post(NAMESPACES, json=namespace("x")) as response:
            again = response.status
        healed = await page(session, process.port, "/readyz/store")
    await process.stop()

    assert (500, 201) == (failed, again)
    assert 200 == status
    assert "[-]store failed: the disk is full\n" in text
    assert (200, "ok") == healed
