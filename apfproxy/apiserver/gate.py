"""Before the API's handler: counts requests, and delays or fails them for load tests.

A watch is part of the load until its initial events are written; then it only counts as open.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver.counters import MUTATING, READ_ONLY, RequestLabels
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.load import Fault
from apfproxy.apiserver.patches import APPLY_PATCH
from apfproxy.apiserver.responses import failure
from apfproxy.apiserver.watches import ON_INITIAL
from apfproxy.flowcontrol.meters import NS_PER_S
from apfproxy.request.attributes import AttributesError, RequestAttributes, parse_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiohttp.typedefs import Handler

    from apfproxy.apiserver.counters import ApiServerCounters
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.load import Load

STALL_S = 60.0
"""How long a stalled request lasts; Kubernetes' time limit for requests."""
REQUEST_S = 60.0
"""Time limit of a request other than a watch, from head to end of answer; Kubernetes' limit."""
RESET_S = 1.0
"""The event loop notices a reset connection within it, and cancels its request."""

NO_ATTRIBUTES = RequestAttributes(is_resource_request=False, path="", verb="")
METHOD_VERBS = {"GET": "GET", "HEAD": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH",
                "DELETE": "DELETE"}  # fmt: skip
COLLECTION_VERBS = {"list": "LIST", "watch": "WATCH", "deletecollection": "DELETECOLLECTION"}
OTHER = "other"
SUBRESOURCES = frozenset({"", "status", "finalize", "eviction"})


class Gate:
    """Before the API's handler, which answers errors itself.

    Only served kinds are labels, and no `load` delays nothing.
    """

    def __init__(
        self,
        handler: Handler,
        kinds: Iterable[Kind],
        counters: ApiServerCounters,
        load: Load | None = None,
    ) -> None:
        self._handler = handler
        self._counters = counters
        self._load = load
        self._resources = frozenset(
            (kind.group, version.name, kind.plural) for kind in kinds for version in kind.versions
        )
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        now = asyncio.get_running_loop().time
        started_s = now()
        attributes = attributes_of(request)
        counters = self._counters.requests[self._labels(request, attributes)]
        code = 0
        share = contextlib.ExitStack()
        share.enter_context(self._in_flight(MUTATING if attributes.is_mutating else READ_ONLY))
        if attributes.long_running:
            counters.long_running += 1
            ON_INITIAL.set(share.close)
            code = 200  # what the client of a watch has seen if it leaves
        try:
            response = await self._answer(request, attributes)
            code = response.status
        finally:
            share.close()
            if attributes.long_running:
                counters.long_running -= 1
            counters.end(code, round((now() - started_s) * NS_PER_S))
        return response

    async def drain(self, timeout_s: float) -> None:
        """Wait until only watches are open; stalled requests end at once."""
        self._ending.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    @contextlib.contextmanager
    def _in_flight(self, kind: str) -> Iterator[None]:
        """Count a request as part of the load."""
        in_flight = self._counters.in_flight
        in_flight[kind] += 1
        self._idle.clear()
        try:
            yield
        finally:
            in_flight[kind] -= 1
            if not any(in_flight.values()):
                self._idle.set()

    async def _answer(
        self, request: web.Request, attributes: RequestAttributes
    ) -> web.StreamResponse:
        load = self._load
        if load is not None:
            fault = load.fault()
            delay_s = load.delay_s(attributes.verb, sum(self._counters.in_flight.values()))
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            if fault is not None:
                self._counters.injected_faults[fault.value] += 1
                return await self._fail(request, fault)
        try:
            async with asyncio.timeout(None if attributes.long_running else REQUEST_S):
                return await self._handler(request)
        except TimeoutError:
            # The body came too slowly, or the client took too little at a time.
            if request.writer.output_size:
                raise  # aiohttp cuts the connection: a second head would be taken for content
            message = "Timeout: request did not complete within the allotted timeout"
            return await failure(request, StatusError(504, "Timeout", message, {}))

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        """Fail a request on purpose."""
        if fault is Fault.ERROR:
            message = "Internal error occurred: a fault that --fault asked for"
            return await failure(request, StatusError(500, "InternalError", message))
        if fault is Fault.STALL:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALL_S):
                    await self._ending.wait()
        if request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(RESET_S)  # the loop cancels this request, since its client is gone
        return web.Response(status=500)

    def _labels(self, request: web.Request, attributes: RequestAttributes) -> RequestLabels:
        """The labels that a request is counted by."""
        verb = COLLECTION_VERBS.get(attributes.verb) or METHOD_VERBS.get(request.method, OTHER)
        if verb == "PATCH" and request.content_type == APPLY_PATCH:
            verb = "APPLY"
        resource = (attributes.api_group, attributes.api_version, attributes.resource)
        if resource not in self._resources:
            return RequestLabels(verb)
        subresource = attributes.subresource
        return RequestLabels(
            verb,
            *resource,
            subresource if subresource in SUBRESOURCES else OTHER,
            scope_of(attributes),
            dry_run_of(request),
        )


def attributes_of(request: web.Request) -> RequestAttributes:
    """The attributes of a request; those of an empty path if its target is malformed."""
    try:
        return parse_attributes(request.method, request.rel_url.raw_path_qs.encode())
    except AttributesError:
        return NO_ATTRIBUTES


def scope_of(attributes: RequestAttributes) -> str:
    """The scope of a request, in the words of Kubernetes' metrics."""
    if attributes.name or attributes.verb == "create":
        return "resource"
    return "namespace" if attributes.namespace else "cluster"


def dry_run_of(request: web.Request) -> str:
    """The parameter `dryRun` as a label."""
    values = request.query.getall("dryRun", [])
    if values in ([], [""]):
        return ""
    return "All" if set(values) == {"All"} else "invalid"
