"""One cluster: all that its requests need, and that keeps its configuration up to date."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.admin.explain_page import NOT_ENFORCED, TOLD_APART, explained
from apfproxy.admin.gathering import ServingParts
from apfproxy.admin.state import LoadsState
from apfproxy.admin.verdict import limit_text
from apfproxy.app.found_limit import FoundLimit
from apfproxy.app.identities import Identities
from apfproxy.app.identities import parts_of as identity_settings
from apfproxy.base.events import shortfall
from apfproxy.base.faults import Part
from apfproxy.base.health_checks import PAGES, READYZ
from apfproxy.base.tasks import Recurring
from apfproxy.fleet.membership import open_membership
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.limits import ADJUSTMENT_PERIOD_S
from apfproxy.flowcontrol.passage import FlowControl
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.proxy.context import Context, passage_errors
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE, PROMPT, UNSAID
from apfproxy.settings.change import NO_CHANGE, Change, prepare_all
from apfproxy.settings.contradictions import one_flow, verifies_users
from apfproxy.sources.endpoint_source import EndpointSource
from apfproxy.sources.fleet_store import open_store
from apfproxy.sources.object_counts import ObjectCounts
from apfproxy.sources.object_source import ObjectSource, source_text
from apfproxy.sources.servers_behind import ServersBehind
from apfproxy.upstream.health import UpstreamHealth
from apfproxy.upstream.pool import Pool
from apfproxy.upstream.rebalance import Rebalancing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.admin.observation import Observation
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.base.tls_files import Lifetime
    from apfproxy.flowcontrol.explanation import Explanation
    from apfproxy.proxy.context import ListenerContext
    from apfproxy.settings import EndpointAddress, Settings
    from apfproxy.sources.fleet_store import StoreOpener

STALE_LIMITS_S = 3 * ADJUSTMENT_PERIOD_S
"""After two adjustments in a row that did not come to their end."""

CONFIGURATION = "configuration"
ENFORCEMENT = "enforcement"
FLEET = "fleet"
UPSTREAM = "upstream"
SERVERS = "servers"

OBSERVES = "flow control only observes: no request is rejected or delayed (flowControl.enforcement)"

logger = logging.getLogger(__name__)


class Cluster:
    """All that a cluster's requests need, and what keeps it up to date.

    Make it in the loop that it is to run in; call `start`, and `close` at the end.  Its name is ""
    in a process without `clusters`.  OperatorError if TLS or authentication cannot be set up.
    """

    def __init__(
        self,
        settings: Settings,
        listener: ListenerContext,
        health: HealthChecks,
        events: ConfigurationEvents,
        name: str = "",
        open_store: StoreOpener = open_store,
    ) -> None:
        clock, loop = listener.clock, listener.loop
        self.name = name
        self.settings = settings
        self.clock = clock
        self._loop = loop
        self.counters = ProxyCounters(listener.counters)
        self.config_status = LoadsState()
        self._health = health
        self._events = events
        self._is_begun = False
        self._server_limit = settings.flow_control.seats(len(settings.upstream.addresses))
        # Who asks.
        self.identities = self._identities_of(settings)
        # Who gets seats.
        seed = settings.flow_control.hash_seed
        self.controller = Controller(
            clock,
            self._server_limit,
            secrets.randbits(32) if seed is None else seed,
            is_prompt=settings.flow_control.limit_adjustment == PROMPT,
            on_short=self._on_short,
        )
        flow_control = FlowControl(
            self.controller,
            clock,
            unix_s=lambda: int(time.time()),
            on_error=passage_errors(settings, loop),
        )
        self.kinds, self.costs = flow_control.kinds, flow_control.costs
        self.estimator = flow_control.estimator
        self.estimator.bound_lists(settings.flow_control.max_list_seats)
        self._adjustments = Recurring(
            Part.LIMITS,
            loop,
            ADJUSTMENT_PERIOD_S,
            STALE_LIMITS_S,
            self.controller.adjust_limits,
            self.controller.adjustment_pauses_s(),
        )
        # Who responds.
        identities, counters = self.identities, self.counters.pool
        pool = Pool(settings.upstream, counters, clock.now_ns, identities.client_tls)
        pool.slots = settings.slots
        self.served = Context(
            settings, listener, flow_control, pool, self.counters, identities.authenticator
        )
        self.found_limit: FoundLimit | None = None
        # What others tell: seats, objects, servers, costs.
        behind = ServersBehind(lambda: self.settings.upstream, self._servers)
        self.membership = open_membership(
            settings,
            name,
            self.controller,
            self._seats,
            events,
            self._note_limits,
            lambda fleet, key: open_store(fleet, key, behind),
        )
        self.objects = ObjectSource(settings, self.controller, health, self._on_load, behind)
        self.endpoints = EndpointSource(settings, health, pool.set_endpoints, behind)
        self.counts = ObjectCounts(
            settings, self.costs.set_object_counts, clock.now_ns, health, behind.like
        )
        # Last: it calls back, and a fleet that cannot be used is known by now.
        self.upstream = UpstreamHealth(
            settings,
            pool,
            counters,
            loop,
            clock.now_ns,
            cluster=name,
            own_lines=lambda: self.identities.own_lines,
            on_change=self._on_servers,
        )
        self._rebalancing = Rebalancing(
            settings.upstream, pool, counters, loop, clock.now_ns, lambda: self.upstream.is_steady
        )
        self._find_limit(settings)
        self._list_checks()

    def _find_limit(self, settings: Settings) -> None:
        """Look for the server limit, or no more, by the settings; one that was found stays."""
        before = self.found_limit
        if before is not None:
            if before.is_by(settings):
                return
            before.stop()
        self.found_limit = self.served.load_meter = None
        if not settings.flow_control.is_auto:
            return
        self.found_limit = FoundLimit(
            settings,
            self.controller,
            self.counters.pool,
            self._loop,
            lambda: None if self.membership is None else self.membership.ledger,
            self._fit_limit,
            None if before is None else before.finder.limit,
        )
        if before is not None:  # counters never fall
            self.found_limit.finder.decided = before.finder.decided
        self.found_limit.has_endpoints(self.served.pool.healthy_count)
        self.served.load_meter = self.found_limit.meter
        if self._is_begun:
            self.found_limit.start()

    def _list_checks(self) -> None:
        self.identities.list_in(self._health)
        self._list_upstream(self.settings)
        # Without adjustments the limits stay as they are: no reason to lose the requests.
        listed = partial(self._health.add, pages=(READYZ,), is_blocking=False)
        listed("limits", look=self._limits_problem)
        listed(CONFIGURATION)
        self._list_enforcement(self.settings)
        if self.membership is not None:
            listed(FLEET, look=self.membership.problem)

    def _limits_problem(self) -> str | None:
        found = self.found_limit
        return self._adjustments.problem() or (None if found is None else found.problem())

    def _identities_of(self, settings: Settings) -> Identities:
        return Identities(
            settings,
            self.clock,
            choose=self._choose,
            on_clients_change=lambda: self.served.forget_authentications(),  # noqa: PLW0108 - made later
            on_own_change=lambda: self.served.pool.renew(),  # noqa: PLW0108 - made later
        )

    def own_tokens(self) -> Iterator[tuple[str, str, Lifetime]]:
        """The proxy's own tokens that say for how long they are good: setting, file, lifetime."""
        yield from self.identities.own_tokens()
        if (kubernetes := self.objects.kubernetes) is not None:
            path, lifetime = kubernetes.api.credentials.own_token
            if lifetime is not None:
                yield "flowControl.kubernetes.kubeconfig", path, lifetime

    def _choose(self, avoided: EndpointAddress | None) -> EndpointAddress | None:
        """The server for a question of the proxy's own; None if none is known."""
        drawn = [each.address for each in self.served.pool.endpoints if each.is_drawn]
        others = [each for each in drawn if each != avoided] or drawn
        # To draw it needs no secrecy.
        return random.choice(others) if others else None  # noqa: S311

    def _servers(self) -> dict[str, str | None]:
        """The healthy endpoints first, with the names in their certificates."""
        pool, name = self.served.pool, self.settings.upstream.tls.server_name
        return {
            each.url: name or each.address.server_name
            for each in sorted(pool.endpoints, key=lambda each: not each.is_drawn)
            if not each.address.address.path
        }

    def _on_servers(self) -> None:
        self._fit_limit()
        failing = {each.url for each in self.served.pool.endpoints if not each.is_drawn}
        self.objects.leave(failing)
        self.endpoints.leave(failing)

    async def start(self, is_admin_local: Callable[[], bool]) -> None:
        """Put the objects in force, and look for the endpoints; OperatorError.

        `is_admin_local` says whether only this machine reaches the API of a store.
        """
        self.endpoints.start()
        await self.objects.start(is_admin_local)

    async def wait(self) -> None:
        """Wait for objects and endpoints that others tell of, each within its time."""
        await asyncio.gather(self.objects.wait(), self.endpoints.wait())
        if self.membership is not None:
            await self.membership.join()

    def begin(self) -> None:
        self._adjustments.start()
        if self.found_limit is not None:
            self.found_limit.start()
        self.upstream.start()
        self._rebalancing.start()
        self.identities.start()
        self._is_begun = True
        self.counts.start()

    def _list_enforcement(self, settings: Settings) -> None:
        self._health.discard(ENFORCEMENT)
        if settings.flow_control.enforcement == OBSERVE:
            self._health.add(ENFORCEMENT, pages=(READYZ,), is_blocking=False, problem=OBSERVES)

    def _list_upstream(self, settings: Settings) -> None:
        self._health.discard(UPSTREAM)
        self._health.discard(SERVERS)
        # A new process would fare no better: only /readyz may fail, and only if asked to.
        is_needed = settings.upstream.fails_readiness
        self._health.add(
            UPSTREAM,
            pages=(READYZ,) if is_needed else PAGES,
            is_blocking=is_needed,
            look=self.upstream.health,
        )
        if settings.upstream.url == UNSAID:
            self._health.add(SERVERS, is_blocking=False, look=self.upstream.out)

    def _fit_limit(self) -> None:
        """Have as many seats as the settings say for the healthy endpoints."""
        pool, found = self.served.pool, self.found_limit
        if found is not None:
            found.has_endpoints(pool.healthy_count)
        seats = self._seats()
        if seats == self._server_limit:
            return
        self._server_limit, well = seats, pool.healthy_count
        if self.membership is None:
            if found is None:
                self.controller.resize(seats)
            else:
                self.controller.follow(seats)
        else:
            self.membership.look()
        self._note_limits()
        if self.settings.flow_control.per_endpoint is not None:
            verb = "is" if well == 1 else "are"
            text = f"{seats} seats, since {well} of {len(pool.endpoints)} servers {verb} well"
            if not well:
                text = f"{seats} seats, as for one server, since none is well"
            if self.name:
                text = f"{self.name}: {text}"
            logger.info("%s", text)
            self._events.record(time.time(), text)

    def _seats(self) -> int:
        if self.found_limit is not None:
            return self.found_limit.limit
        return self.settings.flow_control.seats(self.served.pool.healthy_count)

    def _on_short(self, level: str, seats: int) -> None:
        """A request waits, or is rejected, that more of a shared limit would admit."""
        if self.membership is not None:
            self.membership.on_short(level, seats)

    async def prepare(self, settings: Settings) -> Change:
        """Make what other settings need; OperatorError has a line for each problem."""
        before = self.settings
        parts = [self._prepare_identities]
        if settings.upstream != before.upstream:
            parts.append(self.endpoints.prepare)
        if objects_settings(settings) != objects_settings(before):
            parts += (self.objects.prepare, self.counts.prepare)
        return await prepare_all(parts, settings, lambda: self._configure(settings))

    async def _prepare_identities(self, settings: Settings) -> Change:
        if identity_settings(settings) == identity_settings(self.settings):
            return NO_CHANGE
        # In a thread, as it reads files, and may import what takes a tenth of a second.
        identities = await asyncio.to_thread(self._identities_of, settings)
        return Change(lambda: self._put_identities(identities))

    def _put_identities(self, identities: Identities) -> None:
        identities.succeed(self.identities)
        self.identities = identities
        if self._is_begun:
            identities.start()
        identities.list_in(self._health)

    def _configure(self, settings: Settings) -> None:
        """Put the rest of the settings in force."""
        before, self.settings = self.settings, settings
        identities = self.identities
        self.served.configure(settings, identities.authenticator, identities.client_tls)
        if (settings.upstream, settings.preset) != (before.upstream, before.preset):
            self.upstream.configure(settings)
            self._rebalancing.configure(settings.upstream)
            self._list_upstream(settings)
        if settings.flow_control != before.flow_control:
            self._list_enforcement(settings)
            is_prompt = settings.flow_control.limit_adjustment == PROMPT
            self.controller.adjust_promptly(is_prompt=is_prompt)
            self.estimator.bound_lists(settings.flow_control.max_list_seats)
            self._find_limit(settings)
        if (settings.flow_control, settings.upstream) != (before.flow_control, before.upstream):
            self._fit_limit()
            self._note_limits()

    async def read_again(self) -> None:
        await self.identities.files.check()
        await self.objects.read_again()

    def stop_waiting(self) -> None:
        self.objects.stop_waiting()
        self.endpoints.stop_waiting()

    def stop(self) -> None:
        """Put nothing in force any more; harmless if it never began."""
        self._adjustments.stop()
        if self.found_limit is not None:
            self.found_limit.stop()
        if self.membership is not None:
            self.membership.stop()
        self.upstream.stop()
        self._rebalancing.stop()
        self.objects.end_watching()
        self.counts.close()

    async def close(self) -> None:
        """End all questions and writes; `stop` comes first."""
        if self.membership is not None:
            await self.membership.leave()
        await self.identities.close()
        await self.objects.close()
        await self.endpoints.close()

    def _on_load(
        self, problems: tuple[Problem, ...], dangling: tuple[str, ...], *, is_whole: bool
    ) -> None:
        texts = tuple(parts_of(problems))
        self.config_status.loaded(len(problems), time.time())
        self._events.loaded(
            time.time(), self.controller.generation, texts, dangling, is_whole=is_whole
        )
        if self.membership is not None:
            self.membership.look()
        # With problems, too: where objects come one by one, all others are in force.
        self._note_limits()
        lacking = shortfall(texts, dangling, is_whole=is_whole)
        self._health.report(CONFIGURATION, lacking or None)

    def parts(self, observation: Observation) -> ServingParts:
        settings, identities, membership = self.settings, self.identities, self.membership
        names = identities.names
        problems = one_flow(settings), names.problem() if names else ""
        return ServingParts(
            controller=self.controller,
            kinds=self.kinds,
            loads=self.config_status,
            counters=self.counters,
            pool=self.served.pool,
            upstream=self.upstream,
            authentications=identities.authenticator.counters,
            enforcement=settings.flow_control.enforcement,
            source=source_text(settings.flow_control),
            ban_command=self.objects.ban_command,
            seats_per_endpoint=settings.flow_control.per_endpoint,
            client_problems=[problem for problem in problems if problem],
            knows_users=verifies_users(settings),
            is_plain=PRESETS[settings.preset].is_plain,
            found_limit=None if self.found_limit is None else self.found_limit.view(),
            fleet=None if membership is None else membership.view(),
            shared=None
            if membership is None
            else (membership.ledger.limit, 1 + len(membership.ledger.others)),
            top_flows=observation.top_flows(self.served),
            reviews=identities.review_apis,
            certificates=identities.expiries(),
            tokens=list(self.own_tokens()),
        )

    def explanation(self, query: str) -> Explanation:
        """Say what would happen to a request; ValueError if the query makes no sense."""
        return explained(query, self.controller, self.costs, self.settings, self._notes)

    def _notes(self, user: User) -> Iterator[str]:
        if self.settings.flow_control.enforcement == OBSERVE:
            yield NOT_ENFORCED
        if self.found_limit is not None:
            yield limit_text(self.found_limit.view(), time.time())
        if user is ANONYMOUS and self.settings.authentication.unverified.is_any:
            yield TOLD_APART

    def _note_limits(self) -> None:
        self.kinds.set_limits(
            self.clock.now_ns(), self.controller.waiting_limit, self.controller.executing_limit
        )


def objects_settings(settings: Settings) -> object:
    """All settings of the source of objects, and of their costs."""
    return settings.flow_control, settings.preset, settings.admin_token_file
