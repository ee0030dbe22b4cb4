"""Looks at the live state of a running proxy, through its admin listener, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

import aiohttp
import msgspec

from apfproxy.authn.upstream_api import connect_failure
from apfproxy.cli.admin_client import (
    LARGEST_ANSWER_BYTES,
    Shape,
    answer_json,
    context_for,
    headers_for,
    of_cluster,
    tls_remedy,
)
from apfproxy.cli.errors import CommandError
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from apfproxy.settings import Address

PATH = "/debug/live"
TIMEOUT_S = 5.0
"""For a whole answer, which takes the proxy some milliseconds."""

# Wide enough for any proxy, and narrow enough that whatever is within can be shown.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
UnixSeconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class Level(msgspec.Struct, frozen=True, rename="camel"):
    """A priority level.  Limits and what is lent and borrowed are seats.

    Attributes:
        queues, queue_seats: Of its first queues; of all, unless there are thousands.
        queue_count: How many queues it has; None if the proxy does not tell.
        served_per_second, failed_per_second: Requests that had seats; the server behind gave those
            that failed no answer, or a 5xx.
        rejected_by_reason: Requests per second.
    """

    name: str
    type: str
    is_quiescing: bool
    nominal: Count
    minimum: Count = msgspec.field(name="min")
    maximum: Count | None = msgspec.field(name="max")
    current: Count
    seats_in_use: Count
    executing: Count
    waiting: Count
    lent: Count
    borrowed: Count
    served_per_second: Amount
    failed_per_second: Amount
    rejected_by_reason: dict[str, Amount] = msgspec.field(name="rejectedPerSecond")
    queues: list[Count]
    queue_seats: list[Count]
    queue_count: Count | None = None

    @property
    def is_exempt(self) -> bool:
        """Whether nothing limits it."""
        return self.type == "Exempt"

    @property
    def rejected_per_second(self) -> float:
        """Requests that got no seats, for whatever reason."""
        return sum(self.rejected_by_reason.values())


class TopFlow(msgspec.Struct, frozen=True, rename="camel"):
    """A flow, and what it took in the last minutes."""

    flow_schema: str
    priority_level: str
    flow: str
    seat_seconds: Amount
    wait_seconds: Amount
    rejected: Amount


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened to the configuration."""

    time: UnixSeconds
    message: str
    is_error: bool


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """What is in force, and how it came to that."""

    generation: Count
    events: list[Event]


class Sentence(msgspec.Struct, frozen=True):
    """Something that is to be known of the proxy: `error`, `warning`, `note` or `ok`."""

    severity: str
    text: str


class Endpoint(msgspec.Struct, frozen=True, rename="camel"):
    """One of several servers behind; times are seconds.

    Attributes:
        state: `up`, `ejected`, `failing`, `draining` or `unknown`.
        since: When that began.
        ramp: The part of its weight that it has already.
        share: The part of all requests that it should have.
        seats: Of the requests that it works on.
        in_flight: Requests under way.
        p99: Of the time until an answer begins.
    """

    url: str
    state: str
    problem: str | None
    since: UnixSeconds | None
    ramp: Amount
    share: Amount
    seats: Count
    in_flight: Count
    answers_per_second: dict[str, Amount]
    failures_per_second: Amount
    p99: Amount | None

    @property
    def errors_per_second(self) -> float:
        """Requests that got no answer, or a 5xx."""
        return self.failures_per_second + self.answers_per_second.get("5xx", 0.0)


class Upstream(msgspec.Struct, frozen=True, rename="camel"):
    """The servers behind: `up`, `failing` or `unknown`; times are seconds.

    Attributes:
        since: When their state began.
        answers_per_second: By class of status code, such as `5xx`.
        failures_per_second: Requests that got no answer.
        p50, p99: Of the time until an answer begins.
        endpoints: Each of them, unless there are very many.
        endpoint_count, healthy_count: How many there are, and how many of them get requests.
    """

    address: str
    state: str
    problem: str | None
    since: UnixSeconds | None
    answers_per_second: dict[str, Amount]
    failures_per_second: Amount
    p50: Amount | None
    p99: Amount | None
    endpoints: list[Endpoint] = []
    endpoint_count: Count = 1
    healthy_count: Count = 1


class Fleet(msgspec.Struct, frozen=True, rename="camel"):
    """What shares the seats of the server; times are seconds.

    Attributes:
        state: Of the proxy itself: `joining`, `held`, `expired` or `partitioned`.
        problem: Why the record is not up to date; "" if it is.
        age: Since the proxy wrote to it.
        limit, claims, used: Seats of all, that members may use, and that they use.
        in_force: Seats that the proxy itself uses at most.
        silent_count, unlike_count: Members of which nothing is heard; with other settings.
    """

    state: str
    problem: str
    age: Amount | None
    limit: Count
    claims: Count
    used: Count
    in_force: Count
    member_count: Count
    silent_count: Count
    unlike_count: Count
    is_of_workers: bool = False


class LiveState(msgspec.Struct, frozen=True, rename="camel"):
    """The proxy at one moment, as its admin listener has it; what is new there is left out."""

    time: UnixSeconds
    server_concurrency_limit: Count
    enforcement: str
    levels: list[Level]
    top_flows: list[TopFlow]
    configuration: Configuration
    verdict: list[Sentence] = []
    upstream: Upstream | None = None
    fleet: Fleet | None = None

    @property
    def seats(self) -> int:
        """Those that its requests may have in all."""
        return self.server_concurrency_limit if self.fleet is None else self.fleet.in_force


class ClusterLine(msgspec.Struct, frozen=True, rename="camel"):
    """One of several clusters at a glance.

    Attributes:
        severity: Of its problem.
        state: Of its servers, `refused` if it cannot be used.
        p99: Of the time until an answer begins, in seconds.
    """

    name: str
    severity: str
    state: str
    problem: str
    healthy_count: Count
    endpoint_count: Count
    seats_in_use: Count
    server_concurrency_limit: Count
    waiting: Count
    served_per_second: Amount
    failed_per_second: Amount
    rejected_per_second: Amount
    p99: Amount | None


class ClustersState(msgspec.Struct, frozen=True):
    """All clusters of a proxy that has several, those with problems first."""

    time: UnixSeconds
    verdict: list[Sentence]
    clusters: list[ClusterLine]


class LiveClient:
    """Asks one admin listener, over a connection that it keeps, for one cluster or for all."""

    def __init__(self, address: Address, cluster: str | None = None) -> None:
        self.url = address.url
        self._path = of_cluster(cluster, PATH)
        self._base_url = f"{'https' if address.is_tls else 'http'}://{address.authority}"
        self._address = address
        context = context_for(address)
        connector: aiohttp.BaseConnector | None = None
        if address.path:
            connector = aiohttp.UnixConnector(address.path)
        elif context is not None:
            connector = aiohttp.TCPConnector(ssl=context)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(self) -> Any:  # noqa: ANN401 - any JSON
        """The state as JSON.

        CommandError if there is no such listener, or it has no such answer.
        """
        try:
            async with self._session.get(
                self._base_url + self._path,
                headers=headers_for(self._address),
                allow_redirects=False,
            ) as response:
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > LARGEST_ANSWER_BYTES:
                        raise CommandError(
                            f"{self.url} does not end its answer; is that an admin listener?"
                        )
                status = response.status
        except TimeoutError as error:
            raise CommandError(
                f"{self.url} does not answer within {TIMEOUT_S:g} s; give the address of the admin"
                " listener of a running proxy, its own --admin"
            ) from error
        except (OSError, aiohttp.ClientError) as error:
            is_reset = isinstance(error, aiohttp.ServerDisconnectedError)
            cause = ConnectionResetError() if is_reset else error.__cause__
            remedy = tls_remedy(self._address, cause) or (
                "give the address of the admin listener of a running proxy, its own --admin"
            )
            raise CommandError(f"cannot ask {self.url}: {_reason(error)}; {remedy}") from error
        return answer_json(self.url, status, bytes(body))

    async def look(self) -> LiveState | ClustersState:
        """The state; CommandError if there is no such listener, or it has no such answer."""
        answer = await self.fetch()
        if isinstance(answer, dict) and "clusters" in answer:
            return clusters_of(self.url, answer)
        return state_of(self.url, answer)


def clusters_of(url: str, answer: object) -> ClustersState:
    """Read the state of several clusters; CommandError if it is something else."""
    return _read(url, answer, ClustersState)


def state_of(url: str, answer: object) -> LiveState:
    """Read the state; CommandError if it is something else."""
    return _read(url, answer, LiveState)


def _read(url: str, answer: object, shape: type[Shape]) -> Shape:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{url} answers {PATH} in another way than this version: {shown(str(error))};"
            " is that the admin listener of a proxy?"
        ) from error


def _reason(error: Exception) -> str:
    """Why there is no answer, in a few words."""
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):
        text = connect_failure(error)
    return shown(" ".join(text.split()))
