"""A Kubernetes API as a client sees it: answers, watches, and what goes wrong."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from aiohttp import web

from apfproxy.base.tls_files import Pem
from apfproxy.sources import kubernetes_api
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.kubeconfig import ApiAccess
from apfproxy.sources.kubernetes_api import SILENCE_S, KubernetesApi, KubernetesApiError
from tests.end_to_end.programs import free_port
from tests.support.certificates import Authority
from tests.support.http_server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.http_server import Handler

PATH = "/apis/group/v1/things"
TOKEN = "own-token"  # noqa: S105 - of no one
THING = '{"kind":"Thing"}'


@asynccontextmanager
async def api_of(
    handler: Handler, prefix: str = "", *, silence_s: float = SILENCE_S
) -> AsyncIterator[KubernetesApi]:
    async with serving(handler) as url:
        access = ApiAccess(server=f"{url}{prefix}", token=TOKEN)
        api = KubernetesApi(access.server, ApiCredentials(access), silence_s=silence_s)
        try:
            yield api
        finally:
            await api.close()


async def failure(api: KubernetesApi) -> KubernetesApiError:
    with pytest.raises(KubernetesApiError) as caught:
        await api.get(PATH, {})
    assert TOKEN not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("prefix", ["", "/k8s/clusters/c-1"])
async def test_requests(prefix: str) -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        head, form = request.headers, request.headers.get("Content-Type")
        common = head["Authorization"], head["Accept"], head["Accept-Encoding"]
        seen.append((common, request.method, request.path_qs, form, await request.text()))
        return web.json_response({"a": 1}, status=200 if request.method == "GET" else 201)

    async with api_of(answer, prefix) as api:
        answers = [
            await api.get(PATH, {"limit": "5", "continue": "a+b/="}),
            await api.apply(f"{PATH}/x%2Fy/status", {"force": "true"}, {"kind": "Thing"}),
            await api.create(PATH, {"kind": "Thing"}),
            await api.merge(f"{PATH}/x", {"data": None}),
        ]

    assert [{"a": 1}] * 4 == answers
    assert {(f"Bearer {TOKEN}", "application/json", "identity")} == {head for head, *_ in seen}
    assert [
        ["GET", f"{prefix}{PATH}?limit=5&continue=a%2Bb/%3D", None, ""],
        ["PATCH", f"{prefix}{PATH}/x%2Fy/status?force=true", "application/apply-patch+yaml", THING],
        ["POST", f"{prefix}{PATH}", "application/json", THING],
        ["PATCH", f"{prefix}{PATH}/x", "application/merge-patch+json", '{"data":null}'],
    ] == [asked for _, *asked in seen]


@pytest.mark.parametrize(
    ("response", "expected", "retry_after_s"),
    [
        ((403, '{"kind":"Status","message":"no\\nway"}', {}), "answered 403: no way", 0),
        pytest.param((502, "<html>", {}), "answered 502", 0, id="page"),
        pytest.param((401, "{}", {}), "answered 401", 0, id="unauthorized"),
        ((403, '{"message":"\\u001b[2J"}', {}), "answered 403: \\x1b[2J", 0),
        pytest.param((429, "{}", {"Retry-After": "7"}), "answered 429", 7, id="later"),
        pytest.param((503, "[]", {"Retry-After": "Sat, 21 Nov"}), "answered 503", 0, id="date"),
        pytest.param((302, "{}", {"Location": "/"}), "answered 302", 0, id="elsewhere"),
        pytest.param((200, "[1]", {}), "the response is no JSON object", 0, id="list"),
        pytest.param((200, "{", {}), "the response is no JSON object", 0, id="half"),
        pytest.param((200, "x" * 200_000, {}), "the response is longer than 10", 0, id="long"),
        pytest.param((200, "[" * 100_000, {}), "the response is no JSON object", 0, id="deep"),
    ],
)
async def test_refusals(
    response: tuple[int, str, dict[str, str]],
    expected: str,
    retry_after_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_api, "MAX_RESPONSE_BYTES", 100_000)
    status, text, head = response

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=head)

    async with api_of(answer) as api:
        refused = Mock()
        monkeypatch.setattr(api.credentials, "refused", refused)
        error = await failure(api)

    assert (status == 401) == refused.called
    assert str(error).startswith(expected)
    assert retry_after_s == error.retry_after_s
    assert status in (200, error.status)


@asynccontextmanager
async def secure_server(
    folder: Path, authority: Authority, name: str, *, asks: bool = False
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with a certificate of that name: its URL, and the names of its clients."""
    cert, key = authority.issue("api", usage="server", hosts=(name,)).write(folder, "api")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
    names: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if asks:
            names.append(request.get_extra_info("peercert")["subject"][0][0][1])
        return web.json_response({"name": "b"})

    async with serving(answer, context) as url:
        yield url, names


async def test_tls(tmp_path: Path) -> None:
    """A server is verified by its CA and name, and sees the client's certificate."""
    authority = Authority("ca")
    own = authority.issue("me", usage="client")
    async with secure_server(tmp_path, authority, "kubernetes", asks=True) as (url, names):
        for name in ("kubernetes", None):
            access = ApiAccess(
                server=url,
                authorities=Pem(data="# Autorité\n".encode() + authority.pem),
                server_name=name,
                own=(Pem(data=own.cert_pem), Pem(data=own.key_pem)),
            )
            api = KubernetesApi(access.server, ApiCredentials(access))
            if name is not None:
                await api.get(PATH, {})
            else:
                assert "the API server's certificate is no good: " in str(await failure(api))
            await api.close()

    assert ["me"] == names


async def test_certificates_of_other_servers(tmp_path: Path) -> None:
    """Other servers are verified by the same CA, and by the name that they share."""
    authority = Authority("ca")
    gone = f"https://127.0.0.1:{free_port()}"
    access = ApiAccess(server=gone, authorities=Pem(data=authority.pem))
    async with secure_server(tmp_path, authority, "shared") as (url, _):
        for name in ("shared", "other"):
            others = {gone: None, url: name}
            api = KubernetesApi(gone, ApiCredentials(access), others=partial(dict, others))
            if name == "shared":
                assert {"name": "b"} == await api.get(PATH, {})
            else:
                assert "the API server's certificate is no good: " in str(await failure(api))
            await api.close()


def also(first: str, other: KubernetesApi) -> KubernetesApi:
    """The API of two servers."""
    others = dict.fromkeys((first, other.server))
    return KubernetesApi(first, other.credentials, others=lambda: others)


def streaming(*pieces: bytes, end: asyncio.Event | None = None) -> Handler:
    """A response in pieces, which ends with the event."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if end is not None:
            await end.wait()
        return response

    return stream


def answering(name: str, statuses: list[int]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"name": name}, status=statuses.pop(0) if statuses else 200)

    return answer


async def test_other_servers() -> None:
    """Where one does not answer well each other one is asked, and from then on until it fails."""
    gone = f"http://127.0.0.1:{free_port()}"
    b_statuses: list[int] = []
    others: dict[str, str | None] = {gone: None}
    asked: list[str] = []

    async def ask(api: KubernetesApi) -> None:
        try:
            asked.append((await api.get(PATH, {}))["name"])
        except KubernetesApiError as error:
            asked.append(f"{error.status}")

    async with api_of(answering("b", b_statuses)) as other:
        api = KubernetesApi(gone, other.credentials, others=lambda: others)
        await ask(api)
        await ask(api)  # there is no other one yet
        others[other.server] = None
        await ask(api)
        await ask(api)
        for status in (403, 500):
            b_statuses.append(status)
            await ask(api)  # it is asked, then the first one
            await ask(api)
        b_statuses.append(404)
        await ask(api)  # which is an answer
        others.clear()
        b_statuses.append(503)
        await ask(api)
        await ask(api)  # it is known no more
        await api.close()

    assert ["0", "0", "b", "b", "0", "b", "0", "b", "404", "503", "0"] == asked
    assert gone == api.server


async def test_many_servers_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "MOST_ASKED", 2)
    gone: dict[str, str | None] = {f"http://127.0.0.1:{free_port()}/{at}": None for at in range(3)}
    async with api_of(answering("b", [])) as other:
        others = {**gone, other.server: None}
        api = KubernetesApi(next(iter(gone)), other.credentials, others=lambda: others)
        await failure(api)
        answer = await api.get(PATH, {})
        await api.close()

    assert {"name": "b"} == answer


async def test_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is asked, sooner than the only one would be given up."""
    monkeypatch.setattr(kubernetes_api, "PATIENCE_S", 0.5)
    never = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await never.wait()
        raise AssertionError

    async with api_of(hang) as first, api_of(answering("b", [])) as other:
        api = also(first.server, other)
        answer = await api.get(PATH, {})
        await api.close()
        never.set()

    assert ({"name": "b"}, other.server) == (answer, api.server)


async def test_writes_are_not_done_twice() -> None:
    broken: list[str] = []

    async def cut(request: web.Request) -> web.Response:
        broken.append(request.method)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with api_of(cut) as first, api_of(answering("b", [])) as other:
        api = also(first.server, other)
        with pytest.raises(KubernetesApiError):
            await api.create(PATH, {})
        answers = [await api.create(PATH, {})]
        gone = also(f"http://127.0.0.1:{free_port()}", other)
        answers.append(await gone.create(PATH, {}))
        await api.close()
        await gone.close()

    assert [{"name": "b"}] * 2 == answers
    assert ["POST"] == broken


async def test_watch_at_a_server_that_is_left() -> None:
    """It ends, unless there is no other server to watch at; the next one is elsewhere."""
    never = asyncio.Event()
    async with api_of(streaming(end=never)) as first, api_of(answering("b", [])) as other:
        others: dict[str, str | None] = {first.server: None}
        api = KubernetesApi(first.server, other.credentials, others=lambda: others)
        async with aclosing(api.watch(PATH, {"watch": "1"})) as events:
            assert await anext(events) is None
            api.leave({first.server})
            following = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            assert not following.done()
            others[other.server] = None
            api.leave({other.server})
            api.leave({first.server})
            with pytest.raises(KubernetesApiError, match="the connection broke"):
                await following
        answer = await api.get(PATH, {})
        api.leave({first.server})  # nothing is there any more
        await api.close()
        never.set()

    assert {"name": "b"} == answer


async def test_watch_that_begins_late() -> None:
    """It is at the server that was asked for it, though another one is asked meanwhile."""
    is_asked, may_begin, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
    stream = streaming(end=never)

    async def late(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(status=500)
        is_asked.set()
        await may_begin.wait()
        return await stream(request)

    async with api_of(late) as first, api_of(answering("b", [])) as other:
        api = also(first.server, other)
        async with aclosing(api.watch(PATH, {"watch": "1"})) as events:
            beginning = asyncio.ensure_future(anext(events))
            await is_asked.wait()
            assert {"name": "b"} == await api.get(PATH, {})
            may_begin.set()
            assert await beginning is None
            api.leave({first.server})
            with pytest.raises(KubernetesApiError, match="the connection broke"):
                await anext(events)
        await api.close()
        never.set()


async def events_of(api: KubernetesApi) -> list[Any]:
    async with aclosing(api.watch(PATH, {"watch": "1"})) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b'{"type":"A"}\n{"type":"B"}\n'], id="whole"),
        pytest.param([b'{"ty', b'pe":"A"}', b'\n\n{"type":"B"}', b"\n"], id="pieces"),
    ],
)
async def test_watch(pieces: list[bytes]) -> None:
    async with api_of(streaming(*pieces)) as api:
        assert [None, {"type": "A"}, {"type": "B"}] == await events_of(api)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"nonsense\n", "the response is no JSON object", id="nonsense"),
        pytest.param(b"x" * 30, "an event is longer than 20 bytes", id="long"),
        pytest.param(b"{}\n" + b"x" * 30, "an event is longer than 20 bytes", id="long-later"),
        pytest.param(b"", "no response in time", id="silence"),
    ],
)
async def test_bad_watch(content: bytes, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "MAX_EVENT_BYTES", 20)
    is_over = asyncio.Event()
    async with api_of(streaming(content, end=is_over), silence_s=0.2) as api:
        with pytest.raises(KubernetesApiError, match=expected):
            await events_of(api)
        is_over.set()


async def test_watch_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "LONGEST_S", 0.1)
    is_over = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        await is_over.wait()
        return web.Response()

    async with api_of(answer) as api:
        with pytest.raises(KubernetesApiError, match="no response in time"):
            await events_of(api)
        is_over.set()
