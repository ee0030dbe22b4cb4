"""One cluster as requests meet it: its flow control, its connections, and what they share."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, contained, report
from apfproxy.flowcontrol.passage import FlowControl
from apfproxy.proxy.context import Context
from apfproxy.proxy.drain_pace import WATCH_END_PERIOD_S, close_websockets, ended_at_once
from apfproxy.settings import OBSERVE
from apfproxy.upstream.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.authenticator import Authenticator
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.flowcontrol.meters import KindMeter
    from apfproxy.flowcontrol.passage import FlowObserver
    from apfproxy.flowcontrol.work_estimate import WorkEstimator
    from apfproxy.proxy.client import OpenConnection
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.listener_context import ListenerContext
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer
    from apfproxy.settings import Settings
    from apfproxy.upstream.tls import ClientTls


class ServedCluster:
    """The proxy of one cluster, without the connections of clients.

    Attributes:
        context: What its requests share.
        pool: The connections to its servers.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it puts together
        self,
        settings: Settings,
        listener: ListenerContext,
        controller: Controller,
        estimator: WorkEstimator,
        costs: LearnedCosts,
        kinds: KindMeter,
        counters: ProxyCounters,
        authenticator: Authenticator | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        self.settings = settings
        self._loop = listener.loop
        clock = listener.clock
        self.pool = Pool(settings.upstream, counters.pool, clock.now_ns, client_tls)
        flow_control = FlowControl(
            controller,
            estimator,
            costs,
            kinds,
            clock,
            unix_s=lambda: int(time.time()),
            on_error=self._on_error_of(settings),
        )
        self.context = Context(
            settings,
            listener,
            flow_control,
            self.pool,
            counters,
            authenticator,
        )
        self._idle_ns = round(settings.upstream.idle_timeout_s * 1e9)

    def _on_error_of(self, settings: Settings) -> Callable[[Exception], None] | None:
        """What hears of errors in passages that are only observed; None where none is."""
        return self._on_error if settings.flow_control.enforcement == OBSERVE else None

    def _on_error(self, error: Exception) -> None:
        """Tell of an error in a passage that is only observed; its request goes on."""
        report(
            Part.CONNECTION, error, "an error of the proxy itself: a passage ends", loop=self._loop
        )

    def observe(
        self,
        access_log: RequestLog | None,
        top_flows: FlowObserver | None,
        tracer: Tracer | None,
    ) -> None:
        """Tell of requests from now on."""
        self.context.access_log = access_log
        self.context.tracer = tracer
        self.context.flow_control.top_flows = top_flows

    def configure(
        self,
        settings: Settings,
        authenticator: Authenticator | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        """Put other settings in force, for what comes from now on."""
        context = self.context
        if settings.flow_control.enforcement != self.settings.flow_control.enforcement:
            # Another one: requests under way go on as they began.
            context.enforce(context.flow_control.replace(self._on_error_of(settings)))
        self.settings = settings
        self._idle_ns = round(settings.upstream.idle_timeout_s * 1e9)
        self.pool.configure(settings.upstream, client_tls)
        context.configure(settings, authenticator)

    def limit_connections(self, most: int) -> None:
        """Have no more connections to the servers than that."""
        if most < self.settings.upstream.max_connections:
            self.pool.limit(most)

    def forget_authentications(self) -> None:
        """Authenticate every client again, from its next request on."""
        self.context.forget_authentications()

    def on_sweep(self, now_ns: int, period_ns: int) -> None:
        """Look at what waits for clients, and at idle connections.

        Args:
            now_ns: The time.
            period_ns: The time since the last call.
        """
        with contained(Part.SWEEP, self._loop):
            self.context.slow_readers.on_sweep(period_ns)
        with contained(Part.SWEEP, self._loop):
            self.pool.close_idle(now_ns, self._idle_ns, period_ns)

    async def drain(self) -> int:
        """Let requests under way end, and end watches bit by bit; then stop.

        No request must come any more.  What is left after the settings' limit is broken.

        Returns:
            How many requests are cut.
        """
        cut = 0
        settings, listener = self.settings.drain, self.context.listener
        rounds = max(settings.timeout_s / 2 / WATCH_END_PERIOD_S, 1)
        try:
            async with asyncio.timeout(settings.timeout_s):
                while busy := self._busy():
                    watches = [each for each in busy if each.can_end_watch]
                    for connection in watches[: ended_at_once(len(watches), rounds)]:
                        connection.end_watch()
                    await asyncio.sleep(WATCH_END_PERIOD_S)
        except TimeoutError:
            cut = len(self._busy())
            await close_websockets(self._busy)
        finally:
            for connection in self._busy():
                if connection in listener.connections:
                    connection.leave()
            self.stop()
        return cut

    def _busy(self) -> list[OpenConnection]:
        """Clients' connections with a request under way."""
        connections = self.context.listener.connections
        return [each for each in connections if each.is_serving(self.context)]

    def stop(self) -> None:
        """Close all connections to the servers at once; those of clients are closed by now."""
        for answer in list(self.context.abandoned):
            try:
                answer.end()
            except Exception as error:  # noqa: BLE001  it is of this one alone
                answer.fail(error)
        self.pool.close()

    def __repr__(self) -> str:
        return f"<ServedCluster: {self.pool!r}>"
