"""Answers of the pages for operators: their headers and compression."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.negotiation import accepts_gzip
from apfproxy.admin.slices import GZIP_LEVEL, SAFETY, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.typedefs import Handler

MIN_COMPRESSED_BYTES = 1024
"""Compressing less than about one packet saves no time."""


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Name the index in answers for unknown paths, and set the safety headers."""
    try:
        response = await handler(request)
    except web.HTTPNotFound:
        response = web.Response(text="404 page not found; / lists what there is\n", status=404)
    if not response.prepared:
        for name, value in SAFETY.items():
            response.headers.setdefault(name, value)
    return response


def header(request: web.Request, name: str) -> str:
    """All values of a header as one list; empty without any."""
    return ",".join(request.headers.getall(name, []))


async def page_response(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """An answer, compressed in a thread if it is long and the client accepts it."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if len(body) >= MIN_COMPRESSED_BYTES and accepts_gzip(header(request, "Accept-Encoding")):
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


async def sliced_response(
    request: web.Request, slices: Iterable[bytes], content_type: str
) -> web.StreamResponse:
    """An answer that is written slice by slice; other tasks run in between.

    If making a slice fails the connection is cut: an answer that ends in order would seem whole.
    """
    headers = {"Content-Type": content_type, "Vary": "Accept-Encoding", **SAFETY}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    is_gzip = accepts_gzip(header(request, "Accept-Encoding"))
    if is_gzip:
        headers["Content-Encoding"] = "gzip"
    response = web.StreamResponse(headers=headers)
    with contextlib.suppress(ConnectionError):  # the client is gone, as aiohttp will see
        await response.prepare(request)
        async for data in encoded(slices, is_gzip=is_gzip):
            await response.write(data)
        await response.write_eof()
    return response
