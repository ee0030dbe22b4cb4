"""Answers of pages."""

from __future__ import annotations

import gzip

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apfproxy.observe.responses import MIN_COMPRESSED_BYTES, header, page_response, plain_errors

ACCEPTING = {"Accept-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("size", "headers", "encoding"),
    [
        (MIN_COMPRESSED_BYTES, ACCEPTING, "gzip"),
        (MIN_COMPRESSED_BYTES - 1, ACCEPTING, None),
        (MIN_COMPRESSED_BYTES, {}, None),
    ],
)
async def test_compression(size: int, headers: dict[str, str], encoding: str | None) -> None:
    """Long answers are compressed for those that take it so."""
    request = make_mocked_request("GET", "/", headers=headers)
    response = await page_response(request, b"x" * size, "text/plain")

    assert encoding == response.headers.get("Content-Encoding")
    assert isinstance(response.body, bytes)
    assert b"x" * size == (gzip.decompress(response.body) if encoding else response.body)


async def test_unknown_page() -> None:
    """An unknown page points to the index; no page is kept or guessed at."""

    async def nothing(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    response = await plain_errors(make_mocked_request("GET", "/x"), nothing)

    assert 404 == response.status
    assert "nosniff" == response.headers["X-Content-Type-Options"]
    assert "no-cache, private" == response.headers["Cache-Control"]


def test_header() -> None:
    """A header that is not there is an empty list."""
    assert "" == header(make_mocked_request("GET", "/"), "Accept")
