"""Tests of `apfproxy.apiserver.answers`."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from apfproxy.apiserver.answers import (
    COMPRESSED_BYTES,
    CUT_WARNING,
    GZIP_WINDOW,
    LONGEST_WARNINGS,
    WARNINGS,
    document,
    failure,
    headers_for,
    quoted,
    stream,
    warn,
)
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.negotiation import AS_JSON, YAML, Form

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", '"plain"', id="plain"),
        pytest.param('a "b" \\', '"a \\"b\\" \\\\"', id="quotes"),
        pytest.param("é\U0001f600", '"é\U0001f600"', id="beyond-ascii"),
        pytest.param("\ud800", '"\ufffd"', id="no-character"),
    ],
)
def test_quoted(text: str, expected: str) -> None:
    """Quotes and backslashes are escaped, the rest is as it is."""
    assert expected == quoted(text)


def warned(*texts: str) -> list[str]:
    """The fields that come of some warnings."""
    WARNINGS.set([])
    for text in texts:
        warn([text])
    return [value for name, value in headers_for(AS_JSON) if name == "Warning"]


def test_warnings_are_said_once() -> None:
    """A client hears of a thing once, however often it is found."""
    assert ['299 - "a"', '299 - "b"'] == warned("a", "b", "a")


@pytest.mark.parametrize("text", ["a\r\nX: y", "\x00", "\x7f", "\x85"])
def test_warnings_with_control_characters_are_not_said(text: str) -> None:
    """No text of a client's becomes a field of its own."""
    assert ['299 - "b"'] == warned(text, "b")


def test_many_warnings_are_cut() -> None:
    """Of more than fit each is cut, and the last are left out."""
    long = [f"{index:03}" + "x" * CUT_WARNING * 4 for index in range(40)]

    found = warned(*long)

    assert LONGEST_WARNINGS // CUT_WARNING == len(found)
    assert f'299 - "{long[0][:CUT_WARNING]}"' == found[0]


@pytest.mark.parametrize(
    ("method", "size", "encodings", "is_packed"),
    [
        pytest.param("GET", COMPRESSED_BYTES, "gzip, br", True, id="large"),
        pytest.param("GET", COMPRESSED_BYTES - 10, "gzip", False, id="small"),
        pytest.param("GET", COMPRESSED_BYTES, "br", False, id="not-taken"),
        pytest.param("POST", COMPRESSED_BYTES, "gzip", False, id="no-read"),
    ],
)
async def test_compression(method: str, size: int, encodings: str, is_packed: bool) -> None:
    """What is large and read is packed for clients that take it."""
    request = make_mocked_request(method, "/", headers={"Accept-Encoding": encodings})
    body = b'"%b"' % (b"x" * size)
    response = await document(request, AS_JSON, body)

    assert isinstance(response.body, bytes)
    assert is_packed == (response.headers.get("Content-Encoding") == "gzip")
    data = zlib.decompress(response.body, GZIP_WINDOW) if is_packed else response.body
    assert body + b"\n" == data


@pytest.mark.parametrize(
    ("form", "agent", "pretty", "expected"),
    [
        (AS_JSON, "", None, b'{"a":1}\n'),
        (AS_JSON, "curl/8", None, b'{\n  "a": 1\n}\n'),
        (AS_JSON, "curl/8", False, b'{"a":1}\n'),
        (AS_JSON, "kubectl", True, b'{\n  "a": 1\n}\n'),
        (Form(YAML), "curl/8", True, b"a: 1\n"),
    ],
)
async def test_layout(form: Form, agent: str, pretty: bool | None, expected: bytes) -> None:
    """The parameter says how, or else the client's name."""
    request = make_mocked_request("GET", "/", headers={"User-Agent": agent})
    response = await document(request, form, b'{"a":1}', pretty=pretty)

    assert expected == response.body
    assert form.media_type == response.headers["Content-Type"]


async def test_large_documents_for_people() -> None:
    """They are laid out as small ones are."""
    request = make_mocked_request("GET", "/", headers={"User-Agent": "curl/8"})
    response = await document(request, AS_JSON, b'{"a":"%b"}' % (b"x" * COMPRESSED_BYTES))

    assert isinstance(response.body, bytes)
    assert response.body.startswith(b'{\n  "a": "xxx')


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/json"),
        ("application/yaml", "application/yaml"),
        ("text/html", "application/json"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "application/json"),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io,application/yaml", "application/yaml"),
    ],
)
async def test_failures(accept: str, media_type: str) -> None:
    """A failure is a Status in a form that the client takes, or else JSON."""
    request = make_mocked_request("GET", "/", headers={"Accept": accept})
    response = await failure(request, StatusError(429, "TooManyRequests", "wait", None, 7))

    assert (429, media_type) == (response.status, response.headers["Content-Type"])
    assert "7" == response.headers["Retry-After"]


@pytest.fixture
def chunks() -> list[bytes | Exception]:
    """What is streamed."""
    return [b"[1", b",2]"]


async def client(chunks: list[bytes | Exception]) -> TestClient[web.Request, web.Application]:
    """A client of a server that streams."""

    def produced() -> Iterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def handle(request: web.Request) -> web.StreamResponse:
        form = Form(YAML) if request.path == "/yaml" else AS_JSON
        WARNINGS.set(["careful"])
        return await stream(request, form, produced())

    app = web.Application()
    app.router.add_get("/{path}", handle)
    made = TestClient(TestServer(app))
    await made.start_server()
    return made


@pytest.mark.parametrize("path", ["/json", "/yaml"])
async def test_streams(chunks: list[bytes | Exception], path: str) -> None:
    """Parts come as they are, packed for who takes it."""
    taker = await client(chunks)
    for encoding in ("identity", "gzip"):
        answer = await taker.get(path, headers={"Accept-Encoding": encoding})
        assert [1, 2] == json.loads(await answer.read())
        assert (encoding == "gzip") == ("Content-Encoding" in answer.headers)
        assert '299 - "careful"' == answer.headers["Warning"]
    await taker.close()


async def test_streams_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    """An answer that is not complete does not seem to be: its connection is cut."""
    taker = await client([b"[1", ZeroDivisionError("secret")])
    answer = await taker.get("/json")
    with pytest.raises(aiohttp.ClientError):
        await answer.read()
    await taker.close()

    assert 200 == answer.status
    assert "failed in the middle of the answer" in caplog.text


async def test_clients_that_leave(caplog: pytest.LogCaptureFixture) -> None:
    """One that is gone is no fault of the server's."""
    taker = await client([b"[1", ConnectionResetError("gone")])
    answer = await taker.get("/json")

    assert 200 == answer.status
    assert [] == [record for record in caplog.records if record.levelname == "ERROR"]
    await taker.close()
