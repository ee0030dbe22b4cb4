"""A synthetic mix of requests, as in `config/simulation/mix.yaml`; one mix, one sequence."""

from __future__ import annotations

import math
import random
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.passage import MOST_LIST_SEATS, is_completion
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.additions import HeaderUse, use_of
from apfproxy.objects.documents import Mapping, split_documents
from apfproxy.objects.field_errors import closest
from apfproxy.request.attributes import (
    ANONYMOUS,
    METHOD_OF_VERB,
    AttributesError,
    DeadlineError,
    User,
    authenticated,
    parse_duration_ns,
)
from apfproxy.simulation.records import Kind, kind_of
from apfproxy.simulation.simulation import ClosedClient, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.simulation.simulation import Simulation

Entry = TypeVar("Entry", bound=msgspec.Struct)

NS_PER_S = 1_000_000_000
LEAST_SERVICE_NS = 1_000
"""No request is served faster, or a client without a pause would never let time go on."""
LONGEST_NS = 7 * 24 * 3600 * NS_PER_S
MOST_FLOWS = 10_000
MOST_CLIENTS = 100_000
MOST_RATE = 1_000_000.0
MOST_REQUESTS = 1_000_000_000
"""By flows with a rate: five hours."""
MOST_TOKENS = 10_000_000
MOST_SIGMA = 10.0

TIMES = "such as 50ms, 20ms-80ms, exp(50ms) or lognormal(50ms,0.5)"
CALL = re.compile(r"(exp|normal|lognormal)\(([^(),]+)(?:,([^(),]+))?\)")
FIELD = re.compile(r"Object (missing required|contains unknown) field `(.+)`")
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
REQUEST = re.compile(r"([^\W\d_]+) (/[^ ]*)")
PART = re.compile(r"[A-Za-z0-9_.:{}-]+")
"""The name of a resource, a namespace or an object, or `{}` for its number."""
ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):[^:]+")

NO_COMPLETION = (
    "the request is no completion: a POST to a path such as /v1/chat/completions, with --preset"
    " http or llm"
)
MISSING = {"serviceTime": f"; give one {TIMES}"}
NOUNS = (
    *(("int | float | str", "a time"), ("int", "a whole number"), ("float", "a number")),
    *(("array", "a list"), ("str", "text")),
)
LONGEST_SHOWN = 60

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class MixError(ValueError):
    """A mix cannot be used, and why; `line` is None if it is about the whole."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Duration(int):
    """A duration in nanoseconds, written as `1m30s`."""


class Times(msgspec.Struct, frozen=True):
    """A distribution of durations.

    Attributes:
        shape: `constant`, `uniform`, `exp`, `normal` or `lognormal`.
        first_ns: The value, the least, the mean or, if lognormal, the median.
        second: The greatest or the standard deviation in nanoseconds, or that of the logarithm.
    """

    shape: str
    first_ns: int
    second: float = 0.0

    def drawer(self, chance: random.Random) -> Callable[[], int]:
        """A function that draws one, in nanoseconds; at least `LEAST_SERVICE_NS`."""
        first, second, drawn = self.first_ns, self.second, chance.random
        log, least, normal = math.log, LEAST_SERVICE_NS, chance.normalvariate
        match self.shape:
            case "constant":
                value = max(first, least)
                return lambda: value
            case "uniform":
                width = second - first
                return lambda: max(int(first + width * drawn()), least)
            case "exp":
                return lambda: max(int(-log(1.0 - drawn()) * first), least)
            case "normal":
                return lambda: max(int(normal(first, second)), least)
            case _:
                return lambda: min(max(int(first * math.exp(normal(0, second))), least), LONGEST_NS)


class MixDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    duration: Duration
    flows: Annotated[list[Any], msgspec.Meta(min_length=1)]
    seed: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] = 0


class FlowEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: Text
    service_time: str | int | float
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_FLOWS)] = 1
    user: Text = ANONYMOUS.name
    groups: tuple[str, ...] = ()
    request: str = ""
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    object_name: str = ""
    headers: tuple[str, ...] = ()
    model: str = ""
    tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] = 0
    rate: Annotated[float, msgspec.Meta(gt=0, le=MOST_RATE)] = 0.0
    clients: Annotated[int, msgspec.Meta(ge=1, le=MOST_CLIENTS)] = 0
    arrivals: Literal["poisson", "constant"] = "poisson"
    seats: Annotated[int, msgspec.Meta(ge=1, le=MOST_LIST_SEATS)] = 0
    think_time: Duration = Duration(0)
    start: Duration = Duration(0)
    stop: Duration = Duration(LONGEST_NS)


class MixFlow(msgspec.Struct, frozen=True):
    """Requests of one kind; arrivals and clients stop at `stop_ns`."""

    kind: Kind
    entry: FlowEntry
    service: Times
    stop_ns: int

    def expected_arrivals(self) -> float:
        """Requests of a flow with a rate; 0 of one with clients."""
        return self.entry.rate * (self.stop_ns - self.entry.start) / NS_PER_S

    def requests(self, chance: random.Random) -> Iterator[tuple[int, Kind, int]]:
        """Arrival times in nanoseconds with service times, of a flow with a rate."""
        draw, gap_ns = self.service.drawer(chance), NS_PER_S / self.entry.rate
        stop_ns, kind, log, drawn = self.stop_ns, self.kind, math.log, chance.random
        is_constant = self.entry.arrivals == "constant"
        # Not all flows at once: each has its place in the first gap.
        at = self.entry.start + (drawn() if is_constant else -log(1.0 - drawn())) * gap_ns
        while at < stop_ns:
            yield int(at), kind, draw()
            at += gap_ns if is_constant else -log(1.0 - drawn()) * gap_ns


class Mix(msgspec.Struct, frozen=True):
    """All flows of a mix, in the order of the file; arrivals end by `duration_ns`."""

    duration_ns: int
    seed: int
    flows: tuple[MixFlow, ...]

    @property
    def kinds(self) -> list[Kind]:
        return [flow.kind for flow in self.flows]

    def expected_requests(self) -> float:
        """A guess for a progress bar."""
        total = 0.0
        for flow in self.flows:
            entry = flow.entry
            each_ns = max(flow.service.first_ns, LEAST_SERVICE_NS) + entry.think_time
            total += flow.expected_arrivals()
            total += entry.clients * (flow.stop_ns - entry.start) / each_ns
        return total

    def chance(self, index: int) -> random.Random:
        """The chance of one flow, which no other flow changes."""
        return random.Random(f"{self.seed} {index}")  # noqa: S311  no secret

    def feed(self, simulation: Simulation) -> None:
        for index, flow in enumerate(self.flows):
            chance, entry = self.chance(index), flow.entry
            if entry.rate:
                Sequence(simulation, flow.requests(chance))
                continue
            draw = flow.service.drawer(chance)
            times = {"think_ns": entry.think_time, "start_ns": entry.start, "stop_ns": flow.stop_ns}
            for _ in range(entry.clients):
                ClosedClient(simulation, flow.kind, draw, **times)


def parse_mix(data: bytes, preset: Preset = KUBERNETES) -> Mix:
    """Read a mix; MixError if it cannot be used."""
    documents, problem = split_documents(data)
    if problem is not None:
        raise MixError(str(problem), problem.line)
    if len(documents) != 1:
        raise MixError(f"expected one document with `flows`, not {len(documents)}")
    top, place = _read(MixDocument, documents[0].content, documents[0].line, "")
    if not top.duration:
        raise place.error("duration", "has to be above 0")
    flows: list[MixFlow] = []
    clients, requests = 0, 0.0
    for index, content in enumerate(top.flows):
        entry, where = _read(FlowEntry, content, place.line, f"flows[{index}]")
        added = _flows_of(entry, where, top.duration, preset)
        flows += added
        clients += len(added) * entry.clients
        requests += len(added) * added[0].expected_arrivals()
        for name, number, most, noun in (
            ("count", len(flows), MOST_FLOWS, "flows"),
            ("clients", clients, MOST_CLIENTS, "clients"),
            ("rate", requests, MOST_REQUESTS, "requests"),
        ):
            if number > most:
                raise where.error(name, f"more than {most:,} {noun} in all")
    return Mix(top.duration, top.seed, tuple(flows))


def parse_times(text: str) -> Times:
    """Read a distribution of durations; ValueError."""
    call = CALL.fullmatch(text.replace(" ", ""))
    if call is not None:
        shape, centre_ns, second = call[1], _duration_ns(call[2]), call[3]
        if shape == "exp" and second is None:
            return Times(shape, centre_ns)
        if shape == "normal" and second:
            return Times(shape, centre_ns, _duration_ns(second))
        if shape == "lognormal" and second and NUMBER.fullmatch(second):
            sigma = float(second)
            if sigma <= MOST_SIGMA:
                return Times(shape, centre_ns, sigma)
        raise ValueError(f"expected a service time, not {text!r}")
    first, dash, last = text.partition("-")
    if not dash:
        return Times("constant", _duration_ns(text))
    least_ns, greatest_ns = _duration_ns(first.strip()), _duration_ns(last.strip())
    if least_ns > greatest_ns:
        raise ValueError(f"expected the shorter time first, not {text!r}")
    return Times("uniform", least_ns, greatest_ns)


def _duration_ns(text: str) -> int:
    try:
        found = parse_duration_ns(text)
    except DeadlineError as error:
        raise ValueError(str(error)) from None
    if not 0 <= found <= LONGEST_NS:
        raise ValueError(f"expected a time from 0s to {LONGEST_NS // NS_PER_S} s, not {text!r}")
    return found


class Place(NamedTuple):
    path: str
    line: int
    key_lines: dict[str, int]

    def error(self, name: str, message: str) -> MixError:
        where = ".".join(part for part in (self.path, name) if part)
        return MixError(f"{where}: {message}", self.key_lines.get(name, self.line))


def _decoded(kind: type[Duration], value: object) -> Duration:
    return kind(_duration_ns(str(value)))


def _read(kind: type[Entry], content: object, line: int, path: str) -> tuple[Entry, Place]:
    place = Place(path, line, {})
    if not isinstance(content, dict):
        raise place.error("" if path else "the document", "expected a mapping")
    if isinstance(content, Mapping):
        place = Place(path, content.line or line, content.key_lines)
    given = {name: value for name, value in content.items() if value is not None}
    try:
        return msgspec.convert(given, kind, dec_hook=_decoded), place
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
    if found := FIELD.fullmatch(message):
        name, known = found[2], kind.__struct_encode_fields__
        if found[1] == "missing required":
            raise place.error(name, f"is missing{MISSING.get(name, '')}")
        close = closest(name, known)
        hint = f"did you mean {close}?" if close else f"known are {', '.join(known)}"
        raise place.error(name, f"unknown; {hint}")
    name = re.split(r"[`\[.]", where)[0]
    if name == "arrivals":
        message = "expected poisson or constant"
    if message.lower().startswith("expected"):
        message = message.lower().partition(", got ")[0]
        for typed, noun in NOUNS:
            message = message.replace(f"`{typed}`", noun)
        message += f", not {str(given[name])[:LONGEST_SHOWN]!r}"
    raise place.error(name, message)


def _flows_of(entry: FlowEntry, place: Place, duration_ns: int, preset: Preset) -> list[MixFlow]:
    """One flow of an entry, or as many as its `count` says."""
    method, target = _request_of(entry, place)
    if bool(entry.rate) == bool(entry.clients):
        raise place.error("rate", "give either rate, or clients")
    try:
        service = parse_times(str(entry.service_time))
    except ValueError as error:
        raise place.error("serviceTime", f"{error}; service times are {TIMES}") from None
    headers = _headers_of(entry, place)
    stop_ns = min(entry.stop, duration_ns)
    if entry.start >= stop_ns:
        raise place.error("start", "has to be before stop and the end of the mix")
    name, count = entry.name, entry.count
    own = name if "{}" in name or count == 1 else f"{name}-{{}}"
    made = []
    for number in map(str, range(count)):
        try:
            kind = kind_of(
                own.replace("{}", number),
                _user(entry.user.replace("{}", number), entry.groups),
                method,
                target.replace("{}", number),
                entry.seats,
                headers,
                preset,
                entry.tokens,
            )
        except (AttributesError, DeadlineError) as error:
            raise place.error("request", str(error)) from None
        if (entry.model or entry.tokens) and not is_completion(kind.attributes):
            raise place.error("model" if entry.model else "tokens", NO_COMPLETION)
        made.append(MixFlow(kind, entry, service, stop_ns))
    return made


def _user(name: str, groups: tuple[str, ...]) -> User:
    if name == ANONYMOUS.name:
        return User(name, (*groups, *ANONYMOUS.groups))
    account = ACCOUNT.fullmatch(name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[1]}")
    return authenticated(User(name, groups))


def _headers_of(entry: FlowEntry, place: Place) -> tuple[tuple[str, str], ...]:
    found = []
    for text in entry.headers:
        name, colon, value = text.partition(":")
        if not colon or use_of(name.strip().lower()) is HeaderUse.MALFORMED:
            raise place.error("headers", f"expected a header such as X-Team: red, not {text!r}")
        found.append((name.strip().lower(), value.strip()))
    if entry.model:
        found.append((MODEL, entry.model))
    return tuple(found)


def _request_of(entry: FlowEntry, place: Place) -> tuple[str, str]:
    verb, resource, namespace, name = entry.verb, entry.resource, entry.namespace, entry.object_name
    if request := entry.request:
        if verb or resource or namespace or name:
            raise place.error("request", "give either request, or verb and resource")
        if (found := REQUEST.fullmatch(request)) is None:
            message = f"expected a method and a target, such as GET /pods, not {request!r}"
            raise place.error("request", message)
        return found[1], found[2]
    if not verb or not resource:
        raise place.error("request", "is missing; or give verb and resource")
    if (method := METHOD_OF_VERB.get(verb)) is None:
        raise place.error("verb", f"expected one of {', '.join(METHOD_OF_VERB)}, not {verb!r}")
    for field, part in (("resource", resource), ("namespace", namespace), ("objectName", name)):
        if part and not PART.fullmatch(part):
            raise place.error(field, f"expected a name, not {part!r}; or give the whole request")
    has_name = verb in {"get", "update", "patch", "delete"}
    if name and not has_name:
        raise place.error("objectName", f"means nothing to {verb}")
    plural, _, group = resource.partition(".")
    target = f"/apis/{group}/v1" if group else "/api/v1"
    target += f"/namespaces/{namespace}/{plural}" if namespace else f"/{plural}"
    target += f"/{name or 'some'}" if has_name else ""
    return method, f"{target}?watch=true" if verb == "watch" else target
