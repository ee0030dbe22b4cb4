"""What all requests of one cluster share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.authn.authenticator import Authenticator
from apfproxy.base.rare_log import RareLog
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.client_kinds import ClientKinds
from apfproxy.proxy.client_limits import LimitsInForce
from apfproxy.proxy.debug_headers import Audience
from apfproxy.proxy.own_responses import DateLine
from apfproxy.proxy.slow_readers import SlowReaders

if TYPE_CHECKING:
    from apfproxy.flowcontrol.passage import FlowControl
    from apfproxy.proxy.abandoned import AbandonedResponse
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.listener_context import ListenerContext
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer
    from apfproxy.settings import Settings
    from apfproxy.upstream.pool import Pool

log = logging.getLogger(__name__)


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        abandoned: Answers that nobody waits for any more, but that seats are kept for.
        access_log: Gets each request at its end; None for no log.
        audience: Those whose answers tell how flow control treated the request.
        authenticator: Authenticates clients.
        client_kinds: Tells clients apart, and makes requests of their heads.
        connection_count: Clients' connections whose last request was of it.
        date_line: For answers of servers that give none.
        flow_control: What every request passes.
        has_audit_ids: Whether every request is given an Audit-ID.
        in_force: Limits and time-outs.
        is_plain: Whether the API is not Kubernetes', so that own answers are not either.
        listener: What connections share; clock, loop and so on are those of it.
        refusals: Why requests were refused without being classified, a line of each a minute.
        slow_readers: Answers whose clients are waited for.
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
        self.in_force = LimitsInForce.of(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)

    def configure(self, settings: Settings, authenticator: Authenticator | None = None) -> None:
        """Put settings and an authenticator in force for requests that come from now on."""
        self.authenticator = authenticator or Authenticator(self.clock)
        self.in_force = LimitsInForce.of(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.slow_readers.per_level = settings.downstream.limits.slow_readers_per_level
        # What is kept of heads has the limits in it, and who may assert an identity.
        self.client_kinds = ClientKinds(
            settings, self.flow_control, self.authenticator, self.listener.room
        )
        self.forget_authentications()

    def enforce(self, flow_control: FlowControl) -> None:
        """Let requests that come from now on pass another flow control."""
        self.flow_control = flow_control
        self.client_kinds.enforce(flow_control)
        self.counters.is_observing = flow_control.is_observing

    def forget_authentications(self) -> None:
        """Authenticate every client again, from its next request on."""
        self.client_kinds.forget()
        self.listener.forget_peers()


def has_audit_ids(settings: Settings) -> bool:
    """Whether every request has an Audit-ID: only the access log needs it."""
    return settings.access_log.path is not None and settings.access_log.audit_ids
