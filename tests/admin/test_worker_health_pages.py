"""The health pages of several workers, over real Unix sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.worker_answers import Asked, WorkerAdmin
from apfproxy.admin.worker_health_pages import in_charge
from apfproxy.base.health_checks import READYZ
from tests.admin.several_workers import machine

if TYPE_CHECKING:
    from tests.admin.several_workers import Client


async def text_of(client: Client, path: str) -> tuple[int, str]:
    """The status and the text of a page."""
    async with client.get(path) as response:
        return response.status, await response.text()


async def test_all_is_well() -> None:
    """A page without more says ok; each check comes once."""
    async with machine() as (_, client):
        assert await text_of(client, "/readyz") == (200, "ok")
        _, text = await text_of(client, "/readyz?verbose")

    assert text.splitlines() == [
        "[+]ping ok",
        "[+]worker/1 ok",
        "[+]worker/2 ok",
        "[+]upstream ok",
        "[+]shutdown ok",
        "readyz check passed",
    ]


async def test_one_worker_that_fails_is_listed() -> None:
    """The page goes on to be well, since the other one serves."""
    async with machine() as (found, client):
        found.workers[1].health.report("shutdown", "the process is shutting down")
        found.add_silent()
        assert await text_of(client, "/readyz") == (200, "ok")
        _, text = await text_of(client, "/readyz?verbose")

    assert "[-]worker/2 failed: readyz check failed" in text
    assert "[-]worker/2/shutdown failed: the process is shutting down" in text
    assert "[-]worker/3 failed: " in text
    assert "[+]shutdown" not in text


@pytest.mark.parametrize(
    ("exclude", "status"),
    [
        pytest.param("", 500, id="counts"),
        pytest.param("?exclude=shutdown", 200, id="excluded-in-all"),
        pytest.param("?exclude=worker/2/shutdown", 200, id="excluded-in-one"),
        pytest.param("?exclude=worker/2", 200, id="a-worker-excluded"),
        pytest.param("?exclude=other", 500, id="unknown"),
    ],
)
async def test_no_worker_is_well(exclude: str, status: int) -> None:
    """The page fails where no worker is well, unless what fails does not count."""
    async with machine() as (found, client):
        for worker in found.workers:
            worker.health.report("shutdown", "down")
        code, text = await text_of(client, f"/readyz{exclude}")

    assert code == status
    assert ("no matches" in text) == (exclude == "?exclude=other")


async def test_own_checks() -> None:
    """A check of the process itself fails the page, and may be excluded."""
    async with machine() as (found, client):
        found.health.add("workers", pages=(READYZ,), problem="none serves")
        code, text = await text_of(client, "/readyz")
        own, _ = await text_of(client, "/readyz/workers")
        excluded, _ = await text_of(client, "/readyz?exclude=workers")

    assert (code, own, excluded) == (500, 500, 200)
    assert "[-]workers failed: none serves" in text


async def test_one_check() -> None:
    """A check is well where it is in all workers; one worker's is to be had, too."""
    async with machine() as (found, client):
        assert await text_of(client, "/readyz/shutdown") == (200, "ok")
        found.workers[0].health.report("shutdown", "down")
        code, text = await text_of(client, "/readyz/shutdown")
        first, _ = await text_of(client, "/readyz/worker/1/shutdown")
        second, _ = await text_of(client, "/readyz/worker/2/shutdown")
        whole, _ = await text_of(client, "/readyz/worker/1")
        nothing, _ = await text_of(client, "/readyz/nothing")

    assert (code, text) == (200, "worker/1: internal server error: down\n")
    assert (first, second, whole, nothing) == (500, 200, 500, 404)


async def test_page_of_one_worker() -> None:
    """A page, and a check, are to be had of one worker alone."""
    async with machine() as (found, client):
        found.workers[0].health.report("shutdown", "down")
        first, text = await text_of(client, "/readyz?worker=1&exclude=upstream")
        second, _ = await text_of(client, "/readyz?worker=2")
        check, _ = await text_of(client, "/readyz/shutdown?worker=1")
        nobody, _ = await text_of(client, "/readyz?worker=3")

    assert (first, second, check, nobody) == (500, 200, 500, 404)
    assert "[+]upstream excluded: ok" in text
    assert "worker/" not in text


def test_in_charge() -> None:
    """A worker that drains counts only while nobody has its place."""
    old, new = WorkerAdmin(1, "a", "draining", 1), WorkerAdmin(1, "b", "serving", 2)
    last = WorkerAdmin(2, "c", "draining", 3)

    assert in_charge([Asked(old), Asked(new), Asked(last)]) == [Asked(new), Asked(last)]
