"""Puts FlowSchemas and PriorityLevelConfigurations to work, and others in their place later.

Reconfiguration has two phases.  `digest` checks the objects and makes everything that could fail,
without touching what is in force, so that a thread may do it while requests go on; `commit` swaps
it in, at once, and cannot fail.  What an object comes to is worked out once: the next digest takes
it over from the configuration in force, if the object is the same or equal.

1. The objects are valid.  Of two with one name the first counts.
2. The mandatory objects, `exempt` and `catch-all` of either kind, exist always: where the
   given ones lack them, as built in.
3. A FlowSchema whose priority level does not exist is dangling: not used, and reported.
4. A level that stays keeps its queue set, its requests and its history of demand.
5. A level that goes is quiescing while anything waits or executes there.  It takes no requests,
   but keeps its shares, so that it drains; then it disappears.  If its object comes back in the
   meantime, it revives.
6. An addition, an annotation under `apfproxy.io/`, that is wrong does not count, and is reported;
   its object does count.
7. Counters stay when objects go, so that what Prometheus reads never falls back.

Source: kubernetes/apiserver pkg/util/flowcontrol/apf_controller.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping  # noqa: TC003  compiled, `Digest` has it at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.classifier import (
    Classifier,
    added_distinguisher,
    flow_hash,
    matching_order,
    no_header,
)
from apfproxy.flowcontrol.flow_limits import LONGEST_NAME, FlowLimits
from apfproxy.flowcontrol.limits import (
    ADJUSTMENT_PERIOD_S,
    LevelLimits,
    adjust,
    level_limits,
    max_seats,
    nominal_limits,
    round_half_up,
    within,
)
from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.priority_level import PriorityLevel, level_shares, queue_set_config
from apfproxy.flowcontrol.prompt_limits import FIRST_PAUSES_S, PromptLimits, divide
from apfproxy.flowcontrol.queue_set import UNLIMITED, QueueSet
from apfproxy.flowcontrol.seat_pool import PoolMember, SeatPool
from apfproxy.flowcontrol.ticket import Flow
from apfproxy.objects.additions import NO_FLOW_SCHEMA_ADDITIONS, TOKENS
from apfproxy.objects.decode import mandatory_objects
from apfproxy.objects.names import CATCH_ALL
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    kind_of,
    stable_uid,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.limits import Adjustment, LevelDemand
    from apfproxy.flowcontrol.queue_set import QueueSetConfig
    from apfproxy.request.attributes import RequestAttributes, User

BY_USER: Final = "ByUser"
BY_NAMESPACE: Final = "ByNamespace"
NO_SEATS: Final = LevelLimits(0, 0, 0)
"""Limits of a level that a shared limit knows nothing of yet."""
MAX_KEPT_CLASSIFICATIONS = 16384
"""Flows remembered, 500 bytes each; when they are more, the older half is forgotten."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A configuration that has been checked and can be committed.

    Attributes:
        priority_levels, flow_schemas: By name, mandatory ones included, dangling ones not.
        dangling: FlowSchema name to the name of the priority level that does not exist.
        problems: One line each: what is skipped or not used, and why.
        unused_additions: How many of them are additions that are wrong.
        checked: Each object that was given, by its kind and name, with what was found.
        new_levels: What levels that were not there will be, until they are committed.
    """

    priority_levels: Mapping[str, PriorityLevelConfiguration] = field(default_factory=dict)
    flow_schemas: Mapping[str, FlowSchema] = field(default_factory=dict)
    classifier: Classifier = field(default_factory=lambda: Classifier(()))
    dangling: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unused_additions: int = 0
    checked: Mapping[tuple[str, str], Checked] = field(default_factory=dict)
    new_levels: dict[str, PriorityLevel] = field(default_factory=dict)


class Checked:
    """Holds what an object that was given comes to, whatever else is given; immutable.

    Attributes:
        unused: What is wrong with its additions, one line each.
        uid: As the response's headers name it.
        additions: Those of a FlowSchema; else none.
    """

    def __init__(self, given: FlowControlObject) -> None:
        self.object = given
        kind, name = kind_of(given), given.metadata.name
        self.unused = tuple(
            f"{kind} {name!r}: {error}; the addition does not count"
            for error in given.additions.errors
        )
        self.uid = stable_uid(given)
        self.additions = NO_FLOW_SCHEMA_ADDITIONS
        if isinstance(given, FlowSchema):
            self.additions = given.additions

    def is_of(self, given: FlowControlObject) -> bool:
        return self.object is given or self.object == given


def nothing(_level: str, _seats: int) -> None: ...


class Classification:
    """Where a request belongs, by one generation of the configuration; shared, so immutable.

    It `has_costs` if its work depends on more than seats and time: see `LevelCosts.estimate`.
    """

    def __init__(self, route: Route, flow: Flow, generation: int) -> None:
        self.flow_schema = route.flow_schema
        self.flow_schema_uid = route.flow_schema_uid
        self.priority_level_uid = route.level.uid
        self.level = route.level
        self.limits = route.limits
        self.stream_seats = route.stream_seats
        self.weight = route.weight
        self.has_costs = route.weight > 1 or route.level.costs.cost is not None
        self.flow = flow
        self.generation = generation


class Route:
    """Where the requests of one FlowSchema go, in one generation of the configuration.

    Its flows are told apart only where they can have different queues, or limits of their own.
    """

    def __init__(
        self,
        flow_schema: FlowSchema,
        checked: Checked,
        level: PriorityLevel,
        counters: FlowSchemaCounters | None,
        limits: FlowLimits | None,
        weight: int,
    ) -> None:
        self.flow_schema = flow_schema
        self.weight = weight
        self.name = flow_schema.metadata.name
        self.flow_schema_uid = checked.uid
        self.level = level
        self.configuration = level.configuration
        self.counters = counters  # None until the first request comes
        self.limits = limits
        self.stream_seats = checked.additions.stream_seats or level.additions.stream_seats
        has_token_rate = limits is not None and limits.token_rate is not None
        self.reads_completions = has_token_rate or level.additions.cost == TOKENS
        is_limited = checked.additions.limits_flows
        has_flows = is_limited or queue_set_config(level.configuration).queues > 1
        method = flow_schema.spec.distinguisher_method
        self.flows_by = method.type if has_flows and method is not None else ""
        self.distinguisher = checked.additions.distinguisher if has_flows else None


class Controller:
    """The configuration in force; starts with the mandatory objects alone.

    Args:
        server_concurrency_limit: Seats of the whole proxy; >= 0.
        hash_seed: Makes the hashes of flows, and with them their queues, hard to guess.
        is_prompt: Whether idle seats are lent as soon as a request lacks them, see
            `prompt_limits`, a level that has lent all serves one request at a time, and the first
            adjustments come sooner.
        on_short: Called while seats are allotted, when a request is about to wait, with "" and 0,
            or to be rejected, with its level and its seats: more of them would admit it.

    Attributes (to read only):
        generation: How many configurations there have been; the mandatory objects were the first.
        seat_fair_frac: Seats per seat of target at the last adjustment, see `limits.Adjustment`.
        matches_models: Whether FlowSchemas ask for the model of a completion.
        reads_completions: Whether anything that the body of a completion says counts anywhere.
    """

    def __init__(
        self,
        clock: Clock,
        server_concurrency_limit: int,
        hash_seed: int,
        *,
        is_prompt: bool = False,
        on_short: Callable[[str, int], None] = nothing,
    ) -> None:
        self.server_concurrency_limit = server_concurrency_limit
        self._clock = clock
        self._hash_seed = hash_seed
        self._mandatory = tuple(map(Checked, mandatory_objects()))
        self._on_short = on_short
        self._allotted: Mapping[str, LevelLimits] | None = None
        self._are_limits_cut = False
        self.pool = SeatPool()
        self._prompt_limits = self._new_prompt_limits() if is_prompt else None

        self.levels: dict[str, PriorityLevel] = {}
        self.generation = 0
        self.seat_fair_frac = 0.0
        self.matches_models = self.reads_completions = False
        self._counters: dict[tuple[str, str], FlowSchemaCounters] = {}
        self._flow_limits: dict[str, FlowLimits] = {}  # by FlowSchema
        self._classifications: dict[tuple[str, str], Classification] = {}
        self._routes: dict[str, Route] = {}
        self._weighed: set[str] = set()  # levels with flows of different weights
        self.in_force = Digest()
        self._classifier = self.in_force.classifier
        self.commit(self.digest(()))  # which has the mandatory objects

    # Configuration

    def digest(self, objects: Iterable[FlowControlObject]) -> Digest:
        """Check all of a new configuration, which is valid, and prepare what to `commit`.

        Nothing here is changed, so another thread may call it, one at a time.
        """
        before = self.in_force
        problems: list[str] = []
        unused: list[str] = []
        checked: dict[tuple[str, str], Checked] = {}
        for given in objects:
            key = kind_of(given), given.metadata.name
            known = before.checked.get(key)
            found = known if known is not None and known.is_of(given) else Checked(given)
            if key in checked:
                problems.append(
                    f"{key[0]} {key[1]!r}: metadata.name: there are several of this name;"
                    " the first is used"
                )
                continue
            checked[key] = found
            unused += found.unused
        for found in self._mandatory:
            checked.setdefault((kind_of(found.object), found.object.metadata.name), found)
        levels: dict[str, PriorityLevelConfiguration] = {}
        schemas: dict[str, FlowSchema] = {}
        for found in checked.values():
            if isinstance(found.object, FlowSchema):
                schemas[found.object.metadata.name] = found.object
            else:
                levels[found.object.metadata.name] = found.object
        dangling: dict[str, str] = {}
        for name, schema in list(schemas.items()):
            level_name = schema.spec.priority_level_configuration.name
            if level_name not in levels:
                del schemas[name]
                dangling[name] = level_name
                problems.append(
                    f"FlowSchema {name!r}: spec.priorityLevelConfiguration.name: there is no"
                    f" usable PriorityLevelConfiguration {level_name!r}; the FlowSchema is not used"
                )
        there = self.levels
        return Digest(
            priority_levels=levels,
            flow_schemas=schemas,
            classifier=Classifier(schemas.values()),
            dangling=dangling,
            problems=(*problems, *unused),
            unused_additions=len(unused),
            checked=checked,
            new_levels={
                name: self._new_level(configuration)
                for name, configuration in levels.items()
                if name not in there
            },
        )

    def commit(self, digest: Digest) -> None:
        """Put a digest in force, then dispatch; requests that execute or wait go on."""
        levels: dict[str, PriorityLevel] = {}
        for name, configuration in digest.priority_levels.items():
            known = self.levels.get(name)
            if known is None:
                # Made by the digest, unless that was committed before, or the level went since.
                made = digest.new_levels.pop(name, None)
                levels[name] = made or self._new_level(configuration)
            else:
                if known.is_quiescing or known.configuration is not configuration:
                    known.configure(configuration)
                levels[name] = known
        new = levels.keys() - self.levels.keys()
        for name, level in self.levels.items():
            if name not in levels and not level.queue_set.is_idle:
                level.is_quiescing = True
                levels[name] = level

        self.levels = levels
        self._set_limits()
        for name in new:
            nominal = levels[name].nominal_limit
            levels[name].current_limit = nominal - (nominal - levels[name].lower_limit) // 2
        self.in_force = digest
        self._classifier = digest.classifier
        weights: dict[str, set[int]] = {}
        for schema in digest.flow_schemas.values():
            level_name = schema.spec.priority_level_configuration.name
            weights.setdefault(level_name, set()).add(schema.additions.weight)
        self._weighed = {name for name, found in weights.items() if len(found) > 1}
        self._routes = {
            name: self._route(schema, digest.checked["FlowSchema", name])
            for name, schema in digest.flow_schemas.items()
        }
        self.matches_models = any(
            condition is not None and condition.models is not None
            for condition in (schema.additions.condition for schema in digest.flow_schemas.values())
        )
        self.reads_completions = self.matches_models or any(
            route.reads_completions for route in self._routes.values()
        )
        for name in self._flow_limits.keys() - self._routes.keys():
            self._flow_limits[name].byte_rate = None  # for responses under way
        self._flow_limits = {
            name: limits
            for name, limits in self._flow_limits.items()
            if name in self._routes or limits.is_in_use
        }
        # Those stay that routes lead to, or that ever counted a request.
        used = {id(route.counters) for route in self._routes.values()}
        self._counters = {
            key: counters
            for key, counters in self._counters.items()
            if id(counters) in used or counters.has_counted
        }
        self.generation += 1
        self._adjust()

    def resize(self, server_concurrency_limit: int) -> None:
        self.server_concurrency_limit = server_concurrency_limit
        self._set_limits()
        self._adjust()

    def follow(self, server_concurrency_limit: int) -> None:
        """Resize between two adjustments: what levels used lately they keep; dispatches."""
        self.server_concurrency_limit = server_concurrency_limit
        self._set_limits()
        levels = list(self.levels.values())
        self._impose_by(
            levels,
            [
                level.level_demand(level.demand.recent_watermark, level.demand.smoothed)
                for level in levels
            ],
        )

    def allot(self, seats: int, by_level: Mapping[str, LevelLimits]) -> None:
        """Have `seats` of a limit that is shared with other proxies; dispatches.

        Levels that are limited may lend each other what is idle; `by_level` has their bounds, whose
        nominal limits sum to `seats`.  Nothing exceeds these: where a proxy by itself lets a level
        go on that has lent all, no request runs but on seats of its level.
        """
        is_same = seats == self.server_concurrency_limit and by_level == self._allotted
        self.server_concurrency_limit = seats
        self._allotted = by_level
        if not is_same:
            self._set_limits()
        elif not self._are_limits_cut:
            return
        levels = list(self.levels.values())
        # What a level used lately it keeps, or it would wait for it again at each change.
        lately = [(level, level.demand.recent_watermark) for level in levels]
        demands = [level.level_demand(used, float(used)) for level, used in lately]
        self._impose(levels, divide(demands, seats))
        if self._prompt_limits is not None:
            self._prompt_limits.mark(levels)
            self._prompt_limits.on_adjustment()

    def adjust_limits(self) -> None:
        """Let the current limits follow demand, after each of `adjustment_pauses_s`; dispatches."""
        levels = {
            name: level
            for name, level in self.levels.items()
            if not (level.is_quiescing and level.queue_set.is_idle)
        }
        if len(levels) < len(self.levels):
            self.levels = levels
            self._set_limits()
        self._adjust()

    # Requests

    def classify(
        self,
        user: User,
        attributes: RequestAttributes,
        header_of: Callable[[str], str] = no_header,
    ) -> Classification:
        """Find the FlowSchema, the priority level and the flow of a request.

        A request that no FlowSchema matches goes where the catch-all one says.  `header_of` gives
        the value of a header by its name in lower case, "" if there is none.
        """
        schema = self._classifier.classify(user, attributes, header_of)
        route = self._routes[CATCH_ALL if schema is None else schema.metadata.name]
        if route.distinguisher is not None:
            name = added_distinguisher(route.distinguisher, user, attributes, header_of)
        elif route.flows_by == BY_USER:
            name = user.name
        elif route.flows_by == BY_NAMESPACE:
            name = attributes.namespace
        else:
            name = ""
        key = (route.name, name)
        found = self._classifications.get(key)
        if found is None or found.generation != self.generation:
            found = self._new_classification(key, route, found)
        return found

    # Views

    def flow_hash(self, flow_schema: str, distinguisher: str) -> int:
        """The 64 bits that a flow is dealt its hand by; no distinguisher without several queues."""
        return flow_hash(self._hash_seed, flow_schema, distinguisher)

    def flow_schema_counters(self) -> Iterator[FlowSchemaCounters]:
        return iter(self._counters.values())

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def foreseen_seat_limit(self, level: PriorityLevel, seats: int) -> int:
        """The seats that a level's requests may use once one of so many seats asks for them."""
        queue_set = level.queue_set
        limit = queue_set.seat_limit
        if not queue_set.requests_waiting and queue_set.seats_in_use + seats <= limit:
            return limit
        limits = {name: each.current_limit for name, each in self.levels.items()}
        if self._prompt_limits is not None:
            limits = self._prompt_limits.foreseen_limits(level, seats)
        if queue_set.share_out is None:
            return max(limit, limits[level.name])
        return self.pool.foreseen_limit(queue_set, limits)

    def flow_schemas(self) -> list[FlowSchema]:
        return sorted((route.flow_schema for route in self._routes.values()), key=matching_order)

    def adjustment_pauses_s(self) -> Iterator[float]:
        if self._prompt_limits is not None:
            yield from FIRST_PAUSES_S
        yield from itertools.repeat(ADJUSTMENT_PERIOD_S)

    @property
    def unused_additions(self) -> int:
        return self.in_force.unused_additions

    def limited_use(self) -> tuple[float, bool]:
        """The seats in use of levels that are limited, and whether requests wait for seats."""
        queue_sets = [each.queue_set for each in self.levels.values() if not each.is_exempt]
        seats = sum(each.seats_in_use for each in queue_sets)
        return float(seats), any(each.requests_waiting for each in queue_sets)

    @property
    def executing_limit(self) -> int:
        return sum(level.nominal_limit for level in self.levels.values())

    @property
    def waiting_limit(self) -> int:
        configs = [level.queue_set.config for level in self.levels.values()]
        return sum(config.queues * config.queue_length_limit for config in configs)

    def adjust_promptly(self, *, is_prompt: bool) -> None:
        """Lend idle seats as soon as they are wanted from now on, or as Kubernetes does."""
        if is_prompt == (self._prompt_limits is not None):
            return
        if self._prompt_limits is not None:
            self._prompt_limits.close()
        self._prompt_limits = self._new_prompt_limits() if is_prompt else None
        for level in self.levels.values():
            queue_set = level.queue_set
            config = self._queue_set_config(level.configuration)
            if queue_set.config != config:
                queue_set.reconfigure(config, level.current_limit)
        if self._prompt_limits is not None:
            self._prompt_limits.on_adjustment()

    # Parts of the above

    def _new_prompt_limits(self) -> PromptLimits:
        return PromptLimits(
            self._clock,
            lambda: list(self.levels.values()),
            lambda: self.server_concurrency_limit,
            self._impose,
        )

    def _on_wait(self) -> None:
        if self._prompt_limits is not None:
            self._prompt_limits.on_wait()
        if self._allotted is not None:
            self._on_short("", 0)

    def _on_rejection(self, name: str, seats: int) -> None:
        if self._prompt_limits is not None:
            self._prompt_limits.on_rejection(name, seats)
        if self._allotted is not None:
            self._on_short(name, seats)

    def _new_level(self, configuration: PriorityLevelConfiguration) -> PriorityLevel:
        demand = SeatDemand(self._clock.now_ns())
        queue_set = QueueSet(
            configuration.metadata.name,
            self._clock,
            self._queue_set_config(configuration),
            0,
            demand,
            self._on_wait,
            self._on_rejection,
        )
        return PriorityLevel(configuration, queue_set, demand)

    def _queue_set_config(self, configuration: PriorityLevelConfiguration) -> QueueSetConfig:
        is_prompt = self._prompt_limits is not None and self._allotted is None
        has_weights = configuration.metadata.name in self._weighed
        return queue_set_config(configuration, is_prompt=is_prompt, has_weights=has_weights)

    def _set_limits(self) -> None:
        server_limit = self.server_concurrency_limit
        nominal = nominal_limits(
            server_limit,
            {name: level_shares(level.configuration)[0] for name, level in self.levels.items()},
        )
        members = []
        for name, level in self.levels.items():
            shares, lendable_percent, borrowing_percent = level_shares(level.configuration)
            if self._allotted is None:
                limits = level_limits(
                    nominal[name], server_limit, lendable_percent, borrowing_percent
                )
            else:
                limits = self._allotted.get(name, NO_SEATS)
            level.nominal_limit = limits.nominal
            level.lower_limit = limits.lower
            level.upper_limit = limits.upper
            hand_size = queue_set_config(level.configuration).hand_size
            level.max_seats = max_seats(limits.nominal, hand_size) if hand_size else 0
            if level.additions.priority is not None:
                member = PoolMember(level.queue_set, level.additions.priority, shares)
                member.lower = limits.lower
                # What a member of a fleet may borrow is a part, even if it may borrow all.
                member.upper = UNLIMITED if borrowing_percent is None else limits.upper
                members.append(member)
        if members or self.pool.members:
            self.pool.replace(members)

    def _adjust(self) -> None:
        now_ns, levels = self._clock.now_ns(), list(self.levels.values())
        demands = []
        for level in levels:
            stats = level.demand.reset(now_ns)
            demands.append(level.level_demand(stats.high_watermark, level.demand.smoothed))
        self._impose_by(levels, demands)

    def _impose_by(self, levels: Sequence[PriorityLevel], demands: list[LevelDemand]) -> None:
        if self._prompt_limits is None:
            self._impose(levels, adjust(demands))
        else:
            self._impose(levels, divide(demands, self.server_concurrency_limit))
            self._prompt_limits.on_adjustment()

    def _impose(self, levels: Sequence[PriorityLevel], adjustment: Adjustment) -> None:
        self.seat_fair_frac = adjustment.fair_proportion
        pooled = {
            level.name: current
            for level, current in zip(levels, adjustment.current, strict=True)
            if level.queue_set.share_out is not None
        }
        limits, pool_size = adjustment.current, sum(pooled.values())
        if self._allotted is not None:
            limits, pool_size = self._cut(levels, adjustment, pool_size)
        for level, current, target in zip(levels, limits, adjustment.targets, strict=True):
            level.current_limit = current
            level.target = target
        # Only now, with all set: a queue set that gets more seats dispatches, and who is
        # dispatched may come back here for anything.
        if pooled:
            self.pool.resize(pool_size, pooled, self._clock.now_ns())
        for level, limit in zip(levels, limits, strict=True):
            queue_set = level.queue_set
            config = self._queue_set_config(level.configuration)
            # A level without seats is measured against a tenth of the server's.
            queue_set.set_seats_denominator(
                limit or max(1, round_half_up(self.server_concurrency_limit / 10))
            )
            if queue_set.config != config:
                queue_set.reconfigure(config, limit)
            elif queue_set.concurrency_limit != limit:
                queue_set.set_concurrency_limit(limit)

    def _cut(
        self, levels: Sequence[PriorityLevel], adjustment: Adjustment, pool_size: int
    ) -> tuple[tuple[int, ...], int]:
        """The limits of an adjustment, and the seats of the pool, cut to the allotted seats."""
        found = list(adjustment.current)
        limited = [
            index
            for index, level in enumerate(levels)
            if not level.is_exempt and level.queue_set.share_out is None
        ]
        *cut, pool_cut = within(
            [*[found[index] for index in limited], pool_size],
            [
                *[levels[index].queue_set.seats_in_use for index in limited],
                sum(member.queue_set.seats_in_use for member in self.pool.members),
            ],
            self.server_concurrency_limit,
        )
        for index, limit in zip(limited, cut, strict=True):
            found[index] = limit
        self._are_limits_cut = tuple(found) != adjustment.current or pool_cut != pool_size
        return tuple(found), pool_cut

    def _route(self, schema: FlowSchema, checked: Checked) -> Route:
        level = self.levels[schema.spec.priority_level_configuration.name]
        name = schema.metadata.name
        known = self._routes.get(name)
        weight = 1
        if self._queue_set_config(level.configuration).has_weights:
            weight = checked.additions.weight
        if (
            known is not None
            and known.flow_schema is schema
            and known.level is level
            and known.configuration is level.configuration
            and known.weight == weight
        ):
            return known
        added, is_ban = checked.additions, level.additions.is_ban
        limits = self._flow_limits.get(name)
        is_limited = added.limits_flows or is_ban
        if limits is None and is_limited:
            limits = self._flow_limits[name] = FlowLimits(name)
        if limits is not None:
            limits.configure(added, level.name, is_ban=is_ban)
        counters = self._counters.get((level.name, name))
        return Route(schema, checked, level, counters, limits if is_limited else None, weight)

    def _new_classification(
        self, key: tuple[str, str], route: Route, outdated: Classification | None
    ) -> Classification:
        """Make a classification and keep it; its flow is the one it had before if it can be."""
        counters = route.counters
        if counters is None:
            names = route.level.name, route.flow_schema.metadata.name
            counters = route.counters = self._counters[names] = FlowSchemaCounters(*names)
        if outdated is not None and outdated.flow.counters is counters:
            flow = outdated.flow
        else:
            flow = Flow(flow_hash(self._hash_seed, *key), key[1], counters)
        found = Classification(route, flow, self.generation)
        if len(flow.distinguisher) > LONGEST_NAME:
            return found
        kept = self._classifications
        if len(kept) >= MAX_KEPT_CLASSIFICATIONS:
            for older in list(kept)[: MAX_KEPT_CLASSIFICATIONS // 2]:
                del kept[older]
        kept[key] = found
        return found
