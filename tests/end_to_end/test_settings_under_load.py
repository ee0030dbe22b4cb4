"""Changes of settings while requests are under way: each ends as it began, and none is lost."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.app.reloading import SettingsFile, reload, reload_when
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.observed_passage import ObservedPassage
from apfproxy.settings import (
    AS_KUBERNETES,
    FRONT_PROXY,
    OBSERVE,
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    Settings,
    TopFlowsSettings,
)
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.scene import NARROW, OK, Scene, Setup, on_uvloop, running
from tests.end_to_end.upstream import Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 4_000
CLIENTS = 60
ROOMY = NARROW.replace("queueLengthLimit: 2", "queueLengthLimit: 1000")
PODS = b"/api/v1/namespaces/default/pods/"


async def put(scene: Scene, settings: Settings) -> None:
    await reload(scene.process, SettingsFile(None, lambda: settings))
    assert scene.process.health.problem("settings") is None
    assert scene.process.settings == settings


def variants(settings: Settings, folder: Path, port: int) -> list[Settings]:
    tokens = folder / "tokens"
    tokens.write_text("secret-1,ann,1\n")
    flow_control = settings.flow_control
    authentication = AuthenticationSettings(token_file=str(tokens))
    return [
        replace(settings, authentication=authentication),
        replace(settings, flow_control=replace(flow_control, enforcement=OBSERVE)),
        replace(settings, flow_control=replace(flow_control, limit_adjustment=AS_KUBERNETES)),
        replace(settings, flow_control=replace(flow_control, server_concurrency_limit=7)),
        replace(settings, access_log=AccessLogSettings(path=str(folder / "log"))),
        replace(settings, top_flows=TopFlowsSettings(capacity=8)),
        replace(
            settings,
            upstream=replace(settings.upstream, url=Address(host="127.0.0.1", port=port)),
        ),
        replace(settings, upstream=replace(settings.upstream, host_header="a.example")),
        replace(settings, upstream=replace(settings.upstream, identity=FRONT_PROXY)),
        settings,
    ]


def is_timed(each: object) -> bool:
    """Tell a passage that goes on later, as one does that the one before it holds back."""
    return type(each) is ObservedPassage and each._timer is not None  # noqa: SLF001


@on_uvloop
async def test_no_request_is_lost(tmp_path: Path) -> None:
    """Users, servers, enforcement and logs change under load; each request is answered once."""
    asked = asyncio.Event()
    reads = 0

    def progress(answered: int) -> None:
        if answered % 100 == 0:
            asked.set()

    def read() -> Settings:
        nonlocal reads
        reads += 1
        return others[reads % len(others)]

    crowd = Crowd(REQUESTS, PODS, progress)
    async with (
        crowd.upstream() as port,
        crowd.upstream() as other_port,
        running(Setup(objects=ROOMY, seats=20), upstream_port=port) as scene,
    ):
        process = scene.process
        others = variants(process.settings, tmp_path, other_port)
        reloading = spawn(reload_when(asked, process, SettingsFile(None, read)), name="reloading")
        await crowd.run(process.port, CLIENTS)
        while reads < len(others):  # the thread that reads gets little of a busy machine
            crowd.total += REQUESTS
            await crowd.run(process.port, CLIENTS)
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
        await until(lambda: not process.server.connection_count)
        # Passages that were only observed end later than their requests.
        queue_sets = [level.queue_set for level in process.cluster.controller.levels.values()]
        await until(
            lambda: (
                not any(each.requests_waiting or each.requests_executing for each in queue_sets)
                and not any(map(is_timed, gc.get_objects()))
            )
        )
        problem = process.health.problem("settings")

    expected = {b"%d" % number for number in range(crowd.total)}
    assert (None, {}, []) == (problem, crowd.others, crowd.unanswered)
    assert {number: number for number in expected} == crowd.answered
    assert dict.fromkeys(expected, 1) == crowd.seen


@on_uvloop
async def test_a_request_ends_as_it_began(tmp_path: Path) -> None:
    """Check that what is under way gets its answer from the old server.

    Then users have to say who they are, on a connection that was open before as well, and the new
    server gets their requests.
    """
    (tmp_path / "tokens").write_text("secret-1,ann,1\n")
    other = Upstream()
    other.start()
    async with running() as scene:
        before = scene.process.settings
        first = await scene.take_seat(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        idle = await scene.ask(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
        await (await scene.upstream.next_request()).peer.send(OK)
        await idle.read_answer()
        upstream = replace(before.upstream, url=Address(host="127.0.0.1", port=other.port))
        authentication = AuthenticationSettings(
            token_file=str(tmp_path / "tokens"), anonymous=False
        )
        await put(scene, replace(before, upstream=upstream, authentication=authentication))
        answer = await first.end()
        refusals = []
        for client in (first.client, idle):
            await client.send(b"GET /c HTTP/1.1\r\nHost: a\r\n\r\n")
            refusals.append((await client.read_answer()).status)
        await idle.send(b"GET /d HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret-1\r\n\r\n")
        arrival = await other.next_request()
        await arrival.peer.send(OK)
        last = await idle.read_answer()
        is_quiet = scene.upstream.is_quiet
        await other.stop()

    assert [200, 401, 401, 200] == [answer.status, *refusals, last.status]
    assert arrival.request.line == b"GET /d HTTP/1.1"
    assert is_quiet


@on_uvloop
async def test_what_was_only_observed_ends_so() -> None:
    """Requests that observing let pass keep no seats from those that are enforced afterwards."""
    setup = Setup(objects=NARROW, seats=1, enforcement=OBSERVE)
    async with running(setup) as scene:
        flow_control = scene.process.settings.flow_control
        queue_set = scene.level().queue_set
        passing = [await scene.take_seat() for _ in range(3)]
        await put(
            scene,
            replace(
                scene.process.settings,
                flow_control=replace(flow_control, enforcement="enforce"),
            ),
        )
        waiting = await scene.ask(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        answers = [(await each.end()).status for each in passing]
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        last = (await waiting.read_answer()).status
        await until(lambda: not queue_set.requests_executing)

    assert [200, 200, 200, 200] == [*answers, last]


@on_uvloop
async def test_seats_of_a_list_are_bounded() -> None:
    """One whose options cannot be decoded takes as many as it may."""
    list_ = b"GET /api/v1/pods?limit=x HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running(Setup(objects=NARROW, seats=600)) as scene:
        settings, holds = scene.process.settings, []
        for most, in_use in ((3, 3), (20, 23), (100, 113)):
            flow_control = replace(settings.flow_control, max_list_seats=most)
            await put(scene, replace(settings, flow_control=flow_control))
            holds.append(await scene.take_seat(list_))
            assert in_use == scene.level().queue_set.seats_in_use
        for hold in holds:
            await hold.end()
