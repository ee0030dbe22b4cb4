"""Answers on the wire: their form, headers and compression.

Source: Kubernetes documentation, "API Concepts"; apiserver's `endpoints/handlers/responsewriters`.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
import zlib
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.negotiation import AS_JSON, Form, chosen
from apfproxy.apiserver.rendering import as_yaml, encode, indented
from apfproxy.objects.names import well_formed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

log = logging.getLogger(__name__)

UNCACHED = "no-cache, private"
"""`Cache-Control` of answers that only the client that asked may see."""
COMPRESSED_BYTES = 128 * 1024
"""Answers of this size and more are compressed for clients that accept it, as in Kubernetes."""
GZIP_LEVEL = 1
GZIP_WINDOW = 31
"""Tells zlib to use gzip's framing."""
STREAMED_ITEMS = 256
"""Lists of so many items and more are written in parts, to keep memory bounded."""
STREAMED_BYTES = 4 * 1024 * 1024
"""So are lists of so many bytes: many clients may read slowly, each its own list."""
TOOLS = ("curl", "Wget", "Mozilla/5.0")
"""Clients whose answers people read: they get indented JSON."""
LONGEST_WARNINGS = 4096
"""Characters of all warnings of an answer together; Kubernetes' limit."""
CUT_WARNING = 256
"""Characters of each warning if all together exceed the limit."""
WARNINGS: ContextVar[list[str] | None] = ContextVar("warnings", default=None)
"""Warnings for the client of the request, sent with its answer, success or failure."""


def wants_indented(request: web.Request, pretty: bool | None) -> bool:
    """Whether JSON is written for people: by the parameter, else by the client's name."""
    if pretty is not None:
        return pretty
    return request.headers.get("User-Agent", "").startswith(TOOLS)


def warn(texts: Iterable[str]) -> None:
    """Add warnings to the answer, success or failure."""
    warnings = WARNINGS.get()
    assert warnings is not None, "each request begins with a list of its own"
    warnings.extend(texts)


def headers_for(form: Form) -> list[tuple[str, str]]:
    """The header fields of every answer, and the warnings."""
    headers = [("Content-Type", form.media_type), ("Cache-Control", UNCACHED)]
    texts = dict.fromkeys(WARNINGS.get() or ())
    warnings = [text for text in texts if not has_control(text)]
    if sum(map(len, warnings)) > LONGEST_WARNINGS:
        warnings = [warning[:CUT_WARNING] for warning in warnings]
    length = 0
    for warning in warnings:
        if length >= LONGEST_WARNINGS:
            break
        length += len(warning)
        headers.append(("Warning", f"299 - {quoted(warning)}"))
    return headers


def quoted(text: str) -> str:
    """The text as an HTTP quoted string."""
    escaped = well_formed(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def has_control(text: str) -> bool:
    """Whether the text has a control character, which no header field may hold."""
    return any(unicodedata.category(character) == "Cc" for character in text)


def takes_gzip(request: web.Request) -> bool:
    """Whether the client accepts gzip, judged as Kubernetes does."""
    return "gzip" in request.headers.get("Accept-Encoding", "")


async def document(
    request: web.Request, form: Form, body: bytes, *, status: int = 200, pretty: bool | None = None
) -> web.Response:
    """An answer of one document, given as JSON; `pretty` is the parameter, None if absent."""
    if form.is_yaml:
        body = await in_thread_if_large(as_yaml, body)
    elif wants_indented(request, pretty):
        body = await in_thread_if_large(indented, body)
    else:
        body += b"\n"
    headers = headers_for(form)
    if len(body) >= COMPRESSED_BYTES and request.method == "GET" and takes_gzip(request):
        body = await asyncio.to_thread(zlib.compress, body, GZIP_LEVEL, GZIP_WINDOW)
        headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    return web.Response(body=body, status=status, headers=headers)


async def in_thread_if_large(change: Callable[[bytes], bytes], body: bytes) -> bytes:
    """Apply a change to a body, in a thread if the body is large."""
    if len(body) < COMPRESSED_BYTES:
        return change(body)
    return await asyncio.to_thread(change, body)


async def stream(request: web.Request, form: Form, chunks: Iterator[bytes]) -> web.StreamResponse:
    """Write an answer while it is made; YAML in a thread, since it takes long."""
    headers = headers_for(form)
    compressor = None
    if takes_gzip(request):
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)
        headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]

    async def write(response: web.StreamResponse) -> None:
        while True:
            chunk = (
                await asyncio.to_thread(next, chunks, None) if form.is_yaml else next(chunks, None)
            )
            if chunk is None:
                break
            data = compressor.compress(chunk) if compressor else chunk
            if data:
                await response.write(data)
            # Writing to a fast client never waits, so let other tasks run.
            await asyncio.sleep(0)
        if compressor:
            await response.write(compressor.flush())

    return await respond_in_parts(request, headers, write)


async def respond_in_parts(
    request: web.Request,
    headers: list[tuple[str, str]],
    write: Callable[[web.StreamResponse], Awaitable[None]],
) -> web.StreamResponse:
    """Send the status before the whole answer is known.

    If `write` fails the connection is cut: an answer that ends in order would seem to be complete.
    """
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    try:
        await write(response)
        await response.write_eof()
    except ConnectionError:
        log.debug("%s %s: the client left", request.method, request.path)
    except Exception:
        log.exception("%s %s: failed in the middle of the answer", request.method, request.path)
        if request.transport is not None:
            request.transport.abort()
    return response


async def failure(request: web.Request, error: StatusError) -> web.Response:
    """The answer for a failure."""
    try:
        form = chosen(request.headers.get("Accept", ""))
    except StatusError:
        form = AS_JSON
    response = await document(request, form, encode(error.status()), status=error.code)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.code == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="apfproxy"'
    return response
