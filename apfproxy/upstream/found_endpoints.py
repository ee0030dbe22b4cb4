"""The servers behind that a source has found: in order, bounded, and told of when they change."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from apfproxy.base.rare_log import RareLog
from apfproxy.settings import MAX_ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.settings import EndpointAddress

MAX_SHOWN = 8  # addresses that a line of the log names

logger = logging.getLogger(__name__)


class FoundEndpoints:
    """The endpoints of one source; `is_known` once it has told anything."""

    def __init__(self, name: str, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._name = name
        self._listener: Callable[[tuple[EndpointAddress, ...]], None] | None = None
        self._log = RareLog(logger, now_ns)
        self._told = asyncio.Event()
        self.endpoints: tuple[EndpointAddress, ...] = ()
        self.is_known = False

    def put(self, found: Iterable[EndpointAddress]) -> None:
        """Take what the source has now; beyond a bound the last ones are left out."""
        ordered = sorted({each.address: each for each in found}.values(), key=place)
        endpoints = tuple(ordered[:MAX_ENDPOINTS])
        if len(ordered) > MAX_ENDPOINTS:
            text = "%s has %d endpoints; %d of them are used"
            self._log.log(logging.WARNING, "many", text, self._name, len(ordered), MAX_ENDPOINTS)
        is_first, self.is_known = not self.is_known, True
        self._told.set()
        if endpoints == self.endpoints and not is_first:
            return
        self.endpoints = endpoints
        if endpoints:
            text = "%s has the endpoints %s"
            self._log.log(logging.INFO, "changed", text, self._name, listed(endpoints))
        else:
            self._log.log(logging.WARNING, "none", "%s has no endpoint", self._name)
        if self._listener is not None:
            self._listener(endpoints)

    def tell(self, listener: Callable[[tuple[EndpointAddress, ...]], None]) -> None:
        """Call with all endpoints: now, if they are known, and after each change of them."""
        self._listener = listener
        if self.is_known:
            listener(self.endpoints)

    def tell_nobody(self) -> None:
        self._listener = None

    async def wait(self, timeout_s: float) -> bool:
        """Wait until the source has told something; whether it has, in that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._told.wait()
        return self.is_known

    def stop_waiting(self) -> None:
        self._told.set()

    @property
    def kept(self) -> str:
        if not self.endpoints:
            return "no endpoint is known"
        if len(self.endpoints) == 1:
            return "the last known endpoint (1) stays in use"
        return f"the last known endpoints ({len(self.endpoints)}) stay in use"

    def __repr__(self) -> str:
        return f"<FoundEndpoints of {self._name}: {listed(self.endpoints)}>"


def place(endpoint: EndpointAddress) -> tuple[int, int, int]:
    """The place of an endpoint among others: IPv4 first, in the order of the numbers."""
    host = ipaddress.ip_address(endpoint.address.host)
    return host.version, int(host), endpoint.address.port


def listed(endpoints: tuple[EndpointAddress, ...]) -> str:
    shown = ", ".join(str(each.address) for each in endpoints[:MAX_SHOWN])
    more = len(endpoints) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
