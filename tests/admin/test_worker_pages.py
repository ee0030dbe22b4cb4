"""The pages of several workers as those of one proxy, over real Unix sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.worker_responses import MISSING
from tests.admin.several_workers import SEATS, WIDE, json_of, machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.admin.several_workers import Client, Machine

    Both = tuple[Machine, Client]

DUMPS = "/debug/api_priority_and_fairness"
BROWSER = {"Accept": "text/html"}


@pytest.fixture
async def both() -> AsyncIterator[Both]:
    """Two workers: one with 3 requests that execute and one that waits, the other with 1."""
    async with machine() as (found, client):
        for _ in range(WIDE + 1):
            found.workers[0].scene.ticket("ann")
        found.workers[1].scene.ticket("ann")
        yield found, client


async def test_limits(both: Both) -> None:
    """The seats of a level are those of all workers."""
    page = await json_of(both[1], "/debug/limits")
    wide = next(each for each in page["levels"] if each["name"] == "wide")

    assert page["serverConcurrencyLimit"] == 2 * SEATS
    assert wide["seatsInUse"] == page["sums"]["seatsInUse"] == WIDE + 1


async def test_dump_of_priority_levels(both: Both) -> None:
    """A level is one row, with sums."""
    rows = await json_of(both[1], f"{DUMPS}/dump_priority_levels")
    wide = next(each for each in rows if each["PriorityLevelName"] == "wide")

    assert (wide["ExecutingRequests"], wide["WaitingRequests"]) == (WIDE + 1, 1)
    assert not wide["IsIdle"]


async def test_dump_of_queues(both: Both) -> None:
    """Queues are those of both, one after the other."""
    rows = await json_of(both[1], f"{DUMPS}/dump_queues")

    assert [row["Index"] for row in rows] == [*range(8), *range(8)]


async def test_dump_of_requests(both: Both) -> None:
    """Requests are those of both; details come if they are asked for."""
    found, client = both
    async with client.get(f"{DUMPS}/dump_requests?includeRequestDetails=1") as response:
        lines = (await response.text()).splitlines()

    assert len(lines) == 1 + WIDE + 2
    assert "UserName" in lines[0]
    found.add_silent()
    async with client.get(f"{DUMPS}/dump_requests") as response:
        assert response.headers[MISSING] == "3"


async def test_live(both: Both) -> None:
    """The state is one, with what each worker has."""
    found, client = both
    found.add_silent()
    found.workers[1].health.report("upstream", "down")
    found.health.add("workers", problem="few", is_blocking=False)
    state = await json_of(client, "/debug/live")
    wide = next(each for each in state["levels"] if each["name"] == "wide")

    assert (wide["executing"], wide["waiting"]) == (WIDE + 1, 1)
    assert [each["name"] for each in state["workers"]] == ["1", "2", "3"]
    assert {each["problem"].split(":")[0] for each in state["problems"]} == {
        "few",
        "worker 2",
        "worker 3 does not answer",
    }
    assert any("worker 3 does not answer" in each["text"] for each in state["verdict"])


async def test_requests(both: Both) -> None:
    """What executes says in which worker."""
    page = await json_of(both[1], "/debug/live/requests?priorityLevel=wide")

    assert (page["executingCount"], page["waitingCount"]) == (WIDE + 1, 1)
    assert {each["worker"] for each in page["executing"]} == {"1", "2"}


async def test_top_flows(both: Both) -> None:
    """A flow has the sum of what it used in all."""
    found, client = both
    for worker in found.workers:
        worker.flows.on_no_seats(worker.scene.ticket("ann").flow, 0, is_rejected=True)
    page = await json_of(client, "/debug/top_flows?by=rejected")
    async with client.get("/debug/top_flows") as response:
        text = await response.text()

    assert [(each["flow"], round(each["rejected"])) for each in page["flows"]] == [("ann", 2)]
    assert "ann" in text


@pytest.mark.parametrize("query", ["limit=x", "limit=0", "by=what"])
async def test_top_flows_that_make_no_sense(both: Both, query: str) -> None:
    """A worker says what is wrong with a question."""
    async with both[1].get(f"/debug/top_flows?{query}") as response:
        assert response.status == 400
        assert "must be" in await response.text()


async def test_explain(both: Both) -> None:
    """What is in the level is summed, and it is said that workers differ."""
    client = both[1]
    target = "/debug/explain?target=/api/v1/pods&user=ann&group=everyone"
    page = await json_of(client, target)
    async with client.get("/debug/explain") as response:
        usage = await response.text()

    assert page["priorityLevel"]["requestsExecuting"] == WIDE + 1
    assert "worker 2 would execute it" in page["notes"]
    assert "target=" in usage


async def test_endpoints(both: Both) -> None:
    """Servers behind come once each; here there are none."""
    assert await json_of(both[1], "/debug/endpoints") == []


async def test_what_workers_have_alike(both: Both) -> None:
    """Other pages are those of the first worker that answers."""
    page = await json_of(both[1], "/debug/objects")
    hand = await json_of(both[1], "/debug/live/hand?priorityLevel=wide&flowSchema=all&flow=ann")

    assert "wide" in {each["name"] for each in page}
    assert len(hand["hand"]) == 2


async def test_one_worker(both: Both) -> None:
    """Each page is to be had of one worker alone, as text or as JSON."""
    client = both[1]
    page = await json_of(client, f"{DUMPS}/dump_requests?worker=2")
    limits = await json_of(client, "/debug/limits?worker=1")
    live = await json_of(client, "/debug/live/requests?priorityLevel=wide&worker=1")

    assert len(page) == 1
    assert limits["serverConcurrencyLimit"] == SEATS
    assert live["executingCount"] == WIDE
    for path in ("/debug/limits", "/debug/objects"):
        async with client.get(f"{path}?worker=7") as response:
            assert response.status == 404
            assert await response.text() == "worker: there is none named '7'; there are 1, 2\n"


async def test_nobody_answers(both: Both) -> None:
    """Without any worker it is said why."""
    found, client = both
    found.admins.clear()
    found.add_silent()
    for path in ("/debug/limits", "/debug/objects", "/", "/debug/live?worker=3"):
        async with client.get(path) as response:
            assert response.status == 503
            assert (await response.text()).startswith("no worker answers\nworker 3: ")


async def test_index(both: Both) -> None:
    """The list has the worker's pages, and those of this process; a browser gets the live page."""
    found, client = both
    async with client.get("/") as response:
        text = await response.text()
    paths = await json_of(client, "/")
    async with client.get("/", headers=BROWSER) as response:
        page = await response.text()
    async with client.get("/page/main.js") as response:
        script = response.content_type
    found.has_several = True
    async with client.get("/", headers=BROWSER) as response:
        overview = await response.text()

    assert "/debug/limits" in text
    assert text.splitlines()[-1].split() == ["/apis", "the", "objects"]
    assert "/apis" in paths["paths"]
    assert "main.js" in page
    assert script == "text/javascript"
    assert "clusters.js" in overview


async def test_unknown_path(both: Both) -> None:
    """What no worker has is not there."""
    async with both[1].get("/nothing") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("path", "location"),
    [
        pytest.param("/?cluster=a/b", "clusters/a%2Fb/", id="by-query"),
        pytest.param("/clusters/shop", "/clusters/shop/", id="without-its-slash"),
        pytest.param("/clusters/shop/metrics", "/metrics", id="of-all"),
    ],
)
async def test_ways_to_a_cluster(both: Both, path: str, location: str) -> None:
    """The pages of a cluster begin where those of one process do."""
    async with both[1].get(path, allow_redirects=False) as response:
        assert response.status == 302
        assert response.headers["Location"] == location


async def test_pages_of_a_cluster(both: Both) -> None:
    """A browser gets the page of a cluster; others get what the workers say."""
    client = both[1]
    async with client.get("/clusters/shop/", headers=BROWSER) as response:
        assert "main.js" in await response.text()
    async with client.get("/clusters/shop/page/base.css") as response:
        assert response.content_type == "text/css"
    for path in ("/clusters/shop/", "/clusters/shop/debug/limits"):
        async with client.get(path) as response:
            assert response.status == 404  # these workers have one cluster
