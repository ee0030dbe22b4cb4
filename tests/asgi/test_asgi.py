"""Flow control of a program, as a server of ASGI sees it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from apfproxy.asgi import FlowControl
from apfproxy.http.credential_fields import name_of_secret
from tests.asgi.scene import Call, Scene, objects, plain
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

STREAM = (b"Content-Type", b"text/event-stream; charset=utf-8")
LENGTH = (b"Content-Length", b"3")
REJECT = "{type: Reject}"
LAST = {"type": "http.request", "body": b"b"}
PARTS = ({"type": "http.request", "body": b"a", "more_body": True}, LAST)


async def test_a_request_that_fits_is_no_task() -> None:
    """Its call goes from the server to the program and back without a turn of the loop."""
    tasks: list[int] = []

    async def count(_: Call) -> None:
        tasks.append(len(asyncio.all_tasks()))

    scene = Scene(handler=count)
    await scene.client().call
    before = len(asyncio.all_tasks())
    client = scene.client()
    await client.call

    assert before + 1 == tasks[-1]
    assert 0 == scene.seats


@pytest.mark.parametrize("how", ["responds", "fails", "is cancelled", "says nothing"])
async def test_seats_go_back_however_a_call_ends(how: str) -> None:
    async def end(call: Call) -> None:
        await call.may_go.wait()
        if how == "responds":
            await plain(call)
        if how == "fails":
            raise LookupError(how)

    scene = Scene(handler=end)
    first = await scene.busy()
    second = scene.client()
    await until(lambda: scene.waiting)
    assert 1 == scene.seats == len(scene.calls)
    if how == "is cancelled":
        first.call.cancel()
    scene.calls[0].may_go.set()
    await asyncio.wait([first.call])
    await until(lambda: len(scene.calls) == 2)

    assert (1, 0) == (scene.seats, scene.waiting)
    assert (how == "is cancelled") == first.call.cancelled()
    scene.calls[1].may_go.set()
    await asyncio.wait([second.call])
    if how == "fails":
        errors = {repr(each.call.exception()) for each in (first, second)}
        assert {"LookupError('fails')"} == errors
    assert 0 == scene.seats


async def test_the_program_gets_all_messages_of_one_that_waited() -> None:
    """The first was read while it waited; it is there at once, even if there is no time to wait."""
    got: list[Any] = []

    async def read(call: Call) -> None:
        await call.may_go.wait()
        if not got:
            got.append("begun")
            return
        async with asyncio.timeout(0):
            got.append(await call.receive())
        while len(got) < 4:
            got.append(await call.receive())

    scene = Scene(handler=read)
    first = await scene.busy()
    second = scene.client(method="POST", body=PARTS)
    await until(lambda: scene.waiting)
    await until(lambda: len(second.inbox) == 1)
    scene.calls[0].may_go.set()
    await first.call
    await until(lambda: len(scene.calls) == 2)
    scene.calls[1].may_go.set()
    await until(lambda: len(got) == 3)
    second.leave()
    await second.call

    assert ["begun", *PARTS, {"type": "http.disconnect"}] == got


async def test_what_was_not_read_yet_is_read_once() -> None:
    """A `receive` that is cancelled loses none, and two at once get one message each."""
    got: list[Any] = []

    async def read(call: Call) -> None:
        got.append(await call.receive())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call.receive()
        got.extend(await asyncio.gather(call.receive(), call.receive()))

    scene = Scene(handler=plain)
    first = await scene.busy()
    scene.handler = read
    second = scene.client(body=[LAST])
    await until(lambda: not second.inbox)
    scene.calls[0].may_go.set()
    await until(lambda: got)
    second.leave()
    second.leave()
    await asyncio.gather(first.call, second.call)

    assert [LAST, *[{"type": "http.disconnect"}] * 2] == got


async def test_a_program_may_send_when_its_call_has_ended() -> None:
    """Its server does with that as it likes; flow control has no part in it any more."""

    async def nothing(_: Call) -> None: ...

    given = objects('apfproxy.io/long-running-limit: "1"')
    scene = Scene(handler=nothing, objects=given)
    client = scene.client()
    await client.call
    for _ in range(2):
        await scene.calls[0].head(STREAM)
        await scene.calls[0].body()

    assert [200, 4] == [client.status, len(client.sent)]
    assert {} == scene.control.controller._flow_limits["mine"].long_running.counts  # noqa: SLF001


async def test_headers_that_can_be_read_once_reach_the_client() -> None:
    async def stream(call: Call) -> None:
        await call.send({"type": "http.response.start", "status": 200, "headers": iter([STREAM])})

    client = Scene(handler=stream).client()
    await client.call

    assert [STREAM] == list(client.sent[0]["headers"])


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_place_in_the_queue_is_given_up(*, is_cancelled: bool) -> None:
    """By a client that leaves, and by a server that ends the call."""
    scene = Scene()
    first = await scene.busy()
    second = scene.client()
    await until(lambda: scene.waiting)
    if is_cancelled:
        second.call.cancel()
    else:
        second.leave()
    await asyncio.wait([second.call])

    assert (1, 0, 1) == (scene.seats, scene.waiting, len(scene.calls))
    assert (is_cancelled, []) == (second.call.cancelled(), second.sent)
    scene.calls[0].may_go.set()
    await first.call
    assert 0 == scene.seats


async def test_seats_that_come_to_a_client_as_it_leaves_go_on() -> None:
    scene = Scene()
    first = await scene.busy()
    second = scene.client()
    third = scene.client()
    await until(lambda: scene.waiting == 2)
    scene.calls[0].may_go.set()
    await until(lambda: first.sent[1:])
    second.call.cancel()
    await until(lambda: len(scene.calls) == 2)
    scene.calls[1].may_go.set()
    await asyncio.wait([first.call, second.call, third.call])

    assert 0 == scene.seats
    assert 200 == third.status


async def test_an_error_of_flow_control_ends_the_one_that_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    first = await scene.busy()
    second = scene.client()
    await until(lambda: scene.waiting)

    def fail(_: object) -> None:
        raise LookupError("seats")

    monkeypatch.setattr("apfproxy.asgi._Request.on_seats", fail)
    scene.calls[0].may_go.set()
    await asyncio.wait([first.call, second.call])

    assert "LookupError('seats')" == repr(second.call.exception())
    assert (0, 0, 1) == (scene.seats, scene.waiting, len(scene.calls))


@pytest.mark.parametrize(
    ("given", "headers", "status", "retry_after", "text"),
    [
        pytest.param(
            objects("", "apfproxy.io/wait-limit: 10ms"),
            [], 429, b"1", "Too many requests, please try again later.",
            id="time-out",
        ),
        pytest.param(
            objects(response=REJECT),
            [], 429, b"1", "Too many requests, please try again later.",
            id="concurrency-limit",
        ),
        pytest.param(
            objects("apfproxy.io/request-rate: '0.001'"),
            [], 429, b"1000", "the flow makes more than 0.001 requests a second",
            id="rate",
        ),
        pytest.param(
            objects("apfproxy.io/request-rate: '0.001'"),
            [(b"accept", b"application/json")], 429, b"1000", '{"title": "Too Many Requests", ',
            id="json",
        ),
    ],
)  # fmt: skip
async def test_refusals(
    given: str, headers: list[tuple[bytes, bytes]], status: int, retry_after: bytes, text: str
) -> None:
    scene = Scene(objects=given)
    first = await scene.busy()
    second = scene.client(headers=headers)
    await second.call

    assert (status, retry_after) == (second.status, second.headers[b"retry-after"])
    assert second.sent[1]["body"].decode().startswith(text)
    assert int(second.headers[b"content-length"]) == len(second.sent[1]["body"])
    assert 1 == len(scene.calls) == scene.seats
    scene.calls[0].may_go.set()
    await first.call


async def test_a_ban() -> None:
    scene = Scene(objects=objects("", 'apfproxy.io/ban: "true"', REJECT).replace("10000", "0"))
    client = scene.client()
    await client.call

    assert 403 == client.status
    assert b"retry-after" not in client.headers
    assert [] == scene.calls


@pytest.mark.parametrize(
    ("method", "schema", "headers", "seats"),
    [
        pytest.param("GET", "", [STREAM], 0, id="an-event-stream-for-a-browser"),
        pytest.param("POST", "", [STREAM], 1, id="an-event-stream-that-is-work"),
        pytest.param("GET", "", [(b"content-type", b"text/plain")], 1, id="a-download"),
        pytest.param("GET", "apfproxy.io/stream-seats: hold", [STREAM], 1, id="hold"),
        pytest.param("POST", "apfproxy.io/stream-seats: release", [], 0, id="release"),
        pytest.param("GET", "apfproxy.io/stream-seats: release", [LENGTH], 1, id="known-length"),
    ],
)
async def test_streams(
    method: str, schema: str, headers: list[tuple[bytes, bytes]], seats: int
) -> None:
    """They have seats until their last message, if they have any; what follows it has none."""

    async def stream(call: Call) -> None:
        await call.head(*headers)
        await call.body(b"one", more=True)
        await call.may_go.wait()
        await call.body(b"two")
        call.may_go.clear()
        await call.may_go.wait()  # a task in the background

    scene = Scene(handler=stream, objects=objects(schema))
    client = scene.client(method=method)
    await until(lambda: len(client.sent) == 2)
    assert seats == scene.seats
    scene.calls[0].may_go.set()
    await until(lambda: len(client.sent) == 3)
    await until(lambda: not scene.seats)
    assert not client.call.done()
    scene.calls[0].may_go.set()
    await client.call


async def test_a_stream_too_many_is_refused_and_the_program_learns_it() -> None:
    """As if its client had left: what it makes of that is no error of the server's."""
    ends: list[str] = []

    async def stream(call: Call) -> None:
        try:
            await call.head(STREAM)
        except OSError as error:
            ends.append(str(error))
            raise LookupError from error
        await call.may_go.wait()

    scene = Scene(handler=stream, objects=objects('apfproxy.io/long-running-limit: "1"'))
    first = scene.client()
    await until(lambda: first.sent)
    second = scene.client()
    await second.call

    assert ["the client got another response"] == ends
    assert [429, "http.response.body"] == [second.status, second.sent[1]["type"]]
    assert 0 == scene.seats
    scene.calls[0].may_go.set()
    await first.call
    third = scene.client()
    await until(lambda: third.sent)
    assert 200 == third.status
    scene.calls[2].may_go.set()
    await third.call


async def test_a_web_socket_has_its_seat_until_it_is_accepted() -> None:
    async def accept(call: Call) -> None:
        await call.may_go.wait()
        assert {"type": "websocket.connect"} == await call.receive()
        await call.send({"type": "websocket.accept"})
        await call.receive()

    scene = Scene(handler=accept)
    connect = {"kind": "websocket", "body": [{"type": "websocket.connect"}]}
    first, second = scene.client(**connect), scene.client(**connect)
    await until(lambda: scene.waiting)
    assert 1 == scene.seats == len(scene.calls)
    scene.calls[0].may_go.set()
    await until(lambda: len(scene.calls) == 2)
    assert 1 == scene.seats
    scene.calls[1].may_go.set()
    await until(lambda: second.sent)
    await until(lambda: not scene.seats)
    first.leave()
    second.leave()
    await asyncio.gather(first.call, second.call)


@pytest.mark.parametrize(
    ("extensions", "sent"),
    [
        ({}, [{"type": "websocket.close", "code": 1013}]),
        (None, [{"type": "websocket.close", "code": 1013}]),
        ({"websocket.http.response": {}}, ["websocket.http.response.start", 429]),
    ],
)
async def test_a_web_socket_that_is_refused(extensions: Any, sent: list[Any]) -> None:  # noqa: ANN401
    scene = Scene(objects=objects(response=REJECT))
    first = await scene.busy()
    second = scene.client(kind="websocket", extensions=extensions)
    await second.call

    if extensions:
        assert sent == [second.sent[0]["type"], second.status]
        assert "websocket.http.response.body" == second.sent[1]["type"]
    else:
        assert sent == second.sent
    scene.calls[0].may_go.set()
    await first.call


async def test_lifespan_begins_and_ends_what_is_done_beside_requests() -> None:
    scene = Scene(objects=objects())
    before = len(asyncio.all_tasks())
    inbox = asyncio.Queue[Any]()
    call = asyncio.ensure_future(scene.control({"type": "lifespan"}, inbox.get, inbox.put))
    await until(lambda: len(asyncio.all_tasks()) == before + 3)
    inbox.put_nowait({"type": "lifespan.shutdown"})
    await call
    await until(lambda: len(asyncio.all_tasks()) == before)
    client = await scene.busy()  # which begins them again
    scene.calls[0].may_go.set()
    await client.call

    assert before < len(asyncio.all_tasks())


async def test_limits_follow_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    adjusted: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(adjusted) == 3:
            raise asyncio.CancelledError
        adjusted.append(seconds)

    with monkeypatch.context() as patch:
        patch.setattr("apfproxy.asgi.asyncio.sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await scene.control._adjust(lambda: None)  # noqa: SLF001  it begins anywhere else

    assert [0.5, 0.5, 1.0] == adjusted


def test_loops_one_after_the_other() -> None:
    """The next loop finds what was learned, and no seat held by what waited in the first."""
    scene = Scene(
        objects=objects("apfproxy.io/request-rate: '0.001', apfproxy.io/request-burst: '2'")
    )

    async def begin() -> None:
        await scene.busy()
        scene.client()
        await until(lambda: scene.waiting)

    async def ask() -> int:
        client = scene.client()
        await client.call
        return client.status

    asyncio.run(begin())
    assert (0, 0) == (scene.seats, scene.waiting)
    loop = asyncio.new_event_loop()
    assert 429 == loop.run_until_complete(ask())
    loop.close()  # with tasks in it
    assert 429 == asyncio.run(ask())


def test_a_loop_that_was_closed_with_its_tasks() -> None:
    async def nothing(_: Call) -> None: ...

    scene = Scene(handler=nothing)

    async def ask() -> None:
        await scene.client().call

    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    asyncio.run(ask())

    assert 2 == len(scene.calls)
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  it is meant
        task.get_coro().close()


async def test_two_loops_at_once_are_refused() -> None:
    scene = Scene()
    first = await scene.busy()

    async def ask() -> None:
        await scene.client().call

    with pytest.raises(RuntimeError, match="make one for each"):
        await asyncio.to_thread(asyncio.run, ask())
    scene.calls[0].may_go.set()
    await first.call


KEY = (b"x-api-key", b"secret")
HASH = f"key:{name_of_secret(b'secret')}"


@pytest.mark.parametrize(
    ("user", "headers", "address", "flow"),
    [
        pytest.param(None, [KEY], "192.0.2.1", HASH, id="key"),
        pytest.param(None, [(b"authorization", b"Bearer secret")], None, HASH, id="token"),
        pytest.param(None, [], "192.0.2.1", "address:192.0.2.1", id="address"),
        pytest.param(None, [], "2001:db8::7", "address:2001:db8::/64", id="network"),
        pytest.param(None, [], None, "system:anonymous", id="unix-socket"),
        pytest.param("alice", [KEY], None, "alice", id="name"),
        pytest.param(("alice", ["batch"]), [], None, "alice", id="name-and-groups"),
        pytest.param("", [KEY], "192.0.2.1", "address:192.0.2.1", id="no-name"),
    ],
)
async def test_users(
    user: Any,  # noqa: ANN401
    headers: list[tuple[bytes, bytes]],
    address: str | None,
    flow: str,
) -> None:
    scene = Scene(user=None if user is None else lambda _: user)
    client = scene.client(headers=headers, address=address)
    await until(lambda: scene.calls)
    scene.calls[0].may_go.set()
    await client.call

    assert {flow} == scene.flows()
    level = "batch" if isinstance(user, tuple) else "default"
    assert 1 == scene.control.controller.levels[level].queue_set.dispatched_total


async def test_an_address_with_many_keys_is_one_flow() -> None:
    async def nothing(_: Call) -> None: ...

    scene = Scene(handler=nothing)
    for number in range(40):
        await scene.client(headers=[(b"x-api-key", b"%d" % number)]).call

    assert 17 == len(scene.flows())
    assert "address:192.0.2.1" in scene.flows()


@pytest.mark.parametrize("user", [7, ("alice", "admins"), (None, [])])
async def test_a_wrong_user_is_an_error(user: Any) -> None:  # noqa: ANN401
    scene = Scene(user=lambda _: user)

    with pytest.raises(TypeError, match=re.escape("want a name, (name, groups) or None, not ")):
        await scene.client().call
    assert 0 == scene.seats


@pytest.mark.parametrize(
    ("schema", "flow"),
    [
        (f"apfproxy.io/match-header: 'Api-Key: {name_of_secret(b'other')}'", HASH),
        ('apfproxy.io/distinguisher: "header:X-Shop"', "7\ufffd"),
        ('apfproxy.io/distinguisher: "header:X-Other"', ""),
        ('apfproxy.io/match-query: "tenant=a"', HASH),
        ('apfproxy.io/match-query: "tenant=b"', None),
        ('apfproxy.io/match-header: "X-Shop: 8"', None),
    ],
)
async def test_headers_and_queries_count(schema: str, flow: str | None) -> None:
    scene = Scene(handler=lambda call: call.body(), objects=objects(schema))
    await scene.client(
        headers=[KEY, (b"x-shop", b"7\xff"), (b"api-key", b"other")], query=b"tenant=a"
    ).call
    level = "default" if flow is None else "mine"

    assert 1 == scene.control.controller.levels[level].queue_set.dispatched_total
    assert flow is None or {flow} == scene.flows()


async def test_a_cost_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow with dear requests has fewer of them in its turns."""
    monkeypatch.setattr("secrets.randbits", lambda _: 7)  # no two share a queue
    order: list[str] = []

    async def note(call: Call) -> None:
        await call.may_go.wait()
        order.append(call.scope["client"][0])

    given = objects("", 'apfproxy.io/cost: "header:X-Units"')
    scene = Scene(handler=note, objects=given)
    clients = [await scene.busy()]
    for address, units in (("192.0.2.7", b"9"), ("192.0.2.8", b"1")):
        clients += [scene.client(headers=[(b"x-units", units)], address=address) for _ in range(3)]
    await until(lambda: scene.waiting == 6)
    for number in range(7):
        await until(lambda n=number: len(scene.calls) > n)  # type: ignore[misc]
        scene.calls[number].may_go.set()
    await asyncio.gather(*[each.call for each in clients])

    assert 3 == order[1:5].count("192.0.2.8")


@pytest.mark.parametrize("kind", ["file", "folder", "text"])
def test_wrong_objects_are_told_with_their_place(kind: str, tmp_path: Path) -> None:
    text = objects().replace("matchingPrecedence: 10", "matchingPrecedence: x")
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    given = {"file": path, "folder": str(tmp_path), "text": text}[kind]

    with pytest.raises(ValueError, match=r"FlowSchema .mine.: spec\.matchingPrecedence") as caught:
        Scene(objects=given)
    assert str(caught.value).startswith("objects:13: " if kind == "text" else f"{path}:13: ")


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"objects": "nowhere.yaml"}, "nowhere.yaml: cannot be read: No such file"),
        ({"objects": objects().replace("name: mine}\n  d", "name: other}\n  d")}, "'other'"),
        ({"objects": objects('apfproxy.io/request-rate: "x"')}, "request-rate"),
        ({"limit": 0}, "limit: want a whole number from 1, not 0"),
        ({"limit": "8"}, "limit: want a whole number from 1, not '8'"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Scene(**given)


async def test_files_are_read_again(tmp_path: Path) -> None:
    """So that a client can be stopped without a restart."""
    path = tmp_path / "mine.yaml"
    path.write_text(objects())
    scene = Scene(objects=tmp_path, handler=lambda call: call.body())
    await scene.client().call
    path.write_text(objects("", 'apfproxy.io/ban: "true"', REJECT).replace("10000", "0"))
    controller = scene.control.controller
    await until(lambda: controller.generation > 2)
    client = scene.client()
    await client.call

    assert 403 == client.status


async def test_metrics() -> None:
    registry = CollectorRegistry()
    scene = Scene(registry=registry)
    first = await scene.busy()
    second = scene.client()
    await until(lambda: scene.waiting)
    lines = set(generate_latest(registry).decode().splitlines())
    labels = '{flow_schema="default",priority_level="default"}'

    assert f"apiserver_flowcontrol_current_executing_requests{labels} 1.0" in lines
    assert f"apiserver_flowcontrol_current_inqueue_requests{labels} 1.0" in lines
    assert all("apiserver_flowcontrol_" in line for line in lines)
    scene.calls[0].may_go.set()
    await until(lambda: len(scene.calls) == 2)
    scene.calls[1].may_go.set()
    await asyncio.gather(first.call, second.call)
    text = generate_latest(registry).decode()
    assert f"apiserver_flowcontrol_dispatched_requests_total{labels} 2.0" in text
    assert "\napiserver_flowcontrol_priority_level_seat_utilization_bucket{" in text


@pytest.mark.parametrize("path", ["/healthz", "//healthz", "/a%2", "*", "", "/\n\u00e9"])
async def test_any_path_is_one(path: str) -> None:
    scene = Scene(handler=lambda call: call.body())
    await scene.client(path=path).call
    level = "health" if path == "/healthz" else "default"

    assert 1 == scene.control.controller.levels[level].queue_set.dispatched_total
    assert path == scene.calls[0].scope["path"]


def test_json_is_yaml() -> None:
    """So a list of objects that a program makes is a text."""
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": []}, indent=1)

    FlowControl(None, 1, objects=text)  # type: ignore[arg-type]
