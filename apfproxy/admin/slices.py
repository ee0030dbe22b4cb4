"""Long pages, made slice by slice with the event loop's other work in between."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

GZIP_LEVEL = 1
"""Metrics shrink to a tenth even at the fastest level; the best one takes four times as long."""

GZIP_WINDOW = 31
"""zlib's way to ask for gzip's framing."""

SAFETY = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""Keeps pages out of caches, and their types from being guessed."""

_slicing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Held while a slice is made, and for a turn of the loop after it."""


async def encoded(slices: Iterable[bytes], *, is_gzip: bool) -> AsyncIterator[bytes]:
    """The slices, compressed if so wanted, none of them empty.

    Of all such pages one slice is made in a turn of the loop, so that many of them at once hold up
    other work no longer than one does.
    """
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW) if is_gzip else None
    iterator = iter(slices)
    while (each := await _next_slice(iterator)) is not None:
        if data := compressor.compress(each) if compressor else each:
            yield data
    if compressor:
        yield compressor.flush()


async def _next_slice(slices: Iterator[bytes]) -> bytes | None:
    """The next slice, made when it is the page's turn; None after the last one."""
    loop = asyncio.get_running_loop()
    lock = _slicing.get(loop)
    if lock is None:
        lock = _slicing[loop] = asyncio.Lock()
    async with lock:
        each = next(slices, None)
        await asyncio.sleep(0)
    return each
