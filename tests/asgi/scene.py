"""A program behind flow control, and clients of it, that speak ASGI without a server."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from apfproxy.asgi import FlowControl
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Handler = Callable[["Call"], Awaitable[None]]

RULES = """
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
"""


def objects(schema: str = "", level: str = "", response: str = "") -> str:
    """A FlowSchema of everything with its level, both with annotations, as YAML."""
    response = response or "{type: Queue, queuing: {queues: 64, handSize: 2, queueLengthLimit: 9}}"
    return f"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {{name: mine, annotations: {{{level}}}}}
spec:
  type: Limited
  limited: {{nominalConcurrencyShares: 10000, lendablePercent: 0, limitResponse: {response}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: mine, annotations: {{{schema}}}}}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {{name: mine}}
  distinguisherMethod: {{type: ByUser}}{RULES}"""


class Call:
    """One call of the program, which does what its handler says once it may."""

    def __init__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401
        self.scope = scope
        self.receive = receive
        self.send = send
        self.may_go = asyncio.Event()

    async def head(self, *headers: tuple[bytes, bytes]) -> None:
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def body(self, body: bytes = b"", *, more: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})


async def plain(call: Call) -> None:
    await call.may_go.wait()
    await call.head()
    await call.body()


class Scene:
    """A program of some seats; `calls` are those that reached it."""

    def __init__(self, limit: int = 1, handler: Handler = plain, **others: Any) -> None:  # noqa: ANN401
        self.calls: list[Call] = []
        self.handler = handler
        self.control = FlowControl(self._app, limit, **others)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        call = Call(scope, receive, send)
        if scope["type"] == "lifespan":
            await receive()
            return
        self.calls.append(call)
        await self.handler(call)

    def client(self, **others: Any) -> Client:  # noqa: ANN401
        return Client(self.control, **others)

    async def busy(self) -> Client:
        """A client that has the only seat."""
        client = self.client()
        await until(lambda: self.calls)
        return client

    @property
    def seats(self) -> int:
        return sum(each.queue_set.seats_in_use for each in self._levels)

    @property
    def waiting(self) -> int:
        return sum(each.queue_set.requests_waiting for each in self._levels)

    @property
    def _levels(self) -> Any:  # noqa: ANN401
        return self.control.controller.levels.values()

    def flows(self) -> set[str]:
        """The names of all flows that there were."""
        return {name for _, name in self.control.controller._classifications}  # noqa: SLF001


class Client:
    """A request; `sent` is what it was sent, `call` ends when its server's call does."""

    def __init__(
        self,
        control: FlowControl,
        *,
        kind: str = "http",
        method: str = "GET",
        path: str = "/",
        query: bytes = b"",
        headers: Iterable[tuple[bytes, bytes]] = (),
        address: str | None = "192.0.2.1",
        body: Iterable[dict[str, Any]] = ({"type": "http.request"},),
        **others: Any,  # noqa: ANN401
    ) -> None:
        self.sent: list[dict[str, Any]] = []
        self.inbox = deque(body)
        self._has_news = asyncio.Event()
        scope = {
            "type": kind,
            "path": path,
            "query_string": query,
            "headers": list(headers),
            "client": None if address is None else (address, 1),
            **({"method": method} if kind == "http" else {}),
            **others,
        }
        self.call = asyncio.ensure_future(control(scope, self._receive, self._send))

    def leave(self) -> None:
        self.inbox.append({"type": "http.disconnect"})
        self._has_news.set()

    async def _receive(self) -> dict[str, Any]:
        while not self.inbox:
            self._has_news.clear()
            await self._has_news.wait()
        return self.inbox.popleft()

    async def _send(self, message: Any) -> None:  # noqa: ANN401
        await asyncio.sleep(0)
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])
