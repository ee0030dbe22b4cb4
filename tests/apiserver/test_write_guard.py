"""Who may write."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from apfproxy.apiserver.write_guard import WriteGuard

TOKEN = b"0123456789abcdef"
LOCAL = {"Host": "127.0.0.1:8081"}


async def passed(_request: web.Request) -> web.Response:
    """Answer what may pass."""
    return web.Response(status=201)


async def status(
    guard: WriteGuard, headers: dict[str, str] | None = None, method: str = "POST"
) -> int:
    """The status of a request's answer."""
    request = make_mocked_request(method, "/apis/x", headers={**LOCAL, **(headers or {})})
    return (await guard.handle(request)).status


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_everybody_reads(method: str) -> None:
    """Reading takes neither a token nor this machine."""
    guard = WriteGuard(passed, lambda: False)

    assert 201 == await status(guard, {"Host": "evil", "Origin": "http://evil"}, method)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "POSE"])
async def test_writing_from_elsewhere(method: str) -> None:
    """Without a token nobody writes over a listener that others can reach."""
    assert 403 == await status(WriteGuard(passed, lambda: False), method=method)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 201),
        ({"Host": "localhost:1"}, 201),
        ({"Host": "[::1]:8081"}, 201),
        ({"Host": "evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8081"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({"Authorization": "Bearer whatever"}, 201),
    ],
)
async def test_writing_from_this_machine(headers: dict[str, str], expected: int) -> None:
    """On loopback whoever is no browser writes."""
    assert expected == await status(WriteGuard(passed, lambda: True), headers)


async def test_any_host() -> None:
    """Behind a proxy the host is whatever the client called it; pages are refused all the same."""
    guard = WriteGuard(passed, lambda: True, checks_host=False)

    assert 201 == await status(guard, {"Host": "api.example"})
    assert 403 == await status(guard, {"Host": "api.example", "Origin": "http://api.example"})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"Authorization": "Bearer 0123456789abcdef"}, 201),
        ({"Authorization": "bearer 0123456789abcdef"}, 201),
        ({"Authorization": "Bearer 0123456789abcdeg"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer \xff"}, 401),
        ({"Authorization": "Basic 0123456789abcdef"}, 401),
        ({"Authorization": "Bearer 0123456789abcdef", "Origin": "http://evil"}, 201),
    ],
)
async def test_token(headers: dict[str, str], expected: int) -> None:
    """With a token all that counts is who shows it, from wherever."""
    assert expected == await status(WriteGuard(passed, lambda: False, lambda: TOKEN), headers)


async def test_two_tokens() -> None:
    """Who shows two tokens shows none."""
    guard = WriteGuard(passed, lambda: False, lambda: TOKEN)
    shown = CIMultiDict([("Authorization", "Bearer 0123456789abcdef")] * 2)
    request = make_mocked_request("POST", "/", headers=shown)

    assert 401 == (await guard.handle(request)).status


async def test_no_token_to_compare(caplog: pytest.LogCaptureFixture) -> None:
    """Without a token that can be read nobody writes; the log has why, once, and clients do not."""
    problems = ["gone", "gone", "", "gone", "empty"]

    def broken() -> bytes:
        if problem := problems.pop(0):
            raise ValueError(f"the token file is {problem}")
        return TOKEN

    guard = WriteGuard(passed, lambda: True, broken)
    answers = []
    for _ in range(5):
        response = await guard.handle(make_mocked_request("POST", "/"))
        assert isinstance(response, web.Response)
        assert "token file" not in (response.text or "")
        answers.append(response.status)

    assert [500, 500, 401, 500, 500] == answers
    assert [
        f"nobody may write: the token file is {problem}" for problem in ("gone", "gone", "empty")
    ] == caplog.messages


async def test_two_sites() -> None:
    """Who says two things about where a request comes from is a page if one of them says so."""
    sites = [("Host", "localhost"), ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")]
    request = make_mocked_request("POST", "/", headers=CIMultiDict(sites))

    assert 403 == (await WriteGuard(passed, lambda: True).handle(request)).status
