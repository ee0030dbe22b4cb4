"""The state of a running proxy that `apfproxy top` shows, as its admin listener has it.

Fields that the listener adds are ignored.  Numbers are bounded: wide enough for any proxy, and
narrow enough that whatever is within can be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from apfproxy.cli.admin_client import fetch_json, of_cluster
from apfproxy.cli.errors import CommandError
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from apfproxy.settings import Address

PATH = "/debug/live"
REMEDY = "give the address of the admin listener of a running proxy, its own --admin"

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
UnixSeconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class Part(msgspec.Struct, rename="camel"):
    """A part of the state.  Limits and what is lent and borrowed are seats; durations, seconds."""


class Level(Part):
    """A priority level; `queues` has the requests that wait in its first `queue_count` queues."""

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
    queue_count: Count | None = None

    @property
    def is_exempt(self) -> bool:
        return self.type == "Exempt"

    @property
    def rejected_per_second(self) -> float:
        return sum(self.rejected_by_reason.values())

    @property
    def problems_per_second(self) -> float:
        return self.rejected_per_second + self.failed_per_second


class TopFlow(Part):
    """A flow, and what it took in the last minutes."""

    flow_schema: str
    priority_level: str
    flow: str
    seat_seconds: Amount
    wait_seconds: Amount
    rejected: Amount


class Event(Part):
    """A change or an error of the configuration."""

    time: UnixSeconds
    message: str
    is_error: bool


class Configuration(Part):
    """The generation in force, and how it came to that."""

    generation: Count
    events: list[Event]


class Sentence(Part):
    """A finding about the proxy: `error`, `warning`, `note` or `ok`."""

    severity: str
    text: str


class Server(Part):
    """A server behind, or all together; `since` its state began, p99 until a response begins.

    `failures_per_second` counts requests without a response.
    """

    state: str
    problem: str | None
    since: UnixSeconds | None
    answers_per_second: dict[str, Amount]
    failures_per_second: Amount
    p99: Amount | None


class Endpoint(Server):
    """One of several servers: `up`, `ejected`, `failing`, `draining` or `unknown`.

    It has the part `ramp` of its weight so far, and should have `share` of all requests.
    """

    url: str
    ramp: Amount
    share: Amount
    seats: Count
    in_flight: Count

    @property
    def errors_per_second(self) -> float:
        return self.failures_per_second + self.answers_per_second.get("5xx", 0.0)


class Upstream(Server):
    """The servers behind together: `up`, `failing` or `unknown`.

    `endpoints` is empty if there are very many; `healthy_count` of them get requests.
    """

    address: str
    p50: Amount | None
    endpoints: list[Endpoint] = []
    endpoint_count: Count = 1
    healthy_count: Count = 1


class Fleet(Part):
    """The members that share the seats; the proxy itself uses `in_force` seats at most.

    It is `joining`, `held`, `expired` or `partitioned`, and wrote to the record `age` ago.
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


class LiveState(Part):
    """The proxy at one moment."""

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
        """Seats that its requests may have in all."""
        return self.server_concurrency_limit if self.fleet is None else self.fleet.in_force


class ClusterLine(Part):
    """One of several clusters; `state` is that of its servers, `refused` if it cannot be used."""

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


class ClustersState(Part):
    """All clusters of a proxy that has several, those with problems first."""

    time: UnixSeconds
    verdict: list[Sentence]
    clusters: list[ClusterLine]


def fetch(admin: Address, cluster: str | None) -> object:
    """The state as JSON; CommandError if there is no such listener, or it has no such page."""
    return fetch_json(admin, of_cluster(cluster, PATH), REMEDY)


def state_of(url: str, found: object) -> LiveState | ClustersState:
    """Read the state; CommandError if it is something else."""
    try:
        if isinstance(found, dict) and "clusters" in found:
            return msgspec.convert(found, ClustersState)
        return msgspec.convert(found, LiveState)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{url} answers {PATH} in another way than this version: {shown(str(error))};"
            " is that the admin listener of a proxy?"
        ) from error
