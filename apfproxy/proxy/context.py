"""One cluster as requests meet it: its flow control, its connections, and what they share."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import Authenticator
from apfproxy.base.faults import Part, contained, report
from apfproxy.base.rare_log import RareLog
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.client_limits import LimitsInForce
from apfproxy.proxy.own_responses import DateLine
from apfproxy.proxy.reasons import Audience
from apfproxy.proxy.request import ClientKinds
from apfproxy.proxy.slow_readers import SlowReaders
from apfproxy.settings import OBSERVE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.flowcontrol.passage import FlowControl, FlowObserver
    from apfproxy.proxy.abandoned import AbandonedResponse
    from apfproxy.proxy.client import ListenerContext, OpenConnection
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer
    from apfproxy.settings import Settings
    from apfproxy.upstream.pool import Pool
    from apfproxy.upstream.tls import ClientTls

log = logging.getLogger(__name__)


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        abandoned: Responses that no one waits for any more, but that seats are kept for.
        access_log: Gets each request at its end; None for no log.
        audience: Those whose responses have debug headers.
        connection_count: Clients' connections whose last request was of it.
        has_audit_ids: Whether every request is given an Audit-ID.
        is_plain: Whether the API is not Kubernetes', so that own responses are not either.
        refusals: Why requests were refused without being classified, a line of each a minute.
        tracer: Decides which requests are traced, and gets those; None for none.
    """

    def __init__(
        self,
        settings: Settings,
        listener: ListenerContext,
        flow_control: FlowControl,
        pool: Pool,
        counters: ProxyCounters,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.settings = settings
        self.listener = listener
        self.clock = listener.clock
        self.loop = listener.loop
        self.audit_lines = listener.audit_lines
        self.held_bytes = listener.held_bytes
        self.holdings = listener.holdings
        self.access_log: RequestLog | None = None
        self.tracer: Tracer | None = None
        self.authenticator = authenticator or Authenticator(self.clock)
        self.flow_control = flow_control
        self.client_kinds = ClientKinds(settings, flow_control, self.authenticator, listener.room)
        self.connection_count = 0
        self.date_line = DateLine()
        self.pool = pool
        self.counters = counters
        counters.is_observing = flow_control.is_observing
        self.refusals = RareLog(log, self.clock.now_ns)
        self.abandoned: dict[AbandonedResponse, None] = {}
        self.slow_readers = SlowReaders(counters, settings.downstream.limits.slow_readers_per_level)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.in_force = LimitsInForce(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)

    def observe(
        self, access_log: RequestLog | None, top_flows: FlowObserver | None, tracer: Tracer | None
    ) -> None:
        """Tell of requests from now on."""
        self.access_log = access_log
        self.tracer = tracer
        self.flow_control.top_flows = top_flows

    def configure(
        self,
        settings: Settings,
        authenticator: Authenticator | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        """Put other settings in force, for requests that come from now on."""
        if settings.flow_control.enforcement != self.settings.flow_control.enforcement:
            # Requests under way go on as they began.
            self.flow_control = self.flow_control.replace(passage_errors(settings, self.loop))
            self.counters.is_observing = self.flow_control.is_observing
        before, self.settings = self.settings, settings
        self.pool.configure(settings.upstream, client_tls)
        self.authenticator = authenticator or Authenticator(self.clock)
        self.in_force = LimitsInForce(settings)
        self.has_audit_ids = has_audit_ids(settings)
        if settings.downstream.explain_answers_to != before.downstream.explain_answers_to:
            self.audience = Audience(settings.downstream.explain_answers_to)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.slow_readers.per_level = settings.downstream.limits.slow_readers_per_level
        # What is kept of heads has the limits in it, and who may assert an identity.
        self.client_kinds = ClientKinds(
            settings, self.flow_control, self.authenticator, self.listener.room
        )
        self.listener.forget_peers()

    def forget_authentications(self) -> None:
        """Authenticate every client again, from its next request on."""
        self.client_kinds.forget()
        self.listener.forget_peers()

    def on_sweep(self, now_ns: int, period_ns: int) -> None:
        """Look at what waits for clients, and at idle connections, `period_ns` after the last."""
        with contained(Part.SWEEP, self.loop):
            self.slow_readers.on_sweep(period_ns)
        with contained(Part.SWEEP, self.loop):
            idle_ns = round(self.settings.upstream.idle_timeout_s * 1e9)
            self.pool.close_idle(now_ns, idle_ns, period_ns)

    def busy(self) -> list[OpenConnection]:
        """Clients' connections with a request under way."""
        return [each for each in self.listener.connections if each.is_serving(self)]

    def stop(self) -> None:
        """Close all connections to the servers at once; those of clients are closed by now."""
        for response in list(self.abandoned):
            try:
                response.end()
            except Exception as error:  # noqa: BLE001  it is of this one alone
                response.fail(error)
        self.pool.close()


def passage_errors(
    settings: Settings, loop: asyncio.AbstractEventLoop
) -> Callable[[Exception], None] | None:
    """Reports errors in passages that are only observed; None where flow control is enforced."""
    if settings.flow_control.enforcement != OBSERVE:
        return None
    message = "an error of the proxy itself: a passage ends"
    return partial(report, Part.CONNECTION, message=message, loop=loop)


def has_audit_ids(settings: Settings) -> bool:
    """Whether every request has an Audit-ID: only the access log needs it."""
    return settings.access_log.path is not None and settings.access_log.audit_ids
