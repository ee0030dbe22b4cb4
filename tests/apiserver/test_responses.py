"""Tests of `apfproxy.apiserver.responses`, beside the recorded requests."""

from __future__ import annotations

import json
import threading
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from apfproxy.apiserver.responses import (
    AS_JSON,
    COMPRESSED_BYTES,
    CUT_WARNING,
    GZIP_WINDOW,
    LONGEST_REMEMBERED,
    LONGEST_WARNINGS,
    WARNINGS,
    YAML,
    Form,
    Shape,
    _known_choices,
    as_yaml,
    choices,
    document,
    headers_for,
    indented,
    indented_list,
    stream,
    yaml_list,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    Client = TestClient[web.Request, web.Application]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*,a/b;q=0.1", ["a/b", "*/*"]),
        ("*, a, a/b/c, c/", ["*/*"]),
        ("a/b;q;x=1=2;y=", ["a/b"]),
        (",".join(["*/*", *["a/b"] * 12]), ["a/b"] * 12 + ["*/*"]),
    ],
    ids=["exact-before-any", "no-media-types", "odd-parameters", "many"],
)
def test_choices(accept: str, expected: list[str]) -> None:
    assert expected == [f"{choice.type}/{choice.subtype}" for choice in choices(accept)]


def test_long_choices_are_not_remembered() -> None:
    """They would take megabytes for each of the clients that are remembered."""
    before = _known_choices.cache_info().currsize
    for number in range(9):
        assert 2 == len(choices(f"text/x{number},{' ' * LONGEST_REMEMBERED},a/b"))
    assert before == _known_choices.cache_info().currsize


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(["a", "b", "a"], ['299 - "a"', '299 - "b"'], id="said-once"),
        pytest.param(["a\r\nX: y", "\x00", "\x7f", "\x85", "b"], ['299 - "b"'], id="control"),
        pytest.param(
            ['a "b" \\', "\ud800"], ['299 - "a \\"b\\" \\\\"', '299 - "\ufffd"'], id="quoted"
        ),
        pytest.param(
            [chr(0x100 + index) * CUT_WARNING * 4 for index in range(40)],
            [
                f'299 - "{chr(0x100 + index) * CUT_WARNING}"'
                for index in range(LONGEST_WARNINGS // CUT_WARNING)
            ],
            id="cut",
        ),
    ],
)
def test_warnings(texts: list[str], expected: list[str]) -> None:
    WARNINGS.set(texts)
    assert expected == [value for name, value in headers_for(AS_JSON) if name == "Warning"]


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
        (AS_JSON, "curl/8", None, b'{\n  "a": 1\n}\n'),
        (AS_JSON, "curl/8", False, b'{"a":1}\n'),
        (AS_JSON, "kubectl", True, b'{\n  "a": 1\n}\n'),
        (Form(YAML), "curl/8", True, b"a: 1\n"),
    ],
)
async def test_layout(form: Form, agent: str, pretty: bool | None, expected: bytes) -> None:
    request = make_mocked_request("GET", "/", headers={"User-Agent": agent})
    response = await document(request, form, b'{"a":1}', pretty=pretty)
    large = await document(request, form, b'{"a":"%b"}' % (b"1" * COMPRESSED_BYTES), pretty=pretty)
    assert expected == response.body
    assert form.media_type == response.headers["Content-Type"]
    assert isinstance(large.body, bytes)
    assert expected[: expected.index(b"1")] == large.body[: expected.index(b"1")]


@asynccontextmanager
async def streaming(chunks: list[bytes | Exception]) -> AsyncIterator[Client]:
    def produced() -> Iterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def handle(request: web.Request) -> web.StreamResponse:
        WARNINGS.set(["careful"])
        return await stream(request, Form(YAML) if request.path == "/yaml" else AS_JSON, produced())

    app = web.Application()
    app.router.add_get("/{path}", handle)
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize("path", ["/json", "/yaml"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_streams(path: str, encoding: str) -> None:
    async with streaming([b"[1", b",2]"]) as client:
        answer = await client.get(path, headers={"Accept-Encoding": encoding})
        found = json.loads(await answer.read())
    assert [1, 2] == found
    assert (encoding == "gzip") == ("Content-Encoding" in answer.headers)
    assert '299 - "careful"' == answer.headers["Warning"]


@pytest.mark.parametrize(
    ("form", "is_here"), [(AS_JSON, True), (Form(YAML), False), (Form(shape=Shape.TABLE), False)]
)
async def test_what_is_decoded_is_written_in_a_thread(form: Form, *, is_here: bool) -> None:
    threads = []

    def chunks() -> Iterator[bytes]:
        threads.append(threading.current_thread())
        yield b"[]"

    async def handle(request: web.Request) -> web.StreamResponse:
        return await stream(request, form, chunks())

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestClient(TestServer(app)) as client:
        await (await client.get("/")).read()
    assert [is_here] == [each is threading.current_thread() for each in threads]


async def test_streams_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    async with streaming([b"[1", ZeroDivisionError("secret")]) as client:
        answer = await client.get("/json")
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
    assert "failed in the middle of the answer" in caplog.text


async def test_clients_that_leave(caplog: pytest.LogCaptureFixture) -> None:
    async with streaming([b"[1", ConnectionResetError("gone")]) as client:
        answer = await client.get("/json")
    assert 200 == answer.status
    assert [] == [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        pytest.param([], b'"items":[', id="empty"),
        pytest.param([b'{"b":{},"a":1}'], b'"items":[', id="one-part"),
        pytest.param([b'{"a":[1]},{"a":[]}', b',{"a":"]}"}'], b'"items":[', id="two-parts"),
        pytest.param(
            [b'{"cells":[1]}'], b'"columnDefinitions":[{"name":"x"}],"rows":[', id="table"
        ),
    ],
)
def test_lists_in_parts(parts: list[bytes], name: bytes) -> None:
    head = b'{"kind":"L","apiVersion":"v1","metadata":{"resourceVersion":"1"},'
    chunks = [head + name, *parts, b"]}"]
    whole = b"".join(chunks)
    assert indented(whole) == b"".join(indented_list(iter(chunks)))
    assert as_yaml(whole) == b"".join(yaml_list(iter(chunks)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"), ("", '""'), ("7", '"7"'), ("08", '"08"'), ("1e+3", '"1e+3"'),
        ("true", '"true"'), ("y", '"y"'),
        ("2020-01-01T00:00:00Z", '"2020-01-01T00:00:00Z"'),
        ("*", "'*'"), ("a: b", "'a: b'"), ("a\nb\n", "|\n  a\n  b"),
    ],
)  # fmt: skip
def test_text_in_yaml(text: str, expected: str) -> None:
    """Text is quoted as Kubernetes does it: with two marks where it would be something else."""
    assert f"text: {expected}\n" == as_yaml(json.dumps({"text": text}).encode()).decode()
