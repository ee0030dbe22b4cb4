"""Requests read from a log in the order of their ends, to be replayed as they came; small.

Those that are alike are of one kind, so that each kind is looked at once.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.classifier import raw_query
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.request.attributes import (
    RequestAttributes,
    User,
    parameter_pattern,
    parameter_values,
    request_timeout_ns,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Hashable, Iterable, Iterator

    from apfproxy.flowcontrol.preset import Preset

UNKNOWN_NS: Final = -1
MAX_SHOWN_PROBLEMS = 10

MAX_RECENT = 50_000
"""Targets whose kind is remembered: parsing one again takes 20 us."""

MANY_KINDS = 100_000
"""About 200 MB; from there on, names of objects no longer tell kinds apart."""


TOKEN_BITS = 6
"""Binary digits of a number of tokens that count."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of requests; compared by identity, so that looking it up costs next to nothing.

    Attributes:
        client: The user, as reports name it.
        user: The user, as FlowSchemas see it.
        timeout_ns: How long a request may take, unless it is long-running.
        seats: The seats that each takes; 0 to have that estimated.
        headers: Header fields that FlowSchemas may look at: names in lower case, and values.
        tokens: Tokens of a completion; 0 for other requests.
        query: As it came, for FlowSchemas that ask for parameters.
    """

    client: str
    user: User
    attributes: RequestAttributes
    timeout_ns: int
    seats: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    tokens: int = 0
    query: str = ""


def essence(
    kind: Kind, patterns: Iterable[re.Pattern[bytes]] = (), *, with_names: bool
) -> tuple[Hashable, ...]:
    """All of a kind that decides anything; names count if written and in `with_names`.

    The patterns are of parameters that FlowSchemas ask for.
    """
    of = kind.attributes
    is_read = of.is_resource_request and not of.is_mutating
    return (
        *(kind.user, kind.timeout_ns, kind.seats, kind.headers, kind.tokens),
        *(of.verb, of.api_group, of.resource, of.subresource, of.namespace, of.prefix_value),
        of.name if (with_names or is_read) and of.verb != "get" else "",
        of.path_prefix if of.is_resource_request else of.path,
        of.list_options,
        of.query.get("fieldSelector") if of.verb == "watch" else None,
        repr([parameter_values(each, kind.query.encode("latin-1")) for each in patterns]),
    )


def kind_of(
    client: str,
    user: User,
    method: str,
    target: str,
    seats: int = 0,
    headers: tuple[tuple[str, str], ...] = (),
    preset: Preset = KUBERNETES,
    tokens: int = 0,
) -> Kind:
    """The kind of requests with a method and a target; AttributesError or DeadlineError."""
    raw = target.encode("utf-8", "surrogateescape")
    attributes = preset.attributes_of(method, raw)
    timeout_ns = request_timeout_ns(attributes, round(preset.timeout_s * 1e9))
    return Kind(client, user, attributes, timeout_ns, seats, headers, tokens, raw_query(raw))


class Records:
    """Requests of a log, to a kind of API; FlowSchemas ask for the `asked` parameters of queries.

    Attributes:
        kinds: The kinds of all requests.
        skipped: Lines that are well, but nothing to replay.
        early: Lines among them of requests which had not ended.
        left_out: Parts of what the log is wrapped in that have no entry.
        foreign: Entries among them of Google Cloud's own audit log.
        misfits: Entries among them of the other kind of log: audit instead of access, or reverse.
        unlogged: Requests that the log has no line of, as it says.
        broken: Lines that cannot be read.
        problems: The first of those: line number, and what is wrong.
        guessed: Requests that never executed when they were logged: no time of theirs is known.
        held: Requests that waited, or never executed, when they were logged.
    """

    def __init__(self, preset: Preset = KUBERNETES, asked: Iterable[str] = ()) -> None:
        self._preset = preset
        self._patterns = [parameter_pattern(each) for each in asked]
        self.kinds: list[Kind] = []
        self.skipped = self.early = self.left_out = self.foreign = self.misfits = 0
        self.unlogged = self.broken = self.guessed = self.held = 0
        self.problems: list[tuple[int, str]] = []
        self._times_ns = array("q")
        self._services_ns = array("q")
        self._kind_numbers = array("l")
        self._numbers: dict[Hashable, int] = {}
        self._recent: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._times_ns)

    def add(
        self,
        time_ns: int,
        user: User,
        method: str,
        target: str,
        service_ns: int,
        seats: int = 0,
        tokens: int = 0,
        agent: str | None = None,
    ) -> None:
        """Add a request served in so many ns, or `UNKNOWN_NS`; seats 0 are estimated.

        Tokens are those of a completion, to within 4 %, so that kinds are few.
        """
        digits = max(0, tokens.bit_length() - TOKEN_BITS)
        tokens = tokens >> digits << digits
        key = (method, target, user, seats, tokens, agent)
        number = self._recent.get(key)
        if number is None:
            agents = (("user-agent", agent),) if agent else ()
            kind = kind_of(user.name, user, method, target, seats, agents, self._preset, tokens)
            kinds = self.kinds
            alike = essence(kind, self._patterns, with_names=len(kinds) < MANY_KINDS)
            number = self._numbers.setdefault(alike, len(kinds))
            if number == len(kinds):
                kinds.append(kind)
            if len(self._recent) >= MAX_RECENT:
                self._recent.clear()
            self._recent[key] = number
        self._times_ns.append(time_ns)
        self._services_ns.append(service_ns)
        self._kind_numbers.append(number)
        self.guessed += service_ns == UNKNOWN_NS

    def break_line(self, line: int, message: str) -> None:
        self.broken += 1
        if len(self.problems) < MAX_SHOWN_PROBLEMS:
            self.problems.append((line, message))

    @property
    def start_ns(self) -> int:
        return min(self._times_ns, default=0)

    @property
    def span_ns(self) -> int:
        return max(self._times_ns, default=0) - self.start_ns

    def requests(self) -> Iterator[tuple[int, Kind, int]]:
        """Arrival times from 0 on, with kind and service time, in order."""
        times_ns, services_ns, kinds = self._times_ns, self._services_ns, self.kinds
        guesses = self._guesses()
        start_ns = self.start_ns
        for index in sorted(range(len(times_ns)), key=times_ns.__getitem__):
            kind = kinds[self._kind_numbers[index]]
            service_ns = services_ns[index]
            if service_ns == UNKNOWN_NS:
                service_ns = guesses.get(_likeness(kind), guesses[None])
            yield times_ns[index] - start_ns, kind, service_ns

    def _guesses(self) -> dict[tuple[str, str] | None, int]:
        """Mean service time by verb and resource; under None that of all, or 0."""
        sums: dict[tuple[str, str] | None, list[int]] = {None: [0, 0]}
        for service_ns, number in zip(self._services_ns, self._kind_numbers, strict=True):
            kind = self.kinds[number]
            if self.guessed and service_ns != UNKNOWN_NS and not kind.attributes.long_running:
                for key in (None, _likeness(kind)):
                    found = sums.setdefault(key, [0, 0])
                    found[0] += service_ns
                    found[1] += 1
        return {key: total // max(count, 1) for key, (total, count) in sums.items()}


def _likeness(kind: Kind) -> tuple[str, str]:
    return kind.attributes.verb, kind.attributes.group_resource
