"""What all connections of one listener share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from apfproxy.authn.authenticator import Authenticator
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.absences import Absences
from apfproxy.proxy.client_kinds import ClientKinds
from apfproxy.proxy.client_limits import ClientLimits, LimitsInForce
from apfproxy.proxy.identification import NO_IDENTIFICATION
from apfproxy.proxy.read_buffer import READ_BYTES
from apfproxy.proxy.told import Audience
from apfproxy.proxy.traces import made_audit_lines
from apfproxy.rare_log import RareLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.clock import Clock
    from apfproxy.flowcontrol.flow_control import FlowControl
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.identification import Identification
    from apfproxy.proxy.pool import Pool
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.targets import Targets
    from apfproxy.settings import Settings

log = logging.getLogger(__name__)

MAX_KEPT_SUFFIXES = 4096
"""Addresses of clients as bytes, shared by their connections."""


class OpenConnection(Protocol):
    """A client's connection, as the server sees it.

    Attributes:
        deadline_ns: When `on_deadline` is due, or 0.
    """

    deadline_ns: int

    def on_deadline(self) -> None:
        """The deadline is over; raises nothing."""

    def forget_peer(self) -> None:
        """Judge anew what kind of client this is, when its next request comes."""

    def forget_senders(self) -> None:
        """Forget by what it is known, of which its kind has forgotten some."""

    def hasten(self, deadline_ns: int) -> None:
        """Let the connection, if it is idle, close by then at the latest."""

    @property
    def has_seats(self) -> bool:
        """Whether a request of it has seats."""

    @property
    def has_long_answer(self) -> bool:
        """Whether the answer of a long-running request is under way."""

    def end_long_answer(self) -> None:
        """End it as if it were through; raises nothing."""

    def leave(self) -> None:
        """Close at once, as if the client had."""


class Abandoned(Protocol):
    """An answer that nobody waits for any more."""

    def end(self) -> None:
        """Give up waiting, and give the seats back."""

    def fail(self, error: Exception) -> None:
        """The same after an error of the program; never raises."""


class Context:
    """Settings as the hot path wants them, and the collaborators of every exchange.

    Attributes:
        abandoned: Answers that nobody waits for any more, but that seats are kept for.
        absences: Hears of clients that leave while nothing is read of them.
        access_log: Gets each request at its end; None for no log.
        audience: Those whose answers tell how flow control treated the request.
        audit_lines: Header lines of new Audit-IDs.
        authenticator: Authenticates clients.
        client_kinds: Tells clients apart, and reads their heads.
        connections: Clients' connections that are open, in the order in which they came.
        flow_control: What every request passes.
        has_audit_ids: Whether every request is given an Audit-ID.
        in_force: Limits and time-outs.
        is_plain: Whether the API is not Kubernetes', so that own answers are not either.
        is_draining: Whether answers say that their connection closes.
        on_connection_closed: Called after each client's connection that closes.
        limits: Counts what clients take.
        refusals: Why requests were refused without being classified, a line of each a minute.
    """

    def __init__(
        self,
        settings: Settings,
        flow_control: FlowControl,
        targets: Targets,
        pool: Pool,
        counters: ProxyCounters,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        identification: Identification = NO_IDENTIFICATION,
    ) -> None:
        self.access_log: RequestLog | None = None
        self.authenticator = identification.authenticator or Authenticator(clock)
        self.flow_control = flow_control
        self._targets = targets
        self.client_kinds = ClientKinds(
            settings, targets, identification.certificates, self._forget_senders
        )
        self.pool = pool
        self.counters = counters
        counters.is_observing = flow_control.is_observing
        self.clock = clock
        self.refusals = RareLog(log, clock.now_ns)
        self.loop = loop
        self.absences = Absences(loop)
        self.linger_ns = 2_000_000_000
        self.held_bytes = READ_BYTES // 2
        self.is_draining = False
        self._suffixes: dict[bytes, bytes] = {}
        self.on_connection_closed: Callable[[], None] = lambda: None
        self.connections: dict[OpenConnection, None] = {}
        self.abandoned: dict[Abandoned, None] = {}
        self.is_plain = PRESETS[settings.preset].is_plain
        self.limits = ClientLimits(settings.downstream.limits, counters, is_plain=self.is_plain)
        self.in_force = LimitsInForce.of(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)
        self.audit_lines = made_audit_lines()

    def configure(self, settings: Settings, identification: Identification) -> None:
        """Put settings in force, and who may ask, for requests that come from now on."""
        self.authenticator = identification.authenticator or Authenticator(self.clock)
        self.in_force = LimitsInForce.of(settings)
        self.has_audit_ids = has_audit_ids(settings)
        self.audience = Audience(settings.downstream.explain_answers_to)
        self.is_plain = PRESETS[settings.preset].is_plain
        self.limits.configure(settings.downstream.limits, is_plain=self.is_plain)
        self._targets.configure(settings)
        # What is kept of heads has the limits in it, and who may assert an identity.
        self.client_kinds = ClientKinds(
            settings, self._targets, identification.certificates, self._forget_senders
        )
        self.forget_identities()

    def enforce(self, flow_control: FlowControl) -> None:
        """Let requests that come from now on pass another flow control."""
        self.flow_control = flow_control
        self._targets.enforce(flow_control)
        self.counters.is_observing = flow_control.is_observing

    def forget_identities(self) -> None:
        """Authenticate every client again, from its next request on."""
        self.client_kinds.forget()
        for connection in self.connections:
            connection.forget_peer()

    def _forget_senders(self) -> None:
        for connection in self.connections:
            connection.forget_senders()

    def intern(self, suffix: bytes) -> bytes:
        """The same bytes, one object for all connections of a client."""
        if len(self._suffixes) >= MAX_KEPT_SUFFIXES:
            self._suffixes.clear()
        return self._suffixes.setdefault(suffix, suffix)


def has_audit_ids(settings: Settings) -> bool:
    """Whether every request has an Audit-ID: only the access log needs it."""
    return settings.access_log.path is not None and settings.access_log.audit_ids
