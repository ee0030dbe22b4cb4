"""A controller with requests in every state, on a clock that moves only when told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from apfproxy.admin.gathering import ServingParts, cluster_state, gathered
from apfproxy.admin.metric_table import TABLE
from apfproxy.admin.metrics import page
from apfproxy.admin.state import LoadsState
from apfproxy.authn.authenticator import AuthenticationCounters
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason, Ticket, WorkEstimate
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.request.attributes import RequestAttributes, User, parse_attributes
from apfproxy.upstream.counters import UpstreamCounters
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.state import ClusterState, ProcessState
    from apfproxy.admin.top_flows import TopFlows
    from apfproxy.objects.types import FlowControlObject

MS = 1_000_000
POD = b"/api/v1/namespaces/default/pods/p"
WALL_OFFSET_NS = 1_792_481_236_000_000_000
"""Clock zero is 2026-10-20T07:27:16Z."""


@dataclass
class StillEndpoint:
    """A server with two requests of five seats under way."""

    url: str
    address: Any = field(default_factory=lambda: SimpleNamespace(weight=1))
    counters: UpstreamCounters = field(default_factory=UpstreamCounters)
    is_drawn: bool = True
    ramp: float = 1.0
    share: float = 1.0
    seats: int = 5
    busy_count: int = 2
    idle: tuple[int, ...] = (1,)
    open: tuple[int, ...] = (1, 2, 3)


class StillWatch:
    def __init__(self, endpoint: StillEndpoint, state: str = "up") -> None:
        self.endpoint = endpoint
        self.state = state
        self.problem = None if state == "up" else "connection refused"
        self.since_unix_s: float | None = 7.0
        self.ejections_total = 0


class StillUpstream:
    address = "http://a:1"
    since_unix_s: float | None = 7.0
    awaiting = 0
    silent_s = 0.0

    def __init__(self, *states: str) -> None:
        self.state = "up" if "up" in states else "failing"
        self.problem = None if self.state == "up" else "all fail"
        self.counters = UpstreamCounters()
        self.watches = {
            str(place): StillWatch(StillEndpoint(f"http://{place}:1"), state)
            for place, state in enumerate(states)
        }


class StillPool:
    open_count, idle_count, waiting_count = 5, 2, 1

    def __init__(self, upstream: StillUpstream) -> None:
        watches = upstream.watches.values()
        self.endpoints = [each.endpoint for each in watches if each.state != "draining"]
        self.draining: tuple[StillEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Details:
    user_name: str
    attributes: RequestAttributes


class Scene:
    """A controller with its clock and counters, and a way to send requests to it."""

    def __init__(
        self, objects: tuple[FlowControlObject, ...], server_concurrency_limit: int = 4
    ) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, server_concurrency_limit, 0)
        self.controller.commit(self.controller.digest(objects))
        self.kind_meter = KindMeter(self.clock.now_ns())
        self.counters = ProxyCounters()
        self.loads = LoadsState()
        self.upstream = StillUpstream("up")
        self.authentications = AuthenticationCounters()
        self.top_flows: TopFlows | None = None

    def cluster(self, name: str = "", *, is_full: bool = False, **more: Any) -> ClusterState:  # noqa: ANN401 - parts
        parts = ServingParts(
            **{
                "controller": self.controller,
                "kinds": self.kind_meter,
                "loads": self.loads,
                "counters": self.counters,
                "pool": StillPool(self.upstream),
                "upstream": self.upstream,
                "authentications": self.authentications,
                "top_flows": self.top_flows,
                **more,
            }
        )
        return cluster_state(parts, name=name, where="", problem="", is_full=is_full)

    def state(self, *, is_full: bool = True, **more: Any) -> ProcessState:  # noqa: ANN401 - likewise
        *_, state = gathered(
            started_s=1.0,
            health=HealthRegistry(),
            clusters=[self.cluster(is_full=is_full, **more)],
            is_full=is_full,
            listener=self.counters.listener,
        )
        return state

    def metrics(self) -> Iterator[bytes]:
        return page(TABLE, {"": self.state()})

    def ask(
        self,
        user_name: str,
        target: bytes = POD,
        *,
        group: str = "everyone",
        estimate: WorkEstimate = ONE_SEAT,
    ) -> Ticket | RejectReason:
        user = User(user_name, (group,))
        attributes = parse_attributes("GET", target)
        classification = self.controller.classify(user, attributes)
        return classification.level.queue_set.admit(
            classification.flow, estimate, lambda _: None, Details(user_name, attributes)
        )

    def ticket(self, *asked: Any, **more: Any) -> Ticket:  # noqa: ANN401 - as `ask` takes them
        answer = self.ask(*asked, **more)
        assert isinstance(answer, Ticket)
        return answer
