"""Flow control within a Python program: an ASGI middleware, for servers that use asyncio.

1. A request that fits is no task and no future: plain calls classify and admit it.
2. One that waits is awaited.  Its next messages are read ahead, until a part of a body that is not
   whole: a client that leaves gives up its place.  The program gets them later.
3. Seats go back once: after the last message of the response; before an event stream that answers a
   GET, or what objects say; when a WebSocket is accepted; or else when the call ends.
4. One event loop is served at a time.  The next one, as in tests, finds what was learned.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from apfproxy.authn.unverified_names import NamesOfAddresses
from apfproxy.base.clock import LoopClock
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Supervised
from apfproxy.flowcontrol import passage
from apfproxy.flowcontrol.classifier import QUERY
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason
from apfproxy.http.credential_fields import alias_of_address, name_of_secret
from apfproxy.http.own_responses import TOO_MANY_REQUESTS_TEXT, plain_body
from apfproxy.http.response_head import is_event_stream
from apfproxy.objects.additions import StreamSeats
from apfproxy.objects.decode import decode_documents
from apfproxy.request import attributes
from apfproxy.settings.contradictions import NAMES_PER_ADDRESS, SECRETS_OF_PLAIN_APIS
from apfproxy.sources.in_force import ObjectFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Named = str | tuple[str, Iterable[str]] | None

TIMEOUT_NS: Final = round(HTTP.timeout_s * 1e9)
SECRETS: Final = frozenset(name.lower().encode() for name in SECRETS_OF_PLAIN_APIS)
NO_LOOP: Final[Any] = None


class FlowControl:
    """Gives each request of `app` seats, a place in a fair queue, or 429.

    Args:
        limit: How many requests the program does well at once, in this process.
        user: Names the user of a scope, alone or with groups.  None is told apart by its address;
            without `user`, by the hash of an API key or token before that.
        objects: A file or a folder, read again when it changes, or YAML: what there is beside the
            objects of the preset `http`.  ValueError has a line for each problem.
        registry: Gets the metrics `apiserver_flowcontrol_*`.
    """

    def __init__(
        self,
        app: Callable[[Any, Any, Any], Awaitable[None]],
        limit: int,
        user: Callable[[Scope], Named] | None = None,
        objects: str | Path | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit: want a whole number from 1, not {limit!r}")
        self._app = app
        self._user = user
        self.clock = clock = LoopClock(NO_LOOP)
        self._names = NamesOfAddresses(NAMES_PER_ADDRESS, clock)
        self.controller = Controller(clock, limit, secrets.randbits(32), is_prompt=True)
        self.shared = passage.FlowControl(self.controller, clock, unix_s=lambda: int(time.time()))
        self._tasks: list[asyncio.Task[None]] = []
        text = objects if isinstance(objects, str) and "\n" in objects else ""
        paths = (str(objects),) if objects is not None and not text else ()
        files = ObjectFiles(paths, self.controller, preset=HTTP)
        if text:
            read = decode_documents(text.encode(), "objects")
            files.in_force.put_first(files.in_force.prepare((*read.objects, *read.problems)))
        else:
            files.load_first()
        self._works = self._adjust, files.watch, files.in_force.end_in_time
        if problems := self.controller.in_force.problems:
            raise ValueError("\n".join(problems))
        if registry is not None:
            from apfproxy.admin.metric_table import flow_control_metrics  # noqa: PLC0415

            registry.register(flow_control_metrics(self.shared))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self.clock.loop:
            self._begin(loop)
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            finally:
                self._end()
            return
        request = _Request(self, scope, receive, send)
        try:
            if request.acquire(request):
                await self._app(scope, receive, request.send)
            elif request.refusal is None and await request.wait():
                await self._app(scope, request.receive, request.send)
            elif request.refusal is not None:
                await request.refuse()
        except Exception:
            if request.refusal is None:
                raise  # else the program complains of its response, which was refused
        finally:
            request.cancel(self.clock.now_ns())
            while request.ahead:
                request.ahead.pop().cancel()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._tasks and self.clock.loop.is_running():
            raise RuntimeError("a FlowControl serves one event loop at a time: make one for each")
        self._end()  # the timers of a loop that is over are never called
        self.clock.loop, controller = loop, self.controller
        controller.adjust_promptly(is_prompt=True)
        limits = controller.waiting_limit, controller.executing_limit
        self.shared.kinds.set_limits(self.clock.now_ns(), *limits)
        self._tasks = [Supervised(Part.LIMITS, "flow control", w).start() for w in self._works]

    def _end(self) -> None:
        self.controller.adjust_promptly(is_prompt=False)
        for each in self._tasks:
            if not each.get_loop().is_closed():
                each.cancel()
        self.clock.loop, self._tasks = NO_LOOP, []

    async def _adjust(self, _beat: Callable[[], None]) -> None:
        for pause_s in self.controller.adjustment_pauses_s():
            await asyncio.sleep(pause_s)
            self.controller.adjust_limits()

    def user_of(self, scope: Scope) -> attributes.User:
        if self._user is not None and (found := self._user(scope)):
            name, groups = found if isinstance(found, tuple) else (found, ())
            if not isinstance(name, str) or isinstance(groups, str):
                raise TypeError(f"user: want a name, (name, groups) or None, not {found!r}")
            return attributes.User(name, (*groups, attributes.AUTHENTICATED_GROUP))
        client = scope.get("client")
        source = (alias_of_address(client[0]) if client else None) or attributes.ANONYMOUS
        secret = next((value for name, value in scope["headers"] if name in SECRETS), b"")
        if self._user is None and secret:
            name = name_of_secret(secret.rpartition(b" ")[2])
            alias = attributes.unverified(attributes.BY_KEY, name)
            if self._names.admit(alias.name, source.name):
                return alias
        return source


class _Request(passage.Passage):
    def __init__(self, control: FlowControl, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method", "GET")  # else it is a WebSocket
        asked = attributes.RequestAttributes(
            is_resource_request=False,
            path=scope["path"],
            verb=method.lower(),
            is_mutating=method not in attributes.PLAIN_READ_ONLY,
            is_plain=True,
        )
        user, kind = control.user_of(scope), control.shared.kinds.kinds[asked.is_mutating]
        digest = passage.RequestDigest(user, asked, TIMEOUT_NS, kind, ONE_SEAT)
        super().__init__(control.shared, digest)
        self._scope, self._receive, self._send = scope, receive, send
        self._now_ns = control.clock.now_ns
        self._turn: asyncio.Future[None] | None = None
        self.ahead: list[asyncio.Future[Message]] = []  # read, but for the last
        # The digest knows no headers: what depends on them is found here.
        found = digest.classification = control.controller.classify(user, asked, self.header)
        if found.level.costs.cost is not None:
            digest.fixed_estimate = found.level.costs.estimate(ONE_SEAT, None, self.header)

    def header(self, name: str) -> str:
        """The first value of a header; of a secret the hash; "" for none."""
        if name == QUERY:
            return str(self._scope.get("query_string", b""), "latin-1")
        wanted = name.lower().encode()
        value = next((value for key, value in self._scope["headers"] if key == wanted), b"")
        is_secret = wanted in SECRETS and value
        return name_of_secret(value) if is_secret else str(value, errors="replace")

    async def wait(self) -> bool:
        """Wait for seats; whether it has them, else it is rejected, or its client has left."""
        turn = self._turn = asyncio.get_running_loop().create_future()
        last: Message = {}
        while not turn.done():
            ahead = [] if last.get("more_body") else [asyncio.ensure_future(self._receive())]  # noqa: TID251 - ends with the call
            self.ahead += ahead
            await asyncio.wait([turn, *ahead], return_when=asyncio.FIRST_COMPLETED)
            if ahead and ahead[0].done():
                last = ahead[0].result()
                if last["type"].endswith(".disconnect"):
                    return False
        turn.result()  # an error, if it is one
        return self.refusal is None

    def on_seats(self) -> None:
        assert self._turn is not None
        self._turn.set_result(None)

    on_time_out = on_seats

    def fail(self, error: Exception) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)

    async def receive(self) -> Message:
        while self.ahead and not self.ahead[0].done():
            await asyncio.wait(self.ahead[:1])  # if it is cancelled, no message is lost
        return self.ahead.pop(0).result() if self.ahead else await self._receive()

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start" and self.has_seats and self._lasts(message):
            self.begin_stream(self._now_ns())
            if self.refusal is not None:
                await self.refuse()
                raise OSError("the client got another response")  # as if it had left
        await self._send(message)
        is_last = kind == "http.response.body" and not message.get("more_body")
        if self.has_seats and (is_last or kind in {"websocket.accept", "http.response.pathsend"}):
            self.release_seats(self._now_ns())

    def _lasts(self, message: Message) -> bool:
        """Whether a response lasts without seats."""
        found, headers = self.classification, list(message.get("headers", ()))
        assert found is not None
        message["headers"] = headers  # they may be an iterator
        lines = b"".join(b"\r\n%b: %b" % (name, value) for name, value in headers)
        if found.stream_seats is None:
            return self.attributes.verb == "get" and is_event_stream(lines)
        has_length = b"\r\ncontent-length:" in lines.lower()
        return found.stream_seats is StreamSeats.RELEASE and not has_length

    async def refuse(self) -> None:
        kind, refusal = "http.response", self.refusal
        assert refusal is not None
        if self._scope["type"] == "websocket":
            kind = "websocket.http.response"
            if kind not in (self._scope.get("extensions") or ()):
                await self._send({"type": "websocket.close", "code": 1013})  # "try again later"
                return
        code = 403 if refusal.reason is RejectReason.BAN else 429
        text = refusal.message or TOO_MANY_REQUESTS_TEXT
        body, content_type = plain_body(code, text, self.header("accept"))
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        if refusal.retry_after_s:
            headers.append((b"retry-after", b"%d" % refusal.retry_after_s))
        await self._send({"type": f"{kind}.start", "status": code, "headers": headers})
        await self._send({"type": f"{kind}.body", "body": body})
