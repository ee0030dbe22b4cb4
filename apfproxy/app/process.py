"""A whole proxy in one event loop: all parts put together, without a command line."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.admin.access import ADMIN_ACCESS
from apfproxy.admin.gathering import gathered
from apfproxy.admin.observation import Observation
from apfproxy.admin.questions import ASK, Asked, OwnStates
from apfproxy.app.admin_listener import AdminListener
from apfproxy.app.clusters import STARTS_S, SUCCESSORS_STARTS_S, Clusters
from apfproxy.app.listener_tls import ListenerTls, say_why_not, spoken
from apfproxy.app.reloading import SETTINGS, SettingsFile, reloading_tasks
from apfproxy.base import build
from apfproxy.base.clock import LoopClock
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.faults import Faults, Part
from apfproxy.base.health_checks import LIVEZ, READYZ, HealthRegistry
from apfproxy.base.listeners import LISTEN, Listeners
from apfproxy.base.service_manager import NO_SERVICE_MANAGER
from apfproxy.base.sockets import DescriptorWatch
from apfproxy.base.tasks import Supervised
from apfproxy.objects.field_errors import counted
from apfproxy.proxy.cluster_router import ClusterRouter
from apfproxy.proxy.context import ListenerContext
from apfproxy.proxy.counters import ListenerCounters
from apfproxy.proxy.http2 import available
from apfproxy.proxy.request import plain_rules
from apfproxy.proxy.server import BACKLOG, ProxyServer
from apfproxy.settings import FULL, OBSERVE
from apfproxy.settings.change import prepare_all
from apfproxy.settings.contradictions import one_flow
from apfproxy.sources.fleet_store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apfproxy.admin.state import ProcessState
    from apfproxy.app.cluster import Cluster
    from apfproxy.base.service_manager import ServiceManager
    from apfproxy.base.signals import Signals
    from apfproxy.settings import Settings
    from apfproxy.sources.fleet_store import StoreOpener

SPARE_STOP_S = 30.0
"""For what is left to do once connections are cut, such as writes to a log on a slow disk."""

SHUTDOWN = "shutdown"

NOT_REPLACED = (
    "SIGUSR2 means nothing here, and is ignored: only the parent of workers restarts without a gap;"
    " --workers 1 starts one"
)

MOST_NAMED = 3

logger = logging.getLogger(__name__)


class ProxyProcess:
    """The proxy: its clusters, what connects clients to them, and its admin listener.

    Make it in the loop that it is to run in; call `start`, and `drain` or `stop` at the end.
    `file` is what the settings are read from again; None where they never change.  `listeners` have
    what others have opened.  A successor has time to start: others serve until then.

    OperatorError if TLS or authentication cannot be set up.
    """

    ENDING = "draining"

    def __init__(
        self,
        settings: Settings,
        file: SettingsFile | None = None,
        *,
        listeners: Listeners | None = None,
        manager: ServiceManager = NO_SERVICE_MANAGER,
        is_successor: bool = False,
        open_store: StoreOpener = open_store,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.settings = settings
        self.manager = manager
        self._file = file or SettingsFile(None, lambda: self.settings)
        self._listeners = listeners or Listeners()
        self._starts_s = SUCCESSORS_STARTS_S if is_successor else STARTS_S
        self._started_s = time.time()
        # What all parts share.
        self.clock = LoopClock(loop)
        self.faults = Faults()
        self.faults.watch(loop)
        self.health = HealthRegistry()
        self.configuration_events = ConfigurationEvents()
        self.admin = AdminListener(settings, self._listeners, self.clock.now_ns)
        self.access = self.admin.access
        # For clients.
        self.counters = ListenerCounters()
        shared = ListenerContext(settings, self.counters, self.clock, loop)
        self._router = ClusterRouter(rules=plain_rules(settings))
        self.server = ProxyServer(settings, shared, self._router)
        self.health.add("sweep", look=self.server.sweep.problem)
        self.observation = Observation(settings, self.clock, shared, self.health)
        self.clusters = Clusters(
            settings,
            shared,
            self._router,
            self.server,
            self.observation,
            self.health,
            self.configuration_events,
            self.admin.is_local,
            open_store,
        )
        self.tls = ListenerTls(settings, self._router, self.clusters)
        # For operators.
        self.health.add(SETTINGS, pages=(READYZ,), is_blocking=False)
        self.health.add(SHUTDOWN, pages=(READYZ,))
        self.health.add(ADMIN_ACCESS, pages=(READYZ,), is_blocking=False, look=self.access.problem)
        self.states = OwnStates(self._gathered, self.health, self._asked)
        manager.show(self.states.encoded, {ASK: self.states.reply})
        # What goes on by itself.
        self.descriptors = descriptors = DescriptorWatch(self.clock.now_ns)
        self._watching_descriptors = Supervised(
            Part.ADMIN, "looking for a descriptor", lambda _beat: descriptors.run()
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._reloading: list[asyncio.Task[None]] = []

    @property
    def cluster(self) -> Cluster:
        """The only cluster, or the first of several that serves; RuntimeError if none does."""
        for cluster in self.clusters:
            return cluster
        raise RuntimeError("no cluster serves")

    @property
    def port(self) -> int:
        return self.server.port or 0

    @property
    def admin_port(self) -> int | None:
        return self.admin.port

    async def start(self) -> None:
        """Load the objects, then listen; all or nothing, or OperatorError."""
        try:
            self.observation.open()
            await self.clusters.start(self.settings, self._starts_s)
            await self._listen()
        except BaseException:
            await self.stop()
            raise
        self.tls.start()
        self._tasks.append(self._watching_descriptors.start())

    def _gathered(self) -> Iterator[ProcessState]:
        observed, is_full = self.observation, self.settings.metrics == FULL
        return gathered(
            started_s=self._started_s,
            health=self.health,
            faults=self.faults,
            clusters=(each.state(observed, is_full=is_full) for each in self.clusters.members),
            has_several=self.clusters.only is None,
            is_full=is_full,
            listener=self.counters,
            events=self.configuration_events,
            shortages=self.descriptors.shortages,
            access_log=observed.access_log,
            left_out=observed.log_budget.left_out,
            traces=observed.traces,
            admin=self.admin.state(),
        )

    def _asked(self, name: str) -> Asked | None:
        cluster = next((each for each in self.clusters if each.name == name), None)
        if cluster is None:
            return None
        return Asked(
            controller=cluster.controller,
            wall_offset_ns=time.time_ns() - self.clock.now_ns(),
            top_flows=self.observation.top_flows(cluster.served),
            explain=cluster.explanation,
        )

    async def _listen(self) -> None:
        downstream = self.settings.downstream
        sockets = await self._listeners.open(
            LISTEN, downstream.listen, BACKLOG, downstream.socket_mode
        )
        await self.server.start(sockets, self.tls.current)
        if not self.manager.shows_state:
            await self.admin.open(self.settings)
        only = self.clusters.only
        api = None if only is None else only.objects.api
        await self.admin.start(self.states, () if api is None else api.routes())

    def _is_well(self) -> bool:
        """Whether a new process would be of no help."""
        return self.health.page(LIVEZ, verbose=False).is_healthy

    async def renew(self, settings: Settings) -> None:
        """Put settings in force that differ only in what may change, see `reloading`.

        All parts are made before the first is put in force; with an OperatorError nothing has
        changed.
        """
        parts = (self.clusters, self.tls, self.access, self.observation)
        change = await prepare_all([each.prepare for each in parts], settings)
        change.commit()
        self.server.configure(settings, self.tls.current)
        self._router.rules = plain_rules(settings)
        before, now = self.settings.downstream, settings.downstream
        if (now.http2, now.max_head_bytes) != (before.http2, before.max_head_bytes):
            say_why_not(now)
        self.settings = settings  # only now: what could not be put in force is tried again
        await self.clusters.put(settings)

    async def read_again(self) -> None:
        self.observation.reopen()
        await self.tls.read_again()
        await self.access.read_again()
        await self.clusters.read_again()

    def _rotate(self) -> None:
        if self.observation.access_log is None:
            logger.warning("SIGUSR1 means nothing here, and is ignored: no access log is open")
        self.observation.reopen()

    def hurry(self, _cancel: Callable[[], object]) -> None:
        self.clusters.stop_waiting()

    def is_busy(self) -> bool:
        return self.server.connection_count > 0

    def attend(self, signals: Signals) -> None:
        """SIGHUP reads everything again, SIGUSR1 opens the log again."""
        signals.on_rotation(self._rotate)
        self._log_start()
        self._listeners.serve()
        signals.on_replacement(partial(logger.warning, "%s", NOT_REPLACED))
        self.manager.begin(self._is_well)
        self._reloading = reloading_tasks(signals.hangup, self, self._file)

    async def drain(self) -> None:
        """Stop without losing a request; cancelled, stop at once.

        `/readyz` fails at once; connections are still accepted for the shutdown delay, in which
        load balancers turn away.  A worker that another one has taken over from drains at once.
        """
        self._end_reloading()
        drain = self.settings.drain
        within_s = drain.shutdown_delay_s + drain.timeout_s + SPARE_STOP_S
        self.health.report(SHUTDOWN, "the process is shutting down")
        try:
            is_succeeded = self.manager.is_relieved
            self.manager.stopping(within_s)
            if not is_succeeded:
                await asyncio.sleep(drain.shutdown_delay_s)
            await self.server.drain(is_succeeded=is_succeeded)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End at once; harmless if it never started."""
        self._end_reloading()
        self.manager.end()
        self.clusters.stop()
        self.tls.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.server.stop()
        await self.observation.close()  # after the last request's end
        await self.manager.last()
        await self.clusters.close()
        await self.admin.close()
        self._listeners.give_up()

    def _end_reloading(self) -> None:
        for task in self._reloading:
            task.cancel()
        self._reloading = []

    def _log_start(self) -> None:
        settings = self.settings
        logger.info(
            "apfproxy %s listens on %s%s, forwards to %s, admin on %s; %s, at most %s connections",
            build.version(available.version()),
            self._listeners.written(LISTEN),
            spoken(settings.downstream),
            self._named_clusters(),
            "its parent's address" if self.manager.shows_state else self.admin.written,
            self._named_seats(),
            self.server.max_connections or "any number of",
        )
        say_why_not(settings.downstream)
        for cluster in self.clusters:
            if problem := one_flow(cluster.settings):
                named = f"cluster {cluster.name}: " if cluster.name else ""
                logger.warning("%s%s", named, problem)
        if text := self.admin.warning(settings):  # the parent of workers warns for them
            logger.warning("%s", text)
        if self.clusters.only is not None:
            self._log_only(settings, self.clusters.only)

    def _named_clusters(self) -> str:
        if self.clusters.only is not None:
            urls = [each.url for each in self.clusters.only.served.pool.endpoints]
            whole = self.settings.upstream.address.url
            return f"{len(urls)} servers ({first_of(urls)})" if len(urls) > 1 else whole
        serving, count = [each.name for each in self.clusters], len(self.clusters.members)
        part = "" if len(serving) == count else f"{len(serving)} of "
        return f"{part}{counted(count, 'cluster')} ({first_of(serving) or 'none serves'})"

    def _named_seats(self) -> str:
        controllers = [each.controller for each in self.clusters]
        seats = sum(each.server_concurrency_limit for each in controllers)
        levels = sum(len(each.levels) for each in controllers)
        at_first = " to begin with" * any(each.found_limit is not None for each in self.clusters)
        return f"{counted(seats, 'seat')}{at_first}, {counted(levels, 'priority level')}"

    def _log_only(self, settings: Settings, cluster: Cluster) -> None:
        if settings.flow_control.enforcement == OBSERVE:
            logger.warning(
                "flow control only observes: no request is rejected or delayed; the live page,"
                " `apfproxy top` and apiserver_flowcontrol_* metrics tell what enforcing would do"
            )
        if (kubernetes := cluster.objects.kubernetes) is not None:
            logger.info(
                "objects are those of %s%s",
                kubernetes.api.server,
                "" if kubernetes.is_synced else ", which are not here yet",
            )
        if settings.flow_control.store is not None and settings.admin and self.admin.is_open:
            admin = dataclasses.replace(settings.admin, port=self.admin_port or 0)
            logger.info(
                "objects are in %s: %s",
                settings.flow_control.store,
                f"curl --unix-socket {admin.path} http://localhost/apis"
                if admin.path
                else f"kubectl --server http://{admin.from_here} get flowschemas",
            )


def first_of(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
