"""A whole API server in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yarl
from prometheus_client.parser import text_string_to_metric_families

from apfproxy.apiserver.gate import EVERY_VERB, Fault, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.base.signals import Signals
from apfproxy.settings import Address
from tests.end_to_end.programs import installed
from tests.support.clocks import until
from tests.support.processes import ANY_PORT, page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAMESPACES = "/api/v1/namespaces"
BOUNDS = {
    "request_sli_duration_seconds": "0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45"
    " 60 +Inf",
    "response_sizes": "1000 10000 100000 1e+06 1e+07 1e+08 1e+09 +Inf",
}


@contextlib.asynccontextmanager
async def serving(
    folder: Path | None = None,
    **settings: Any,  # noqa: ANN401 - any field
) -> AsyncIterator[tuple[ApiServerProcess, aiohttp.ClientSession]]:
    """A process, which keeps its objects in a folder, and a client of it."""
    store = None if folder is None else str(folder / "objects.db")
    settings = {"listen": ANY_PORT, "store": store, **settings}
    process = ApiServerProcess(ApiServerSettings(**settings))
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
    async with serving() as (process, session):
        _, found = await page(session, process.port, "/api/v1/namespaces/default")
        ready = await page(session, process.port, "/readyz?verbose")
        _, metrics = await page(session, process.port, "/metrics")
        _, index = await page(session, process.port, "/")
        nowhere = await page(session, process.port, "/nowhere")

    assert "default" == json.loads(found)["metadata"]["name"]
    checks = ("ping", "start", "shutdown", "controllers")
    passed = "".join(f"[+]{name} ok\n" for name in checks)
    assert (200, f"{passed}readyz check passed\n") == ready
    assert 'apiserver_resource_objects{group="",resource="namespaces"} 4.0' in metrics
    assert {"/apis/policy/v1", "/metrics", "/readyz"} < set(json.loads(index)["paths"])
    assert (404, "404 page not found\n") == nowhere
    assert process.health.problem("shutdown") == "the process is shutting down"


@pytest.mark.parametrize(
    ("host", "external", "shown", "told", "is_open"),
    [
        ("127.0.0.1", None, "http://127.0.0.1", "127.0.0.1", False),
        ("", None, "http://*", "127.0.0.1", True),
        ("0.0.0.0", "api.example:1", "http://0.0.0.0", "api.example:1", True),  # noqa: S104
    ],
)
async def test_addresses(
    host: str,
    external: str | None,
    shown: str,
    told: str,
    is_open: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log shows where it listens, and warns if others can reach it; `/api` says where it is."""
    caplog.set_level("INFO")
    listen = Address(host=host, port=0)
    async with serving(listen=listen, external_address=external) as (process, session):
        port = process.port
        with Signals() as signals:
            process.attend(signals)
        _, versions = await page(session, process.port, "/api")

    server = json.loads(versions)["serverAddressByClientCIDRs"][0]["serverAddress"]
    assert (told if external else f"{told}:{port}") == server
    assert f" serves the API on {shown}:{port};" in caplog.text
    assert is_open == ("there is no authentication" in caplog.text)


def series(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The numbers of a page by name and values of labels, in the order of the labels' names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sorted(each for each in sample.labels.items() if each[0] != "component")
            name = sample.name.removeprefix("apiserver_")
            found.setdefault(name, {})[tuple(value for _, value in labels)] = sample.value
    return found


async def test_metrics_of_requests() -> None:
    """The page has what Kubernetes' own has, counted where Kubernetes counts it."""
    promtool = installed("promtool")
    maps = f"{NAMESPACES}/default/configmaps"
    async with serving() as (process, session):
        for name, query in (("a", ""), ("b", ""), ("c", "?dryRun=All")):
            body = {"metadata": {"name": name}}
            assert 201 == (await session.post(f"{maps}{query}", json=body)).status
        for path in ("", "/a", "/none", "?dryRun=All"):
            await page(session, process.port, f"{maps}{path}")
        await page(session, process.port, "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas")
        watched = yarl.URL(f"{maps}?watch=1&fieldSelector=metadata.name%3Da", encoded=True)
        async with session.get(watched) as watch:
            await watch.content.readline()
            _, during = await page(session, process.port, "/metrics")
        await until(lambda: not process.counters.long_running.total())
        _, after = await page(session, process.port, "/metrics")
    checked = subprocess.run(  # noqa: S603, ASYNC221 - a program that we name
        [promtool, "check", "metrics"], input=after, capture_output=True, text=True, check=False
    )
    found = series(after)

    assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)
    beta = ("flowcontrol.apiserver.k8s.io", "1.32", "flowschemas", "", "v1beta3")
    assert {beta: 1} == found["requested_deprecated_apis"]
    assert {("mutating",), ("readOnly",)} == set(found["current_inflight_requests"])
    one_map = ("", "configmaps", "resource", "", "WATCH", "v1")
    assert {one_map: 1} == series(during)["longrunning_requests"]
    assert {("", "configmaps", "v1"): 1} == found["watch_events_total"]
    dry = ("201", "All", "", "configmaps", "resource", "", "POST", "v1")
    assert 1 == found["request_total"][dry]
    read, listed, watching, written = (
        ("", "configmaps", scope, "", verb, "v1")
        for scope, verb in zip(
            ("resource", "namespace", "namespace", "resource"),
            ("GET", "LIST", "WATCH", "POST"),
            strict=True,
        )
    )
    for name, expected in {
        "request_sli_duration_seconds": {read: 2, listed: 1, watching: 1, written: 2},
        "response_sizes": {read: 2, listed: 2, watching: 1},
    }.items():
        counts = found[f"{name}_count"].items()
        assert expected == {labels: count for labels, count in counts if "configmaps" in labels}
        bounds = [labels[1] for labels in found[f"{name}_bucket"] if labels[2:] == listed[1:]]
        assert BOUNDS[name].split() == bounds


async def test_headers() -> None:
    """Nothing is to be cached, and plain text not guessed at, where Kubernetes says so."""
    plain = "/healthz /readyz?verbose /livez/ping"
    expected: dict[str, tuple[int, str | None]] = dict.fromkeys(plain.split(), (200, "nosniff"))
    missing = "/livez/bogus /nowhere /apis/nowhere /openapi"
    expected |= dict.fromkeys(missing.split(), (404, "nosniff"))
    expected |= {"/openapi/v2": (200, None), "/openapi/v3/bogus": (404, None), "/": (200, None)}
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
    latency = {EVERY_VERB: Latency(Shape.EXPONENTIAL, 0.0001)}
    load = LoadSettings(latency=latency, faults={Fault.ERROR: 0.3})
    runs = []
    for _ in range(2):
        async with serving(load=load, random_seed=5) as (_, session):
            answers = [await created(session, f"n{number}") for number in range(30)]
        runs.append([(status, each.get("metadata", {}).get("uid")) for status, each in answers])

    assert runs[0] == runs[1]
    assert {201, 500} == {status for status, _ in runs[0]}


async def test_same_seed_other_uids_after_a_restart(tmp_path: Path) -> None:
    """Objects that are stored were given the first uids of the seed."""
    uids = set()
    for run in range(2):
        async with serving(tmp_path, random_seed=5) as (process, session):
            for number in range(30):
                await created(session, f"n{run}-{number}")
            found = json.loads((await page(session, process.port, NAMESPACES))[1])["items"]
            uids = {each["metadata"]["uid"] for each in found}
    assert len(found) == len(uids) > 60


async def test_disk_failures_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "[!]store: the disk is full\n" in text
    assert (200, "ok") == healed
