"""The clusters of a process: made, changed and removed while others serve.

1. Each stands for itself.  One that cannot be used answers 503, or keeps what it had, and is tried
   again now and then; its health check says why.
2. Without `clusters` in the settings there is one, named "", which all requests go to.  It is made
   with the process, and its mistakes are those of the process.
3. A cluster that is new, or has to be made again (see `is_another`), starts while others serve.
   What it replaces serves until it is ready; then that one's requests end, as those of a removed
   one do.
4. A host or a prefix that goes from one cluster to another is served by the one before until the
   other is ready, or for `STARTS_S`.
5. Requests to a cluster get 503 while it does not know objects or servers that others tell of.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from apfproxy.admin.gathering import cluster_state
from apfproxy.app.cluster import Cluster
from apfproxy.app.running import spare_collector
from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part, report
from apfproxy.base.files import REREAD_PERIOD_S
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.proxy.cluster_router import RETRY_AFTER_S, Route
from apfproxy.proxy.server import drain
from apfproxy.settings import ClusterSettings
from apfproxy.settings.change import NO_CHANGE, Change
from apfproxy.sources.fleet_store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterator

    from apfproxy.admin.observation import Observation
    from apfproxy.admin.state import ClusterState
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.health_checks import ClusterHealth, HealthChecks, HealthRegistry
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import ListenerContext
    from apfproxy.proxy.server import ProxyServer
    from apfproxy.settings import Settings
    from apfproxy.sources.fleet_store import StoreOpener

ONLY = ""
CLUSTERS, START = "clusters", "start"
STARTS_S = 2.0
"""After this time others do not wait for clusters to start any more."""
SUCCESSORS_STARTS_S = 30.0
"""Where another process serves until then."""
ROUTED_WITHIN_S = 0.05
"""After a change of one of many clusters: routes are made for all together."""
GONE_PART = 4
LEAST_GONE = 16
"""Clusters that are gone, and still in memory: at least so many, or one of four that serve."""
STARTING = "it is starting"
IS_STARTING = "is starting: ask again soon"
IS_WRONG = "cannot be used: the log of the proxy says why"
"""Clients may know no more: problems name paths and addresses."""
OWN_ERROR = "an error of the proxy itself; its log says more"

logger = logging.getLogger(__name__)


class Member:
    """A cluster as the settings name it.

    `wanted` is as the settings have it, `in_force` as it serves; `problem` says why these differ.
    `cluster` serves once `in_force` is there.  `changing` is held while one of the tasks in
    `changes` works; `starting` has the checks of what is to serve soon.
    """

    def __init__(self, wanted: ClusterSettings) -> None:
        self.wanted = wanted
        self.in_force: ClusterSettings | None = None
        self.cluster: Cluster | None = None
        self.problem = STARTING
        self.changing = asyncio.Lock()
        self.changes: set[asyncio.Task[None]] = set()
        self.starting: ClusterHealth | None = None

    @property
    def is_well(self) -> bool:
        cluster = self.cluster
        if cluster is None:
            return False
        return not cluster.settings.upstream.fails_readiness or cluster.upstream.health() is None

    def state(self, observation: Observation, *, is_full: bool) -> ClusterState:
        """The cluster as the settings name it, and as it is now."""
        wanted, cluster = self.wanted, self.cluster
        return cluster_state(
            None if cluster is None else cluster.parts(observation),
            name=wanted.name,
            where=", ".join((*wanted.hosts, *filter(None, (wanted.path_prefix,)))),
            problem=self.problem if wanted.name else "",
            is_full=is_full,
        )

    def route(self) -> Route:
        place, cluster = self.in_force or self.wanted, self.cluster
        return Route(
            place.name,
            place.hosts,
            (place.path_prefix or "").encode(),
            cluster.served if cluster is not None and self.in_force else None,
            IS_STARTING if self.problem == STARTING else IS_WRONG,
            tls_group(cluster.settings) if cluster is not None and place.name else None,
            place.max_connections,
            RETRY_AFTER_S if place.name else 1,
        )

    def __repr__(self) -> str:
        return f"<Member {self.wanted.name}: {self.problem or 'in force'}>"


class Clusters:
    """Keeps clusters as the settings want them; OperatorError if the only one cannot be made."""

    def __init__(  # noqa: PLR0913, PLR0917  parts of the process
        self,
        settings: Settings,
        shared: ListenerContext,
        router: ClusterRouter,
        server: ProxyServer,
        observation: Observation,
        health: HealthRegistry,
        events: ConfigurationEvents,
        is_admin_local: Callable[[], bool],
        open_store: StoreOpener = open_store,
    ) -> None:
        self._shared = shared
        self._router = router
        self._health = health
        self._events = events
        self._is_admin_local = is_admin_local
        self._open_store = open_store
        self._server = server
        self._observation = observation
        self._members: dict[str, Member] = {}
        self._before: tuple[Route, ...] = ()
        """While the settings change: where requests went, unless that cluster has left."""
        self._checks: dict[Cluster, ClusterHealth] = {}
        """Health of several clusters: those that start, serve and leave."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._left: list[Cluster] = []
        """Clusters that are to leave as soon as no more requests are routed to them."""
        self._routing: asyncio.TimerHandle | None = None
        self._is_putting = False
        self._gone = 0
        self._is_retrying = False
        if not settings.clusters:
            member = self._members[ONLY] = Member(named(settings)[0])
            member.cluster = self._made(ONLY, settings, health)
        self._route()

    def __iter__(self) -> Iterator[Cluster]:
        """Clusters that serve, in the order of the settings."""
        return (each.cluster for each in self._members.values() if each.cluster is not None)

    @property
    def only(self) -> Cluster | None:
        """The cluster of a process without `clusters` in its settings."""
        return self._members[ONLY].cluster if ONLY in self._members else None

    @property
    def members(self) -> tuple[Member, ...]:
        """All, in the order of the settings."""
        return tuple(self._members.values())

    async def start(self, settings: Settings, within_s: float = STARTS_S) -> None:
        """Start all; those that take longer go on to start while others serve.

        OperatorError if the only cluster cannot be used.
        """
        if (only := self.only) is not None:
            await only.start(self._is_admin_local)
        await self.put(settings, within_s)
        if only is None:
            return
        member = self._members[ONLY]
        if member.changes:
            self._spawn(self._announce(member), "waiting to serve")
        elif member.problem:
            raise OperatorError(member.problem)

    async def _announce(self, only: Member) -> None:
        logger.info("requests get 503 until it is known which objects and servers there are")
        self._health.add(START, pages=(READYZ,), problem=STARTING)
        await asyncio.wait(only.changes)
        self._health.discard(START)
        logger.info("requests are served from now on")

    async def prepare(self, settings: Settings) -> Change:
        """Make what the only cluster needs of other settings; `put` does so for several."""
        if (only := self.only) is None:
            return NO_CHANGE
        member, change = self._members[ONLY], await only.prepare(settings)

        def commit() -> None:
            change.commit()
            if member.in_force is not None:
                member.in_force = member.wanted = named(settings)[0]

        return Change(commit, change.discard)

    async def put(self, settings: Settings, within_s: float = STARTS_S) -> None:
        """Bring all to what the settings want; what takes long goes on meanwhile."""
        wanted = {each.name: each for each in named(settings)}
        if not self._is_retrying and ONLY not in wanted:
            self._is_retrying = True
            retrying = Supervised(Part.TASK, "trying clusters again", self._retry)
            self._tasks.add(retrying.start())
            self._health.add(CLUSTERS, pages=(READYZ,), look=self._problem)
        before = list(self._members)
        removed = [self._remove(name) for name in before if name not in wanted]
        changed: list[Member] = []
        for name, each in wanted.items():
            member = self._members.get(name) or self._add(each)
            if member.in_force != each or member.changing.locked():
                member.wanted = each
                changed.append(member)
            elif member.problem:
                member.wanted, member.problem = each, ""
        self._members = {name: self._members[name] for name in wanted}  # their order
        if not changed and before == list(wanted):
            return
        self._before = tuple(each for each in self._router.routes if each.context is not None)
        self._route()
        tasks: list[asyncio.Task[None]] = []
        self._is_putting = True
        try:
            for member in changed:
                tasks.append(self._bring_soon(member))
                # To make one takes some 10 ms, for each of which others would wait.
                await asyncio.sleep(0)
            if tasks:
                await asyncio.wait(tasks, timeout=within_s)
        finally:
            self._before, self._is_putting = (), False
            gone = [each for each in removed if each is not None]
            self._left += gone
            self._route()
            for cluster in gone:
                logger.info("cluster %s: removed", cluster.name)

    def _remove(self, name: str) -> Cluster | None:
        """Change a cluster no more; returns what serves of it, which is to leave."""
        member = self._members.pop(name)
        self._health.discard(check_of(name))
        for task in list(member.changes):
            task.cancel()
        if member.starting is not None:  # another one may have its name at once
            member.starting.close()
        return member.cluster

    def _add(self, wanted: ClusterSettings) -> Member:
        member = self._members[wanted.name] = Member(wanted)
        self._health.add(
            check_of(wanted.name),
            pages=(READYZ,),
            is_blocking=False,
            look=lambda: "; ".join(member.problem.splitlines()) or None,
        )
        return member

    def _bring_soon(self, member: Member) -> asyncio.Task[None]:
        task = self._spawn(self._bring(member), f"cluster {member.wanted.name}")
        member.changes.add(task)
        task.add_done_callback(member.changes.discard)
        return task

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = spawn(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _bring(self, member: Member) -> None:
        """Bring a cluster to what is wanted; its errors are its own."""
        async with member.changing:
            wanted = member.wanted
            if member.in_force == wanted:
                return
            problem = ""
            try:
                await self._change(member, wanted)
            except OperatorError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001  it is of this one alone
                report(Part.TASK, error, f"cluster {wanted.name}", loop=self._shared.loop)
                problem = OWN_ERROR
            if problem and problem != member.problem:
                for line in problem.splitlines():
                    logger.error("cluster %s: %s", wanted.name, line)
                outcome = "cannot be used" if member.cluster is None else "stays as it was"
                logger.error("cluster %s %s", wanted.name, outcome)
                text = f"{wanted.name}: {outcome}: {'; '.join(problem.splitlines())}"
                self._events.of_cluster(wanted.name).record(time.time(), text, is_error=True)
            member.problem = problem
            if not self._is_putting:
                self._route()
            elif self._routing is None:
                self._routing = self._shared.loop.call_later(ROUTED_WITHIN_S, self._route)

    async def _change(self, member: Member, wanted: ClusterSettings) -> None:
        settings, cluster = wanted.settings, member.cluster
        if settings is None:
            raise OperatorError("\n".join(wanted.problems))
        if cluster is not None and member.in_force is None:
            await self._open(cluster)
        elif cluster is not None and not is_another(cluster.settings, settings):
            change = await cluster.prepare(settings)
            change.commit()
            self._server.refit()
        else:
            member.cluster = await self._started(member, wanted, settings)
            if cluster is not None:
                self._left.append(cluster)
        member.in_force = wanted

    async def _started(
        self, member: Member, wanted: ClusterSettings, settings: Settings
    ) -> Cluster:
        """A cluster that has started; it takes the place of a member's."""
        before = member.cluster
        health = self._health.of_cluster(wanted.name)
        if before is None:
            health.publish()
        try:
            cluster = self._made(wanted.name, settings, health)
        except BaseException:
            health.close()
            raise
        self._checks[cluster] = health
        member.starting = health
        try:
            await cluster.start(self._is_admin_local)
            await self._open(cluster)
        except BaseException:
            await self._end(cluster)
            raise
        finally:
            member.starting = None
        if before is not None:
            self._checks[before].close()
        health.publish()
        return cluster

    def _made(self, name: str, settings: Settings, health: HealthChecks) -> Cluster:
        events = self._events.of_cluster(name)
        cluster = Cluster(settings, self._shared, health, events, name, self._open_store)
        self._server.add(cluster.served)
        return cluster

    async def _open(self, cluster: Cluster) -> None:
        """Wait for its objects and endpoints; its requests may come then."""
        try:
            await cluster.wait()
        except Exception as error:  # noqa: BLE001  the objects and servers that there are may do
            report(Part.TASK, error, loop=self._shared.loop)
        self._observation.begin(cluster.served, cluster.name)
        cluster.begin()

    def _leave(self, cluster: Cluster) -> None:
        """Let requests of a cluster end, to which no more come."""
        self._checks[cluster].close()

        async def leave() -> None:
            try:
                cut = await drain(cluster.served)
                if cut:
                    logger.warning("cluster %s: is gone; requests cut: %d", cluster.name, cut)
            finally:
                await self._end(cluster)

        task = self._spawn(leave(), f"leaving cluster {cluster.name}")
        self._leaving.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, left: asyncio.Task[None]) -> None:
        """Free the memory of clusters that have left, each of which is a cycle.

        That takes up to 2 ms for each cluster there is, in which requests wait: not for a few.
        """
        self._leaving.discard(left)
        self._gone += 1
        is_much = self._gone >= max(LEAST_GONE, len(self._members) / GONE_PART)
        if is_much and not self._leaving and not left.cancelled():
            self._gone = 0
            spare_collector()

    async def _end(self, cluster: Cluster) -> None:
        self._checks.pop(cluster).close()
        cluster.stop()
        cluster.served.stop()
        self._observation.end(cluster.served)
        self._server.discard(cluster.served)
        await cluster.close()

    def _route(self) -> None:
        """Tell where requests go from now on; of two ways from one place the first counts."""
        if self._routing is not None:
            self._routing.cancel()
            self._routing = None
        left, self._left = self._left, []
        ended = {each.served for each in left}
        self._before = tuple(each for each in self._before if each.context not in ended)
        routes = {name: member.route() for name, member in self._members.items()}
        usable = [each for each in routes.values() if each.context is not None]
        others = [each for each in routes.values() if each.context is None]
        only = routes[ONLY].context if ONLY in routes else None
        self._router.put((*usable, *self._before, *others), only)
        self._shared.forget_peers()
        for cluster in left:
            self._leave(cluster)

    async def _retry(self, beat: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(REREAD_PERIOD_S)
            await self.try_again()
            beat()

    async def try_again(self) -> None:
        """Try again what could not be used, and is not being tried: files may be there by now."""
        tasks = [
            self._bring_soon(member)
            for member in self._members.values()
            if member.problem and not member.changing.locked()
        ]
        if tasks:
            await asyncio.wait(tasks)

    def _all(self) -> list[Cluster]:
        """Clusters that start, serve and leave."""
        return list(dict.fromkeys((*self._checks, *self)))

    def _problem(self) -> str | None:
        if not self._members or any(member.is_well for member in self._members.values()):
            return None
        return "no cluster can be used"

    async def read_again(self) -> None:
        for cluster in list(self):
            await cluster.read_again()

    def stop_waiting(self) -> None:
        for cluster in self._all():
            cluster.stop_waiting()

    def stop(self) -> None:
        """Harmless if it never began."""
        if self._routing is not None:
            self._routing.cancel()
        for task in self._tasks:
            task.cancel()
        for cluster in self._all():
            cluster.stop()

    async def close(self) -> None:
        """End all that is left, once there are no requests; `stop` comes first."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for cluster in self._all():
            await cluster.close()

    def __repr__(self) -> str:
        return f"<Clusters: {list(self._members.values())}>"


def named(settings: Settings) -> tuple[ClusterSettings, ...]:
    """The clusters that settings name, or the only one."""
    return settings.clusters or (ClusterSettings(name=ONLY, settings=settings),)


def check_of(name: str) -> str:
    return f"cluster/{name}"


def is_another(before: Settings, after: Settings) -> bool:
    """Whether a cluster with other settings has to be made again.

    Objects of one source do not take the place of those of another.
    """
    was, will_be = before.flow_control, after.flow_control
    if (was.kubernetes, was.hash_seed) != (will_be.kubernetes, will_be.hash_seed):
        return True
    if not was.kubernetes.is_enabled:
        return False
    # The built-in objects, which serve until an API answers.
    return (was.suggested_objects, before.preset) != (will_be.suggested_objects, after.preset)


def tls_group(settings: Settings) -> Hashable:
    """Clusters with equal ones show and ask for the same certificates."""
    tls, authentication = settings.downstream.tls, settings.authentication
    return (
        *(tls.certificate_file, tls.key_file),
        *(authentication.client_ca_file, authentication.front_proxy.ca_file),
    )
