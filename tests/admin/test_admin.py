"""The admin listener's pages over HTTP: of one process, of several clusters, and of workers."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from apfproxy.admin.admin import DUMPS, MAX_DUMPS, MISSING, OF_A_CLUSTER, OF_ALL, AdminPages
from apfproxy.admin.explain_page import USAGE, explained
from apfproxy.admin.gathering import gathered
from apfproxy.admin.questions import Asked, OwnStates
from apfproxy.admin.state import ClusterState
from apfproxy.admin.top_flows import TopFlows
from apfproxy.app.parent_admin import WorkersStates
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.settings import Settings
from apfproxy.workers.process import WorkerState
from tests.admin.scene import WALL_OFFSET_NS, Scene
from tests.support.builders import flow_schema, group_subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from aiohttp.web import Application, Request

    from apfproxy.admin.questions import States
    from apfproxy.admin.state import ProcessState

    Client = TestClient[Request, Application]

JSON = {"Accept": "application/json"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
def scene() -> Scene:
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.ticket("ann\n\udcff")
    return scene


@pytest.fixture
def health() -> HealthRegistry:
    health = HealthRegistry()
    health.add("shutdown", pages=(READYZ,))
    return health


class Process:
    def __init__(
        self, scenes: Mapping[str, Scene | None], health: HealthRegistry | None = None
    ) -> None:
        self.health = health or HealthRegistry()
        self.scenes = scenes
        self.states = OwnStates(self.gathered, self.health, self.asked)

    def gathered(self) -> Iterator[ProcessState]:
        return gathered(
            started_s=1.0,
            health=self.health,
            clusters=[
                ClusterState(name=name, problem="s.yaml:3: odd")
                if scene is None
                else scene.cluster(name)
                for name, scene in self.scenes.items()
            ],
            has_several="" not in self.scenes,
        )

    def asked(self, name: str) -> Asked | None:
        scene = self.scenes[name]
        assert scene is not None
        return Asked(
            controller=scene.controller,
            wall_offset_ns=WALL_OFFSET_NS,
            top_flows=scene.top_flows,
            explain=lambda query: explained(
                query, scene.controller, LearnedCosts(lambda: 0), Settings()
            ),
        )

    def encoded(self) -> bytes:
        *_, state = self.gathered()
        return msgspec.msgpack.encode(state)

    def told(self, index: int, *, is_silent: bool = False, ask: Any = None) -> Any:  # noqa: ANN401

        async def reply(_question: str, arguments: bytes, _within_s: float) -> bytes:
            return await self.states.reply(arguments)

        process = worker_process(
            shows_life=not is_silent, last=self.encoded(), ask=ask or reply, pid=index
        )
        return SimpleNamespace(index=index, problem="", processes=[process])


def worker_process(state: WorkerState = WorkerState.SERVING, **changes: Any) -> Any:  # noqa: ANN401
    made = {"state": state, "shown_state": state, "shows_life": True, "last": None, "pid": 7}
    return SimpleNamespace(**{**made, **changes})


def talking_to(states: States) -> Client:
    return TestClient(TestServer(AdminPages(states).app()), auto_decompress=False)


@pytest.fixture
async def client(scene: Scene, health: HealthRegistry) -> AsyncIterator[Client]:
    async with talking_to(Process({"": scene}, health).states) as client:
        yield client


async def read(client: Client, path: str, status: int = 200) -> Any:  # noqa: ANN401 - any JSON
    """A page as JSON, or as text where it is none."""
    response = await client.get(path, headers={**PLAIN, **JSON})
    text = await response.text()
    assert (status, text) == (response.status, text)
    return json.loads(text) if response.content_type == "application/json" else text


async def test_index(client: Client) -> None:
    """It lists pages that respond, and is the live page in a browser; nothing else is there."""
    named = [line.split()[0] for line in (await (await client.get("/")).text()).splitlines()]
    browser = await client.get("/", headers={**PLAIN, "Accept": "text/html"})
    script = await client.get("/page/main.js", headers=PLAIN)
    post = await client.post("/metrics")

    assert [*OF_ALL, *OF_A_CLUSTER] == named
    assert {"paths": named} == await read(client, "/")
    for path in ("/", *OF_ALL, *(path for path in OF_A_CLUSTER if path.startswith(DUMPS))):
        response = await client.get(path, headers=PLAIN)
        assert (200, "text/plain") == (response.status, response.content_type)
        assert "nosniff" == response.headers["X-Content-Type-Options"]
        assert "no-cache, private" == response.headers["Cache-Control"]
    for path in ("/nothing", "/readyz/nothing", f"{DUMPS}/nothing"):
        assert "404 page not found; / lists what there is\n" == await read(client, path, 404)
    assert (405, "GET,HEAD") == (post.status, post.headers["Allow"])
    assert ("text/html", 200) == (browser.content_type, browser.status)
    assert "default-src 'self'" in browser.headers["Content-Security-Policy"]
    assert "text/javascript" == script.content_type


async def test_health(client: Client, health: HealthRegistry) -> None:
    health.report("shutdown", "it ends")
    failed = "[+]ping ok\n[-]shutdown failed: it ends\nreadyz check failed\n"
    passed = "[+]ping ok\n[+]shutdown excluded: ok\nreadyz check passed\n"

    assert failed == await read(client, "/readyz", 500)
    assert "ok" == await read(client, "/livez")
    assert passed == await read(client, "/readyz?verbose&exclude=shutdown")
    assert "internal server error: it ends\n" == await read(client, "/readyz/shutdown", 500)


# The other pages of a cluster.


async def test_limits_and_tables(client: Client) -> None:
    limits = await read(client, "/debug/limits")
    endpoints = await read(client, "/debug/endpoints")
    objects = await read(client, "/debug/objects")

    assert {"catch-all", "exempt"} == {level["name"] for level in limits["levels"]}
    assert ["up"] == [each["State"] for each in endpoints]
    assert objects[0]["kind"] == "PriorityLevelConfiguration"
    assert await read(client, f"/debug/objects?uid={objects[0]['uid']}") == objects[:1]
    assert await read(client, "/debug/fleet") is None
    for path in ("endpoints", "fleet", "objects"):
        response = await client.get(f"/debug/{path}", headers=PLAIN)
        assert (200, "text/plain") == (response.status, response.content_type)


async def test_explain(client: Client) -> None:
    assert USAGE == await read(client, "/debug/explain")
    found = await read(client, "/debug/explain?target=/&user=ann&group=everyone")
    assert "everyone" == found["flowSchema"]
    assert "say what is asked for" in await read(client, "/debug/explain?method=GET", 400)


async def test_top_flows(client: Client, scene: Scene) -> None:
    assert "top flows are off" in await read(client, "/debug/top_flows", 404)
    scene.top_flows = TopFlows(8, scene.clock)
    for ticket in list(scene.controller.levels["catch-all"].queue_set.executing):
        scene.top_flows.on_seats_back(ticket, 2_000_000_000)
    found = await read(client, "/debug/top_flows?by=seatSeconds&limit=1")

    assert [2.0] == [flow["seatSeconds"] for flow in found["flows"]]
    assert {"total": 2.0, "maxOverestimate": 0.0} == found["measures"]["seatSeconds"]
    assert "by must be one of" in await read(client, "/debug/top_flows?by=x", 400)
    assert "limit must be" in await read(client, "/debug/top_flows?limit=0", 400)


# Several clusters.


@pytest.fixture
async def several(scene: Scene) -> AsyncIterator[Client]:
    async with talking_to(
        Process({"blue": scene, "green": Scene(()), "wrong": None}).states
    ) as client:
        yield client


async def test_no_such_cluster(several: Client) -> None:
    for path, status, text in (
        ("/debug/limits", 400, "cluster: name one for /debug/limits"),
        ("/clusters/bleu/debug/limits", 404, "did you mean blue?"),
        ("/clusters/lee/debug/limits", 404, "there are blue, green"),
        ("/clusters/zzz/debug/limits", 404, "there are blue, green, wrong"),
        ("/clusters/wrong/debug/limits", 503, "wrong cannot be used: s.yaml:3: odd"),
        ("/clusters/blue/nothing", 404, "a cluster has these pages"),
    ):
        assert text in await read(several, path, status)


async def test_overview(several: Client) -> None:
    """It has all clusters, and rates at once; each page says which cluster it is of."""
    found = await read(several, "/debug/clusters")
    text = await (await several.get("/debug/live", headers=PLAIN)).text()
    live = await read(several, "/clusters/blue/debug/live")
    limits = await read(several, "/debug/limits?cluster=blue")

    assert ["wrong", "blue", "green"] == [each["name"] for each in found["clusters"]]
    assert ("blue", 2) == (live["cluster"], len(limits["levels"]))
    assert text.startswith("Cluster, ")


async def test_overview_of_a_worker(scene: Scene) -> None:
    one, two = Process({"blue": scene}), Process({"blue": Scene(())})
    async with talking_to(Parent(one.told(1), two.told(2)).states) as client:
        of_all = await read(client, "/debug/clusters")
        of_two = await read(client, "/debug/clusters?worker=2")
        redirect = await client.get("/?cluster=blue&worker=2", allow_redirects=False)

    assert [1, 0] == [found["clusters"][0]["seatsInUse"] for found in (of_all, of_two)]
    assert "clusters/blue/?worker=2" == redirect.headers["Location"]


async def test_redirects(several: Client) -> None:
    found = [
        (await several.get(path, allow_redirects=False)).headers["Location"]
        for path in ("/?cluster=blue", "/clusters/blue", "/clusters/blue/metrics")
    ]

    assert ["clusters/blue/", "/clusters/blue/", "/metrics"] == found


# Workers.


class Parent:
    def __init__(self, *slots: Any) -> None:  # noqa: ANN401 - as their processes
        workers: Any = SimpleNamespace(slots=slots, restarts=3)
        self.workers = workers
        self.health = HealthRegistry()
        self.states = WorkersStates(
            self.workers, self.health, lambda: gathered(started_s=1.0, health=self.health)
        )


@pytest.fixture
def workers(scene: Scene, health: HealthRegistry) -> tuple[Process, Process]:
    other = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    other.ticket("bob")
    return Process({"": scene}, health), Process({"": other})


DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total{"


EXECUTING = "apiserver_flowcontrol_current_executing_requests{"


async def test_sums(workers: tuple[Process, Process]) -> None:
    """Pages have the sums, or one worker's; the metrics may have each one's."""
    one, two = workers
    async with talking_to(Parent(one.told(1), two.told(2)).states) as client:
        state = await read(client, "/debug/live")
        levels = await read(client, f"{DUMPS}/dump_priority_levels")
        requests = await read(client, f"{DUMPS}/dump_requests?includeRequestDetails=1")
        of_one = await read(client, f"{DUMPS}/dump_requests?worker=2&includeRequestDetails=1")
        live = await read(client, "/debug/live/requests?priorityLevel=catch-all")
        metrics = await read(client, "/metrics")
        each = await read(client, "/metrics?workers=each")
        unknown = await read(client, "/debug/limits?worker=9", 404)
        explained = await read(client, "/debug/explain?target=/&user=ann")
        wrong = await read(client, "/metrics?workers=all", 400)

    assert [("1", 1), ("2", 1)] == [(each["name"], each["executing"]) for each in state["workers"]]
    assert (
        2 == {each["PriorityLevelName"]: each for each in levels}["catch-all"]["ExecutingRequests"]
    )
    assert (2, ["bob"]) == (len(requests), [each["UserName"] for each in of_one])
    assert {"1", "2"} == {each["worker"] for each in live["executing"]}
    assert [2.0] == [float(line.split()[-1]) for line in lines(metrics, DISPATCHED)]
    assert 2 == sum('worker="' in line for line in lines(each, DISPATCHED))
    assert "apfproxy_worker_restarts_total 3.0" in metrics
    assert "worker: there is none named '9'; there are 1, 2\n" == unknown
    assert ["the queues and seats are those of worker 1 of 2"] == explained["notes"]
    assert "workers must be each" in wrong


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


async def test_a_silent_worker(workers: tuple[Process, Process]) -> None:
    one, two = workers
    parent = Parent(one.told(1), two.told(2, is_silent=True))
    async with talking_to(parent.states) as client:
        response = await client.get("/debug/live", headers=PLAIN)
        state = json.loads(await response.text())
        metrics = await read(client, "/metrics")
        parent.workers.slots = [SimpleNamespace(index=1, problem="it crashed", processes=[])]
        refused = await read(client, "/debug/limits", 503)

    assert "2" == response.headers[MISSING]
    assert {"name": "2", "problem": "it shows no life"} in state["workers"]
    assert "worker 2 does not answer: it shows no life" in {
        each["problem"] for each in state["problems"]
    }
    assert 'apfproxy_worker_up{worker="2"} 0.0' in metrics
    counts = lines(metrics, DISPATCHED), lines(metrics, EXECUTING)
    assert [[2.0], [1.0]] == [[float(line.split()[-1]) for line in each] for each in counts]
    assert "no worker answers\nworker 1: it has no process: it crashed\n" == refused


async def test_missing_workers_are_named(workers: tuple[Process, Process]) -> None:
    """Each page that lacks a worker says which one, and only then."""
    one, two = workers
    for process in workers:
        process.scenes[""].top_flows = TopFlows(8, process.scenes[""].clock)  # type: ignore[union-attr]
    parent = Parent(one.told(1), two.told(2, is_silent=True))
    async with talking_to(parent.states) as client:
        for slots, expected in ((parent.workers.slots, "2"), ([one.told(1)], None)):
            parent.workers.slots = slots
            for path in (
                *("/metrics", "/metrics?workers=each", "/debug/explain?target=/", "/debug/limits"),
                *("/debug/live", "/debug/top_flows", f"{DUMPS}/dump_requests"),
                "/debug/live/hand?priorityLevel=catch-all",
                "/debug/live/requests?priorityLevel=catch-all",
            ):
                response = await client.get(path, headers=PLAIN)
                assert (200, expected) == (response.status, response.headers.get(MISSING)), path


async def test_neither_clusters_nor_workers(client: Client) -> None:
    for path, status, text in (
        ("/debug/limits?cluster=x", 404, "cluster: this proxy has no clusters with names"),
        ("/readyz?cluster=x", 400, "cluster: /readyz is of the whole process"),
        ("/metrics?worker=1", 404, "worker: there is none named '1'"),
        ("/livez/ping?worker=1", 404, "worker: there is none named '1'"),
        ("/debug/live/requests?worker=1", 404, "worker: there is none named '1'"),
    ):
        assert text in await read(client, path, status)


def counts_in(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in {"counter", "histogram"} and family.name != "process_cpu_seconds"
        for sample in family.samples
    }


@pytest.mark.parametrize("names", [[""], ["a", "b"]])
async def test_counts_stay(scene: Scene, names: list[str]) -> None:
    """No counter goes while no one tells anything, or until the next request; all else does."""
    former, new = (Process(dict.fromkeys(names, each)) for each in (scene, Scene(())))
    parent = Parent(former.told(1))
    query = "".join(f"?cluster={name}" for name in filter(None, names[:1]))
    async with talking_to(parent.states) as client:
        before = counts_in(await read(client, "/metrics"))
        parent.workers.slots = [former.told(1, is_silent=True)]
        silent = await read(client, "/metrics")
        refused = await read(client, f"/debug/limits{query}", 503)
        parent.states.end(former.encoded())
        parent.workers.slots = [new.told(1)]
        after = await read(client, "/metrics")

    assert any(name.endswith("demand_seats_count") for name, _ in before)
    for text in (silent, after):
        counts = counts_in(text)
        assert {} == {key: value for key, value in before.items() if counts.get(key, -1) < value}
    assert [] == lines(silent, EXECUTING) == lines(silent, "apfproxy_upstream_connections{")
    assert "no worker answers\nworker 1: it shows no life\n" == refused


async def test_dumps_at_once(workers: tuple[Process, Process]) -> None:
    one, _ = workers
    asked: list[bytes] = []
    may_reply = asyncio.Event()

    async def ask(_question: str, arguments: bytes, _within_s: float) -> bytes:
        asked.append(arguments)
        await may_reply.wait()
        return b""

    async with talking_to(Parent(one.told(1, ask=ask)).states) as client:
        path = f"{DUMPS}/dump_queues"
        dumps = [asyncio.ensure_future(client.get(path)) for _ in range(MAX_DUMPS + 1)]
        (first,), _ = await asyncio.wait(dumps, return_when=asyncio.FIRST_COMPLETED)
        at_once = len(asked)
        may_reply.set()
        statuses = [each.status for each in await asyncio.gather(*dumps)]

    assert (503, "1") == (first.result().status, first.result().headers["Retry-After"])
    assert 1 == at_once
    assert [200] * MAX_DUMPS + [503] == sorted(statuses)


async def test_health_of_workers(workers: tuple[Process, Process], health: HealthRegistry) -> None:
    """A page fails where no worker is well, or the parent is not; what fails in one is listed."""
    one, two = workers
    two.health.add("shutdown", pages=(READYZ,))
    health.report("shutdown", "it ends")
    parent = Parent(one.told(1), two.told(2))
    async with talking_to(parent.states) as client:
        for path, status, expected in (
            ("/readyz", 200, "ok"),
            ("/readyz?verbose", 200, "[+]worker/2 ok"),
            ("/readyz?verbose", 200, "[!]worker/1/shutdown: it ends"),
            ("/readyz?worker=1", 500, "[-]shutdown failed: it ends"),
            ("/readyz/shutdown", 200, "internal server error: worker/1: it ends"),
            ("/readyz?verbose&exclude=shutdown", 200, "[+]worker/1 ok"),
            ("/readyz/worker/1/nothing", 404, "404 page not found; / lists what there is"),
        ):
            assert expected in (await read(client, path, status)).splitlines()
        parent.workers.slots = [one.told(1)]
        assert "[-]worker/1 failed: readyz check failed" in await read(client, "/readyz", 500)
        parent.workers.slots = [two.told(1)]
        parent.health.add("workers", problem="no worker serves")
        assert "[-]workers failed: no worker serves" in await read(client, "/readyz", 500)


def test_names() -> None:
    """A process that drains has its own name while another one has its place."""
    drains, serves = worker_process(WorkerState.DRAINING), worker_process()
    starts = worker_process(WorkerState.STARTING)
    slots = [
        SimpleNamespace(index=index, problem=problem, processes=processes)
        for index, problem, processes in [
            (1, "", [drains, serves, starts]),
            (2, "it crashed", [starts]),
            (3, "", [drains]),
        ]
    ]
    found = {name: each.why_not for name, each in Parent(*slots).states.named().items()}

    nothing = "it has told nothing yet"
    starting = "it is starting: it crashed"
    assert {"1-7": nothing, "1": nothing, "2": starting, "3": nothing} == found
