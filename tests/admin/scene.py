"""A controller with requests in every state, on a clock that moves only when told to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.admin.config_status import ConfigStatus
from apfproxy.admin.listener_metrics import listener_families
from apfproxy.admin.metrics import ClusterParts, MetricsPage
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.flowcontrol.queue_set import ONE_SEAT, RejectReason, Ticket, WorkEstimate
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.request.attributes import RequestAttributes, User, parse_attributes
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

MS = 1_000_000
POD = b"/api/v1/namespaces/default/pods/p"
WALL_OFFSET_NS = 1_792_481_236_000_000_000
"""Clock zero is 2026-10-20T07:27:16Z."""


@dataclass(frozen=True, slots=True)
class Details:
    """What a ticket tells of its request."""

    user_name: str
    attributes: RequestAttributes


class StillPool:
    """A pool of upstream connections of which nothing moves."""

    open_count = 5
    idle_count = 2
    waiting_count = 1
    draining = ()


class Scene:
    """A controller with its clock and counters, and a way to send requests to it.

    Args:
        objects: The configuration.
        server_concurrency_limit: Seats of the whole server.
    """

    def __init__(
        self, objects: tuple[FlowControlObject, ...], server_concurrency_limit: int = 4
    ) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, server_concurrency_limit, 0)
        self.controller.commit(self.controller.digest(objects))
        self.kind_meter = KindMeter(self.clock.now_ns())
        self.counters = ProxyCounters()
        self.config_status = ConfigStatus()
        self.parts = ClusterParts(
            clock=self.clock,
            controller=self.controller,
            kind_meter=self.kind_meter,
            counters=self.counters,
            pool=StillPool(),
            config_status=self.config_status,
        )
        self.metrics = MetricsPage(
            lambda: {"": self.parts},
            [lambda: listener_families(self.counters.listener)],
            is_full=lambda: True,
        )

    async def scrape(self) -> MetricsPage:
        """The page of metrics."""
        return self.metrics

    def ask(
        self,
        user_name: str,
        target: bytes = POD,
        *,
        group: str = "everyone",
        estimate: WorkEstimate = ONE_SEAT,
    ) -> Ticket | RejectReason:
        """Send a GET as the user, and say what became of it."""
        user = User(user_name, (group,))
        attributes = parse_attributes("GET", target)
        classification = self.controller.classify(user, attributes)
        return classification.level.queue_set.admit(
            classification.flow, estimate, lambda _: None, Details(user_name, attributes)
        )

    def ticket(
        self,
        user_name: str,
        target: bytes = POD,
        *,
        group: str = "everyone",
        estimate: WorkEstimate = ONE_SEAT,
    ) -> Ticket:
        """Send a GET that must not be rejected."""
        answer = self.ask(user_name, target, group=group, estimate=estimate)
        assert isinstance(answer, Ticket)
        return answer
