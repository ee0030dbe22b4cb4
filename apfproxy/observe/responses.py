"""Answers of the pages for operators: their headers and compression."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import zlib
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from aiohttp import web

from apfproxy.observe.negotiation import accepts_gzip

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MIN_COMPRESSED_BYTES = 1024
"""Below about one packet compressing saves no time."""

GZIP_LEVEL = 1
"""Metrics shrink to a tenth even at the fastest level; the best one takes four times as long."""

GZIP_WINDOW = 31
"""zlib's way to ask for gzip's framing."""

SAFETY = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""What keeps pages out of caches and sniffers."""

_slicing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Held while a slice is made, and for a turn of the loop after it."""


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Point from an unknown path to the index, and keep pages out of caches and sniffers."""
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
    """An answer, compressed in a thread if it is long and the client takes it so."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if len(body) >= MIN_COMPRESSED_BYTES and accepts_gzip(header(request, "Accept-Encoding")):
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


async def sliced_response(
    request: web.Request, slices: Iterable[bytes], content_type: str
) -> web.StreamResponse:
    """An answer that is written slice by slice, with the event loop's other work in between.

    Of all such answers one slice is made in a turn of the loop, so that many of them at once hold
    up other work no longer than one does.  If making a slice fails the connection is cut: an answer
    that ends in order would seem whole.
    """
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding", **SAFETY}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    compressor = None
    if accepts_gzip(header(request, "Accept-Encoding")):
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)
        headers["Content-Encoding"] = "gzip"
    response = web.StreamResponse(headers=headers)
    iterator = iter(slices)
    with contextlib.suppress(ConnectionError):  # the client is gone, as aiohttp will see
        await response.prepare(request)
        while (each := await _next_slice(iterator)) is not None:
            data = compressor.compress(each) if compressor else each
            if data:
                await response.write(data)
        if compressor:
            await response.write(compressor.flush())
        await response.write_eof()
    return response


async def _next_slice(slices: Iterator[bytes]) -> bytes | None:
    """The next slice, made when it is the answer's turn; None after the last one."""
    loop = asyncio.get_running_loop()
    lock = _slicing.get(loop)
    if lock is None:
        lock = _slicing[loop] = asyncio.Lock()
    async with lock:
        each = next(slices, None)
        await asyncio.sleep(0)
    return each
