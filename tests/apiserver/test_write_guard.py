"""Who may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from apfproxy.apiserver.write_guard import WriteGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKEN = b"0123456789abcdef"
BEARER = ("Authorization", "Bearer 0123456789abcdef")
NONE = ("Sec-Fetch-Site", "none")


async def passed(_request: web.Request) -> web.Response:
    """Answer what may pass."""
    return web.Response(status=201)


async def status(guard: WriteGuard, *headers: tuple[str, str], method: str = "POST") -> int:
    """The status of a request's response."""
    sent = CIMultiDict(headers)
    sent.setdefault("Host", "127.0.0.1:8081")
    return (await guard.handle(make_mocked_request(method, "/apis/x", headers=sent))).status


@pytest.mark.parametrize(
    ("method", "expected"),
    [(method, 201) for method in ("GET", "HEAD", "OPTIONS")]
    + [(method, 403) for method in ("POST", "PUT", "PATCH", "DELETE", "POSE")],
)
async def test_from_other_machines(method: str, expected: int) -> None:
    """Reading takes nothing; without a token nobody else writes."""
    guard = WriteGuard(passed, lambda: False)

    assert expected == await status(guard, ("Host", "evil"), ("Origin", "null"), method=method)


@pytest.mark.parametrize(
    ("headers", "expected", "behind_a_proxy"),
    [
        ([], 201, 201),
        ([("Host", "localhost:1")], 201, 201),
        ([("Host", "[::1]:8081")], 201, 201),
        ([("Host", "evil.example")], 403, 201),
        ([("Host", "")], 403, 201),
        ([("Origin", "http://127.0.0.1:8081")], 403, 403),
        ([("Origin", "null")], 403, 403),
        ([("Sec-Fetch-Site", "same-site")], 403, 403),
        ([NONE, ("Sec-Fetch-Site", "cross-site")], 403, 403),
        ([NONE], 201, 201),
        ([("Authorization", "Bearer whatever")], 201, 201),
    ],
)
async def test_from_this_machine(
    headers: Sequence[tuple[str, str]], expected: int, behind_a_proxy: int
) -> None:
    """On loopback every client writes that is no browser; a proxy has a host name of its own."""
    assert expected == await status(WriteGuard(passed, lambda: True), *headers)
    guard = WriteGuard(passed, lambda: True, checks_host=False)
    assert behind_a_proxy == await status(guard, *headers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], 401),
        ([BEARER], 201),
        ([("Authorization", "bearer  0123456789abcdef")], 201),
        ([("Authorization", "Bearer 0123456789abcdeg")], 401),
        ([("Authorization", "Bearer")], 401),
        ([("Authorization", "Bearer \xff")], 401),
        ([("Authorization", "Basic 0123456789abcdef")], 401),
        ([BEARER, ("Origin", "http://evil")], 201),
        ([BEARER, BEARER], 401),
    ],
)
async def test_token(headers: Sequence[tuple[str, str]], expected: int) -> None:
    """With a token all that counts is who shows it, once, from wherever."""
    assert expected == await status(WriteGuard(passed, lambda: False, lambda: TOKEN), *headers)


async def test_no_token_to_compare(caplog: pytest.LogCaptureFixture) -> None:
    """Without a token that can be read nobody writes; the log has why, once, and clients do not."""
    problems = ["gone", "gone", "", "gone", "empty"]

    def broken() -> bytes:
        if problem := problems.pop(0):
            raise ValueError(f"the token file is {problem}")
        return TOKEN

    guard = WriteGuard(passed, lambda: True, broken)
    found = [await guard.handle(make_mocked_request("POST", "/")) for _ in range(5)]

    assert [500, 500, 401, 500, 500] == [response.status for response in found]
    assert not any("token file" in (getattr(response, "text", "") or "") for response in found)
    assert ["gone", "gone", "empty"] == [text.rpartition(" ")[2] for text in caplog.messages]
