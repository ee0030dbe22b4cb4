"""Before the API's handler: counts requests, and delays or fails them for load tests.

1. A watch is part of the load until its initial events are written; then it only counts as open.
2. A request takes the latency that is drawn for its verb, beside what it takes anyway.
3. With more than `capacity` requests at once, each takes as much longer as the overload is: its
   latency times (requests / capacity) ** 1.5.  With 1 as the exponent a server would do the same
   work in all however many requests it has; caches that no longer fit, locks and collectors make
   real ones worse.
4. A share of the requests fails.  At most one fault is drawn for a request.
5. Draws depend on the seed and on the order of requests only, those of latencies and those of
   faults not on each other.

A `WriteGuard` says who may write the objects that configure the proxy:

1. Reading is as free as the other pages of the listener.
2. With a token, a write needs it as a bearer token.
3. Without one, a write has to come over a listener that this machine alone can reach.  A browser
   on it is no such client: any web page can make it send requests to 127.0.0.1.  So what a browser
   sends for a page is refused (`Origin`, `Sec-Fetch-Site`), and so is a `Host` that is no name of
   this machine, since a page's own host name can be made to resolve to 127.0.0.1.

Source: Kubernetes, apiserver's `endpoints/metrics`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hmac
import logging
import math
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver.bodies import APPLY_PATCH
from apfproxy.apiserver.counters import RequestLabels, WatchMeter
from apfproxy.apiserver.errors import StatusError, bad_request, internal_error
from apfproxy.apiserver.lists import METER
from apfproxy.apiserver.responses import failure
from apfproxy.base.address import is_local, name_in_host
from apfproxy.request.attributes import (
    AttributesError,
    DeadlineError,
    RequestAttributes,
    parse_attributes,
    request_timeout_ns,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping

    from aiohttp.typedefs import Handler

    from apfproxy.apiserver.counters import ApiServerCounters
    from apfproxy.apiserver.kind import Kind
    from apfproxy.flowcontrol.meters import RequestCount

STALL_S = 60.0
"""How long a stalled request lasts; Kubernetes' time limit for requests."""
ENDING = "The apiserver is shutting down, please try again later.\n"
REQUEST_S = 60.0
"""Kubernetes' time limit of a request other than a watch; the parameter `timeout` shortens it."""
RESET_S = 1.0
"""The event loop notices a reset connection within it, and cancels its request."""

NO_ATTRIBUTES = RequestAttributes(is_resource_request=False, path="", verb="")
METHOD_VERBS = {"HEAD": "GET", **{each: each for each in ("GET", "POST", "PUT", "PATCH", "DELETE")}}
COLLECTION_VERBS = {"list": "LIST", "watch": "WATCH", "deletecollection": "DELETE"}
OTHER = "other"
SUBRESOURCES = frozenset({"", "status", "finalize", "eviction", "scale"})
WATCH_PATH = re.compile("/(?:api|apis/[^/]*)/[^/]*/watch/")
"""How the deprecated paths of watches begin."""
REMOVAL = re.compile(r"unavailable in v([0-9.]+)\+")
"""Part of the warning that a deprecated version carries."""

EVERY_VERB = "*"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""Verbs that a latency may be given for."""

OVERLOAD_EXPONENT = 1.5
DEFAULT_SERVICE_S = 0.005
"""Holds what an overload multiplies where no latency is given; unused without overload."""
LONGEST_S = 600.0
"""No draw of an unbounded distribution is longer."""


class Shape(enum.StrEnum):
    FIXED = "constant"
    UNIFORM = "uniform"
    EXPONENTIAL = "exp"
    NORMAL = "normal"
    LOGNORMAL = "lognormal"


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of durations.

    Attributes:
        first: Seconds: the value, the least, the mean or, if lognormal, the median.
        second: The greatest in seconds, the standard deviation in seconds or, if lognormal, that
            of the logarithm.
    """

    shape: Shape
    first: float
    second: float = 0.0

    def draw(self, chance: random.Random) -> float:
        """One duration, in seconds; never negative."""
        match self.shape:
            case Shape.FIXED:
                drawn = self.first
            case Shape.UNIFORM:
                drawn = chance.uniform(self.first, self.second)
            case Shape.EXPONENTIAL:
                drawn = chance.expovariate(1 / self.first) if self.first else 0.0
            case Shape.NORMAL:
                drawn = chance.normalvariate(self.first, self.second)
            case Shape.LOGNORMAL:
                exponent = min(chance.normalvariate(0.0, self.second), math.log(LONGEST_S) * 10)
                drawn = self.first * math.exp(exponent)
        return min(max(drawn, 0.0), LONGEST_S)


class Fault(enum.StrEnum):
    """Says what happens to a request instead of being carried out."""

    ERROR = "500"
    RESET = "reset"
    """Its connection is reset."""
    STALL = "stall"
    """No response ever comes."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How slow and how faulty a server is.

    Attributes:
        latency: Verb, or `EVERY_VERB` for those that are not named, to its latency.
        capacity: Requests at once that it serves well; None for any number.
        faults: Share of the requests that get it, 0 to 1; at most 1 in all.
    """

    latency: Mapping[str, Latency] = field(default_factory=dict)
    capacity: int | None = None
    faults: Mapping[Fault, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """Draws a latency and a fault for each request, from separate generators."""

    settings: LoadSettings
    latency_chance: random.Random
    fault_chance: random.Random

    def delay_s(self, verb: str, concurrency: int) -> float:
        latencies, capacity = self.settings.latency, self.settings.capacity
        latency = latencies.get(verb) or latencies.get(EVERY_VERB)
        drawn_s = 0.0 if latency is None else latency.draw(self.latency_chance)
        if capacity is None or concurrency <= capacity:
            return drawn_s
        base_s = DEFAULT_SERVICE_S if latency is None else drawn_s
        return drawn_s + base_s * (math.pow(concurrency / capacity, OVERLOAD_EXPONENT) - 1.0)

    def fault(self) -> Fault | None:
        drawn = self.fault_chance.random() if self.settings.faults else 0.0
        for fault, share in self.settings.faults.items():
            if drawn < share:
                return fault
            drawn -= share
        return None


class Share:
    """The part that a request has in the load, until `leave` is called, which may happen twice."""

    def __init__(self, count: RequestCount, on_left: Callable[[], None], now_ns: int) -> None:
        self._count = count
        self._on_left = on_left
        self._has_left = False
        count.begin(now_ns)

    def leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._count.end(time.monotonic_ns())
            self._on_left()


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
        self._executing = [kind.executing for kind in counters.in_flight.kinds]
        self._load = load
        removals = {
            (kind.group, version.name, kind.plural): REMOVAL.search(version.deprecation)
            for kind in kinds
            for version in kind.versions
        }
        self._resources = frozenset(removals)
        counters.removals = {resource: found[1] for resource, found in removals.items() if found}
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        started_ns = time.monotonic_ns()
        counters, attributes = self._counters, attributes_of(request)
        labels = self._labels(request, attributes)
        share = Share(self._executing[attributes.is_mutating], self._on_left, started_ns)
        self._idle.clear()
        code, response = 0, None
        if attributes.long_running:
            counters.long_running[by_attributes(labels, attributes)] += 1
            METER.set(WatchMeter(share.leave, counters.watch_events[labels[1:4]]))
            code = 200  # what the client of a watch has seen if it leaves
        try:
            response = await self._answer(request, attributes, labels)
            code = response.status
        finally:
            share.leave()
            if attributes.long_running:
                counters.long_running[by_attributes(labels, attributes)] -= 1
            ended = counters.requests[labels]
            ended.by_code[code] += 1
            ended.duration_ns.observe(time.monotonic_ns() - started_ns)
            if code and request.method == "GET" and not is_watch_path(attributes):
                ended.response_bytes.observe(size_of(request, response))
        return response

    def _on_left(self) -> None:
        if not any(count.count for count in self._executing):
            self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Refuse requests from now on; wait until only watches are open.

        Stalled requests end at once.
        """
        self._ending.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    async def _answer(
        self, request: web.Request, attributes: RequestAttributes, labels: RequestLabels
    ) -> web.StreamResponse:
        if self._ending.is_set():  # of a connection that was open already
            response = web.Response(status=429, text=ENDING, headers={"Retry-After": "5"})
            response.force_close()
            return response
        try:
            limit_ns = request_timeout_ns(attributes, round(REQUEST_S * 1e9))
        except DeadlineError as error:
            message = f"invalid timeout specified in the request URL - {error}"
            return await failure(request, bad_request(message))
        load, fault = self._load, None
        try:
            async with asyncio.timeout(None if attributes.long_running else limit_ns / 1e9):
                if load is not None:
                    fault = load.fault()
                    executing = sum(count.count for count in self._executing)
                    delay_s = load.delay_s(attributes.verb, executing)
                    if delay_s > 0:
                        await asyncio.sleep(delay_s)
                if fault is None:
                    return await self._handler(request)
        except TimeoutError:
            self._counters.terminations[by_attributes(labels, attributes), 504] += 1
            # By its latency, or the body came too slowly, or the client took too little at a time.
            if request.writer.output_size:
                raise  # aiohttp cuts the connection: a second head would be taken for content
            message = "Timeout: request did not complete within the allotted timeout"
            return await failure(request, StatusError(504, "Timeout", message, {}))
        self._counters.injected_faults[fault.value] += 1
        return await self._fail(request, fault)

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault is Fault.ERROR:
            return await failure(request, internal_error("a fault that --fault asked for"))
        if fault is Fault.STALL:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALL_S):
                    await self._ending.wait()
        if request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(RESET_S)  # the loop cancels this request, since its client is gone
        return web.Response(status=500)

    def _labels(self, request: web.Request, attributes: RequestAttributes) -> RequestLabels:
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
            scope_of_route(attributes),
            dry_run_of(request),
        )


def attributes_of(request: web.Request) -> RequestAttributes:
    """The attributes of a request; those of an empty path if its target is malformed."""
    try:
        return parse_attributes(request.method, request.rel_url.raw_path_qs.encode())
    except AttributesError:
        return NO_ATTRIBUTES


def size_of(request: web.Request, response: web.StreamResponse | None) -> int:
    """Bytes of the body of a response; if it was written in parts, with head and framing."""
    if isinstance(response, web.Response) and not response.prepared:
        return len(response.body) if isinstance(response.body, bytes) else 0
    return request.writer.output_size


def is_watch_path(attributes: RequestAttributes) -> bool:
    """Whether a watch has one of the deprecated paths, whose responses Kubernetes does not size."""
    return attributes.verb == "watch" and WATCH_PATH.match(attributes.path) is not None


def by_attributes(labels: RequestLabels, attributes: RequestAttributes) -> RequestLabels:
    """The labels where Kubernetes finds the scope by the request's attributes, not by its route."""
    return labels._replace(scope=scope_of(attributes) if labels.resource else "", dry_run="")


def scope_of(attributes: RequestAttributes) -> str:
    if attributes.name or attributes.verb == "create":
        return "resource"
    return "namespace" if attributes.namespace else "cluster"


def scope_of_route(attributes: RequestAttributes) -> str:
    """The scope, whatever name a field selector asks for."""
    if attributes.verb not in COLLECTION_VERBS or is_watch_path(attributes):
        return scope_of(attributes)
    return "namespace" if attributes.namespace else "cluster"


def dry_run_of(request: web.Request) -> str:
    if "dryRun" not in request.rel_url.raw_query_string:
        return ""
    values = request.query.getall("dryRun", [""])
    return "" if values == [""] else "All" if set(values) == {"All"} else "invalid"


READING = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` that requests of foreign pages do not have."""
UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized")
NO_TOKEN = internal_error("the token that writers need cannot be had; the server's log says why")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class WriteGuard:
    """Before the handler of an API.

    Attributes:
        is_local: Whether only this machine can reach the listener.
        token: The current token of writers; None if none is needed.  ValueError says why there is
            none to compare with.
        checks_host: Whether `Host` has to be a name of this machine; not so behind a proxy.
    """

    handler: Handler
    is_local: Callable[[], bool]
    token: Callable[[], bytes] | None = None
    checks_host: bool = field(default=True, kw_only=True)
    _problem: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method not in READING and (refusal := self._refusal(request)) is not None:
            return await failure(request, refusal)
        return await self.handler(request)

    def _refusal(self, request: web.Request) -> StatusError | None:
        if self.token is not None:
            if (token := self._current_token(self.token)) is None:
                return NO_TOKEN
            return None if _has_token(request, token) else UNAUTHORIZED
        if not self.is_local():
            return _refused(
                "this listener can be reached from other machines;"
                " start the proxy with --admin-token-file, or with --admin on a loopback address"
            )
        if "Origin" in request.headers:
            return _refused("it comes from a web page (Origin)")
        if not OWN_SITES.issuperset(request.headers.getall("Sec-Fetch-Site", [])):
            return _refused("it comes from a web page (Sec-Fetch-Site)")
        if self.checks_host and not is_local(name_in_host(request.headers.get("Host", ""))):
            return _refused(
                "its Host is no name of this machine, such as 127.0.0.1 or localhost;"
                " use --admin-token-file to allow others"
            )
        return None

    def _current_token(self, token: Callable[[], bytes]) -> bytes | None:
        """The current token; None if there is none: the reason is only logged."""
        try:
            found, problem = token(), ""
        except ValueError as error:
            found, problem = None, str(error)
        if problem and problem != self._problem:
            log.error("no client may write: %s", problem)
        self._problem = problem
        return found


def _has_token(request: web.Request, token: bytes) -> bool:
    shown = request.headers.getall("Authorization", [])
    if len(shown) != 1 or not shown[0].lower().startswith("bearer "):
        return False
    text = shown[0].partition(" ")[2].strip()
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), token)


def _refused(reason: str) -> StatusError:
    return StatusError(403, "Forbidden", f"forbidden: writing is not allowed: {reason}", {})
