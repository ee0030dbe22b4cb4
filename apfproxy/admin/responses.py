"""Responses of the pages for operators: what a client accepts, compression, files, names.

A web page may let its own host name resolve to 127.0.0.1 once it is loaded ("DNS rebinding"), so
that a browser on this machine lets it read the listener.  Such requests have that name as their
`Host`.  So over loopback `Host` has to be an address, or a name that cannot be public: localhost,
one without a dot, or that of this machine.  `WriteGuard` protects writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import ipaddress
import socket
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from aiohttp import web

from apfproxy.base.address import LOCALHOST, is_loopback, name_in_host
from apfproxy.http.grammar import accepted, weight_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.typedefs import Handler

SAFETY = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""Keeps pages out of caches, and their types from being guessed."""
READING = frozenset({"GET", "HEAD"})
FOREIGN_NAME = (
    "over loopback this listener accepts as Host an IP address, localhost or the name of its"
    " machine, not {host!r}, which a web page could use; a proxy before the listener must set"
    " Host\n"
)

MIN_COMPRESSED_BYTES = 1024
GZIP_LEVEL = 1
"""Metrics shrink to a tenth even at the fastest level; the best one takes four times as long."""
GZIP_WINDOW = 31
"""zlib's way to ask for gzip's framing."""

PAGE = Path(__file__).with_name("page")
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Files of other types, such as licences, are not served."""
FILE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The pages insert everything about users, FlowSchemas and errors as text, never as markup, and
their policy allows only these files to be loaded or run."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Held for a turn of the loop."""


@web.middleware
async def own_names_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse reads over loopback with a name that a web page may have."""
    own = request.get_extra_info("sockname")
    if request.method in READING and isinstance(own, tuple) and is_loopback(own[0]):
        host = header(request, "Host")
        if not is_own_name(host, socket.gethostname()):
            return web.Response(text=FOREIGN_NAME.format(host=host), status=403)
    return await handler(request)


def is_own_name(host: str, machine: str) -> bool:
    """Whether a Host, with or without a port, is no name of a web page; "" is of old programs."""
    name = name_in_host(host).removesuffix(".")
    if "." not in name or name == machine.lower() or name.endswith(f".{LOCALHOST}"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def header(request: web.Request, name: str) -> str:
    return ",".join(request.headers.getall(name, []))


def qualities(value: str) -> dict[str, float]:
    """Each choice of an Accept or Accept-Encoding header, in lower case, with its weight."""
    return {
        name: weight_of(dict(parameters).get("q", "1"))
        for name, parameters in accepted(value.lower())
        if name
    }


def wants_json(accept: str) -> bool:
    """Whether JSON is named, and no less welcome than plain text; wildcards mean text."""
    weights = qualities(accept)
    weight = weights.get("application/json", 0.0)
    return weight > 0 and weight >= weights.get("text/plain", 0.0)


def wants_page(accept: str) -> bool:
    return qualities(accept).get("text/html", 0.0) > 0


def accepts_gzip(accept_encoding: str) -> bool:
    weights = qualities(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


async def page_response(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """A response, compressed in a thread if it is long and the client accepts it."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if len(body) >= MIN_COMPRESSED_BYTES and accepts_gzip(header(request, "Accept-Encoding")):
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


async def sliced_response(
    request: web.Request, slices: Iterable[bytes], content_type: str
) -> web.StreamResponse:
    """A response that is written slice by slice; other tasks run in between.

    If making a slice fails the connection is cut: a response that ends in order would seem whole.
    """
    headers = {"Content-Type": content_type, "Vary": "Accept-Encoding"}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    compressor = None
    if accepts_gzip(header(request, "Accept-Encoding")):
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)
        headers["Content-Encoding"] = "gzip"
    response = web.StreamResponse(headers=headers)
    with contextlib.suppress(ConnectionError):  # the client is gone, as aiohttp will see
        await response.prepare(request)
        await turn()
        for each in slices:
            if data := compressor.compress(each) if compressor else each:
                await response.write(data)
            await turn()
        if compressor:
            await response.write(compressor.flush())
        await response.write_eof()
    return response


async def turn() -> None:
    """Wait until it is one's turn to make a page or a slice: one in a turn of the loop."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)


async def page_file(request: web.Request, path: str = "") -> web.Response:
    """A file of the live page or of the overview, which stand beside this module."""
    found = page_files().get(path or request.match_info["path"])
    if found is None:
        raise web.HTTPNotFound
    body, content_type, tag = found
    headers = {**FILE_HEADERS, "ETag": f'"{tag}"'}
    if any(each.value in {tag, "*"} for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = await page_response(request, body, content_type)
    response.headers.update(headers)
    return response


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    files = {}
    for path in sorted(PAGE.rglob("*")):
        content_type = CONTENT_TYPES.get(path.suffix)
        if content_type is not None:
            body = path.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            files[path.relative_to(PAGE).as_posix()] = body, content_type, tag
    return files
