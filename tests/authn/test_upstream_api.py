"""Questions to the upstream's API, and responses that mean harm."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from apfproxy.authn import upstream_api
from apfproxy.authn.fair_line import Place
from apfproxy.authn.upstream_api import (
    MAX_ANSWER_BYTES,
    UpstreamApi,
    UpstreamApiError,
    explained,
    new_session,
)
from apfproxy.settings import Address, EndpointAddress
from tests.authn.scripted_api import OWN_TOKEN, TOKEN, Answer, scripted
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/apis/example.test/v1/questions"
OBJ = {"spec": {"token": TOKEN}}


async def failure(api: UpstreamApi) -> UpstreamApiError:
    with pytest.raises(UpstreamApiError) as caught:
        await api.post(PATH, OBJ)
    return caught.value


async def test_post() -> None:
    """An object goes out as JSON with the proxy's own token, and the response's object comes in."""
    async with scripted(lambda _: {"status": "fine"}, host="kubernetes.test") as (script, api):
        responses = [await api.post(PATH, OBJ) for _ in range(2)]

    assert [{"status": "fine"}] * 2 == responses
    assert ([OBJ, OBJ], [PATH, PATH]) == (script.asked, script.paths)
    expected = {
        "Authorization": f"Bearer {OWN_TOKEN.decode()}",
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "Host": "kubernetes.test",
    }
    assert expected.items() <= script.heads[0].items()
    assert (2, 0) == (api.asked_total, api.failures_total)
    assert len(script.connections) == 1


async def test_environment_and_cookies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of the environment are not used, cookies not sent back; no token is needed."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    def answer(_: object) -> Answer:
        response = web.json_response({})
        response.set_cookie("session", "1")
        return response

    async with scripted(answer, token=lambda: None) as (script, api):
        await api.post(PATH, OBJ)
        await api.post(PATH, OBJ)

    assert {"Cookie", "Authorization"}.isdisjoint(script.heads[1])


def redirect() -> web.Response:
    return web.Response(status=307, headers={"Location": "/elsewhere"})


def compressed() -> web.Response:
    response = web.json_response({"a": " " * 100_000})
    response.enable_compression(web.ContentCoding.gzip)
    return response


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(b"", "no JSON object", id="nothing"),
        pytest.param(b'{"a":1,"a":2}', "no JSON object", id="two-meanings"),
        pytest.param(b'{"a":' * 60_000, "no JSON object", id="deep"),
        pytest.param(compressed, "no JSON object", id="compressed"),
        pytest.param(b" " * (MAX_ANSWER_BYTES + 1), "longer than 1048576", id="giant"),
        pytest.param(redirect, "answered 307", id="redirect"),
        pytest.param(403, "answered 403; bind the proxy's own user", id="forbidden"),
        pytest.param(404, "answered 404", id="not-found"),
    ],
)
async def test_useless_responses(
    answer: Answer, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is an error at once, that says what is wrong, and shows no token."""
    caplog.set_level(logging.DEBUG, "apfproxy")
    async with scripted(lambda _: answer() if callable(answer) else answer) as (script, api):
        error = await failure(api)

    assert says in str(error)
    assert [PATH] == script.paths
    for shown in (repr(error), repr(api), caplog.text, repr(error.__context__)):
        assert TOKEN not in shown
        assert OWN_TOKEN.decode() not in shown


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_passing_failures(status: int) -> None:
    async with scripted(lambda _: status) as (script, api):
        error = await failure(api)

    assert f"answered {status}" in str(error)
    assert (3, 1) == (len(script.asked), api.asked_total)
    first, second = script.waits
    assert 0.5 <= first <= 0.6
    assert 0.75 <= second <= 0.9


async def test_failure_that_passed(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Answer] = [503, {"status": "fine"}]
    async with scripted(lambda _: answers.pop(0)) as (_, api):
        assert {"status": "fine"} == await api.post(PATH, OBJ)

    assert [] == caplog.records


async def test_no_server_is_known() -> None:
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)

    api = UpstreamApi(lambda _: None, lambda: None, lambda: None, 1, 30.0, sleep=sleep)

    assert f"{PATH}: no server of the upstream is known" == str(await failure(api))
    assert 2 == len(waits)


def port_of(api: UpstreamApi) -> int:
    server = api._choose(None)  # noqa: SLF001 - where the script is
    assert server is not None
    return server.address.port


class Servers:
    """Two servers, of which the other one is chosen where one is to be avoided."""

    def __init__(self, patch: pytest.MonkeyPatch, *ports: int) -> None:
        self._known = [
            EndpointAddress(address=Address(host="127.0.0.1", port=port)) for port in ports
        ]
        self.asked: list[int] = []
        post_to = UpstreamApi._post_to  # noqa: SLF001 - what asks

        async def noted(api: UpstreamApi, server: EndpointAddress, path: str, body: bytes) -> Any:  # noqa: ANN401
            self.asked.append(server.address.port)
            return await post_to(api, server, path, body)

        patch.setattr(UpstreamApi, "_post_to", noted)

    def choose(self, avoided: EndpointAddress | None) -> EndpointAddress:
        return next(each for each in self._known if each != avoided)


async def test_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Answer] = [{}, {}, 503, {}]
    async with scripted(lambda _: answers.pop(0)) as (script, one):
        port = port_of(one)
        servers = Servers(monkeypatch, 1, port)
        api = UpstreamApi(servers.choose, lambda: None, lambda: None, 1, 30.0, sleep=script.sleep)
        for _ in range(2):
            await api.post(PATH, OBJ)
        before, servers.asked = servers.asked, []
        await api.post(PATH, OBJ)
        await api.close()

    assert [1, port, port] == before
    assert [port, 1, port] == servers.asked


async def test_a_server_that_hangs_is_not_asked_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that gave no response in time is avoided, and is a problem meanwhile."""
    async with scripted(lambda _: {}) as (script, one):
        port = port_of(one)
        servers = Servers(monkeypatch, port, 1)
        api = UpstreamApi(servers.choose, lambda: None, lambda: None, 1, 0.3, sleep=script.sleep)
        script.may_answer.clear()
        error = await failure(api)
        assert api.problem == str(error) == f"{PATH}: no answer within 0.3 s"
        script.may_answer.set()
        servers.asked.clear()
        await api.post(PATH, OBJ)
        await api.close()

    assert [1, port] == servers.asked


async def test_another_server_than_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(lambda _: {}) as (hung, one), scripted(lambda _: {"a": 1}) as (_, other):
        ports = [port_of(one), port_of(other)]
        hung.may_answer.clear()
        servers = Servers(monkeypatch, *ports)
        api = UpstreamApi(servers.choose, lambda: None, lambda: None, 1, 1.0)
        answer = await api.post(PATH, OBJ)
        await api.close()
        hung.may_answer.set()

    assert ({"a": 1}, ports) == (answer, servers.asked)


async def test_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_api, "MAX_WAITING_PER_SLOT", 2)
    async with scripted(lambda _: {}, max_concurrent=2) as (script, api):
        script.may_answer.clear()
        tasks = [
            asyncio.create_task(api.post(PATH, OBJ, address))
            for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "", "")
        ]
        await script.is_asked.wait()
        assert (2, 4) == (api.line.under_way, api.line.waiting)
        error = await failure(api)
        assert len(script.asked) <= 2
        script.may_answer.set()
        answers = await asyncio.gather(*tasks)

    assert str(error) == f"{PATH}: too many questions are waiting already"
    assert ({"queue-full": 1, "time-out": 0}, None) == (api.unasked_total, api.problem)
    assert [{}] * 6 == answers


async def test_turn_that_does_not_come() -> None:
    async with scripted(lambda _: {}, timeout_s=0.05, max_concurrent=1) as (script, api):
        other = Place("192.0.2.1")
        await api.line.wait(other)  # one that takes longer than any question may
        error = await failure(api)
        api.line.leave(other)

    assert f"{PATH}: no answer within 0.05 s" == str(error)
    assert (0, 0, None) == (api.asked_total, api.failures_total, api.problem)
    assert {"queue-full": 0, "time-out": 1} == api.unasked_total
    assert [] == script.asked


async def test_own_token_is_no_field_value() -> None:
    async with scripted(lambda _: {}, token=lambda: b"a\r\nX-Remote-User: root") as (script, api):
        error = await failure(api)

    assert "the exchange went wrong" in str(error)
    assert "root" not in str(error)
    assert script.asked == []


async def test_tls(tmp_path: Path) -> None:
    """The upstream is verified by the context and name of the moment; a change takes effect."""
    authority = Authority("ca")
    server_ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue("upstream", usage="server", hosts=["kubernetes.test"])
    server_ssl.load_cert_chain(*issued.write(tmp_path, "server"))
    trusting, wary = (
        ssl.create_default_context(cadata=each.pem.decode())
        for each in (authority, Authority("stranger"))
    )
    current = iter([trusting, trusting, wary, trusting])
    async with scripted(
        lambda _: {},
        server_ssl=server_ssl,
        ssl_context=lambda: next(current),
        server_name="kubernetes.test",
    ) as (script, api):
        await api.post(PATH, OBJ)
        await api.post(PATH, OBJ)
        assert "the upstream's certificate is no good" in str(await failure(api))
        await api.post(PATH, OBJ)
        assert (3, 1) == (len(script.asked), len(script.connections))

        # A certificate for another name is none; the name may be told with the server's address.
        known = api._choose(None)  # noqa: SLF001 - where the script is
        assert known is not None
        nameless = UpstreamApi(lambda _: known, lambda: trusting, lambda: None, 1, 30.0)
        assert "the upstream's certificate is no good" in str(await failure(nameless))
        await nameless.close()
        server = replace(known, server_name="kubernetes.test")
        named = UpstreamApi(lambda _: server, lambda: trusting, lambda: None, 1, 30.0)
        await named.post(PATH, OBJ)
        await named.close()


async def test_close() -> None:
    async with scripted(lambda _: {}) as (script, api):
        script.may_answer.clear()
        task = asyncio.create_task(api.post(PATH, OBJ))
        await script.is_asked.wait()
        await api.close()
        await api.close()
        error = await failure(api)
        with pytest.raises(UpstreamApiError):
            await task

    assert str(error) == "the proxy is about to end"


async def test_errors_of_the_client_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that hold the head of the request become ours, without them as text or cause."""

    async def post(*_: object, **__: object) -> aiohttp.ClientResponse:
        raise aiohttp.ClientError(f"Authorization: Bearer {OWN_TOKEN.decode()}")

    async with scripted(lambda _: {}) as (_, api):
        monkeypatch.setattr(aiohttp.ClientSession, "_request", post)
        error = await failure(api)

    assert str(error) == f"{PATH}: the exchange went wrong: ClientError"
    assert (None, True) == (error.__cause__, error.__suppress_context__)


async def test_outages_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """An API that fails now and then has a line a minute of each kind, not two of each question."""
    caplog.set_level(logging.INFO, upstream_api.__name__)
    answers: tuple[Answer, ...] = (404, 403, {}, {}, 404, {}, 404, {})
    coming = iter(answers)
    async with scripted(lambda _: next(coming)) as (_, api):
        for answer in answers:
            await (api.post(PATH, OBJ) if answer == {} else failure(api))

    assert ["WARNING", "INFO"] == [each.levelname for each in caplog.records]
    assert (8, 4) == (api.asked_total, api.failures_total)


KEY = Mock(ssl=True, host="h", port=1)
BROKE = ("the connection broke", True)


def away(why: str) -> tuple[str, bool]:
    return f"cannot connect: {why}", True


def connector(error: OSError) -> Exception:
    return aiohttp.ClientConnectorError(KEY, error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            aiohttp.ClientConnectorCertificateError(KEY, ValueError("expired")),
            ("the API's certificate is no good: expired", False),
        ),
        (connector(OSError(errno.ECONNREFUSED, "refused")), away("Connection refused")),
        (connector(socket.gaierror(-2, "Name not known")), away("Name not known")),
        (connector(ConnectionResetError()), away("the other side closed the connection")),
        (connector(ConnectionAbortedError("it is slow")), away("it is slow")),
        (aiohttp.ServerDisconnectedError(), BROKE),
        (aiohttp.ClientPayloadError("x"), BROKE),
        (ConnectionResetError(), BROKE),
        (ValueError("Bearer secret"), ("the exchange went wrong: ValueError", False)),
    ],
)
def test_explained(error: Exception, expected: tuple[str, bool]) -> None:
    assert expected == explained(error, "the API")


async def test_no_tls_there() -> None:
    """TLS spoken to a server without it is told from a connection that is not permitted."""
    async with TestServer(web.Application()) as server, new_session() as session:
        url = str(server.make_url("/").with_scheme("https"))
        with pytest.raises(aiohttp.ClientConnectorSSLError) as caught:
            await session.get(url)

    assert explained(caught.value, "the API")[0].startswith("cannot connect: [SSL: ")
