"""A synthetic mix of requests, as a YAML document says it.

    duration: 60s
    seed: 1
    flows:
    - name: tenant-{}              # {} is 0, 1, ... up to `count`
      count: 10
      user: tenant-{}
      groups: [tenants]            # system:authenticated is added; those of a service account by
                                   # default, too
      request: GET /api/v1/namespaces/tenant-{}/pods
      headers: ["X-Priority: batch"]  # that FlowSchemas may look at
      rate: 20                     # a second; or clients: 5, each with one request at a time
      arrivals: poisson            # or constant
      serviceTime: exp(50ms)       # or 50ms, 20ms-80ms (evenly), lognormal(50ms,0.5)
      seats: 2                     # estimated by default
      thinkTime: 10ms              # between the requests of a client
      start: 10s
      stop: 40s

Instead of `request` there may be `verb`, `resource` (`pods`, `deployments.apps`), `namespace` and
`objectName`.  Chance is seeded: one mix gives one sequence of arrivals, whatever the configuration.
"""

from __future__ import annotations

import math
import random
import re
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.additions import HeaderUse, use_of
from apfproxy.objects.documents import Mapping, split_documents
from apfproxy.request.attributes import (
    ANONYMOUS,
    METHOD_OF_VERB,
    AttributesError,
    DeadlineError,
    User,
    authenticated,
    parse_duration_ns,
)
from apfproxy.simulation.kinds import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.flowcontrol.preset import Preset

NS_PER_S = 1_000_000_000
LEAST_SERVICE_NS = 1_000
"""No request is served faster, or a client without a pause would never let time go on."""
LONGEST_NS = 7 * 24 * 3600 * NS_PER_S
MOST_FLOWS = 10_000
MOST_CLIENTS = 100_000
"""In all."""
MOST_RATE = 1_000_000.0
MOST_REQUESTS = 1_000_000_000
"""In all, of flows with a rate: five hours."""
MOST_SEATS = 100
MOST_SIGMA = 10.0

TIMES = "such as 50ms, 20ms-80ms, exp(50ms) or lognormal(50ms,0.5)"
CALL = re.compile(r"(exp|lognormal)\(([^(),]+)(?:,([^(),]+))?\)")
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
POISSON, CONSTANT = "poisson", "constant"
PART = re.compile(r"[A-Za-z0-9_.:{}-]+")
"""Of a path: the name of a resource, a namespace or an object, or where its number is to stand."""
ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):[^:]+")


class MixError(ValueError):
    """A mix cannot be used, and why; `line` is None if it is about the whole."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Times(msgspec.Struct, frozen=True):
    """A distribution of durations.

    Attributes:
        shape: `constant`, `uniform`, `exp` or `lognormal`.
        first_ns: The value, the least, the mean or the median.
        second: The greatest in nanoseconds, or the standard deviation of the logarithm.
    """

    shape: str
    first_ns: int
    second: float = 0.0

    def drawer(self, chance: random.Random) -> Callable[[], int]:
        """What draws one, in nanoseconds; at least `LEAST_SERVICE_NS`."""
        first, second, drawn = self.first_ns, self.second, chance.random
        log, least = math.log, LEAST_SERVICE_NS
        match self.shape:
            case "constant":
                value = max(first, least)
                return lambda: value
            case "uniform":
                width = second - first
                return lambda: max(int(first + width * drawn()), least)
            case "exp":
                return lambda: max(int(-log(1.0 - drawn()) * first), least)
            case _:
                normal = chance.normalvariate
                return lambda: min(max(int(first * math.exp(normal(0, second))), least), LONGEST_NS)


class MixFlow(msgspec.Struct, frozen=True):
    """Requests of one kind, with a `rate` a second or else a number of `clients`.

    They arrive from `start_ns` to `stop_ns`; `service` and `think_ns` are their times and pauses.
    """

    name: str
    kind: Kind
    rate: float
    clients: int
    arrivals: str
    service: Times
    think_ns: int
    start_ns: int
    stop_ns: int

    def expected_arrivals(self) -> float:
        """About how many requests a flow with a rate has; 0 of clients."""
        return self.rate * (self.stop_ns - self.start_ns) / NS_PER_S

    def requests(self, chance: random.Random) -> Iterator[tuple[int, Kind, int]]:
        """Arrivals in nanoseconds with service times, of a flow with a rate."""
        draw = self.service.drawer(chance)
        gap_ns = NS_PER_S / self.rate
        stop_ns, kind = self.stop_ns, self.kind
        if self.arrivals == CONSTANT:
            # Not all flows at once: each has its place in the first gap.
            at = self.start_ns + chance.random() * gap_ns
            while at < stop_ns:
                yield int(at), kind, draw()
                at += gap_ns
            return
        log, drawn = math.log, chance.random
        at = self.start_ns - log(1.0 - drawn()) * gap_ns
        while at < stop_ns:
            yield int(at), kind, draw()
            at -= log(1.0 - drawn()) * gap_ns


class Mix(msgspec.Struct, frozen=True):
    """All flows of a mix, in the order of the file; arrivals end by `duration_ns`."""

    duration_ns: int
    seed: int
    flows: tuple[MixFlow, ...]

    def chance(self, index: int) -> random.Random:
        """The chance of one flow (or of one client of it), which no other flow changes."""
        return random.Random(f"{self.seed} {index}")  # noqa: S311  no secret

    def expected_requests(self) -> float:
        """About how many requests there will be, for a progress bar; of clients a guess."""
        total = 0.0
        for flow in self.flows:
            each_ns = max(flow.service.first_ns, LEAST_SERVICE_NS) + flow.think_ns
            total += flow.expected_arrivals()
            total += flow.clients * (flow.stop_ns - flow.start_ns) / each_ns
        return total


def parse_mix(data: bytes, preset: Preset = KUBERNETES) -> Mix:
    """Read a mix of requests to a kind of API; MixError if it cannot be used."""
    documents, problem = split_documents(data)
    if problem is not None:
        raise MixError(str(problem), problem.line)
    if len(documents) != 1:
        raise MixError(f"expected one document with `flows`, not {len(documents)}")
    top = Fields(documents[0].content, documents[0].line)
    duration_ns = top.duration("duration", required=True, least_ns=1)
    seed = top.integer("seed", 0, 1 << 62, default=0)
    entries = top.take("flows")
    if not isinstance(entries, list) or not entries:
        raise MixError("flows: expected a list of flows", top.line)
    top.finish()
    flows: list[MixFlow] = []
    clients, requests = 0, 0.0
    for index, entry in enumerate(entries):
        fields = Fields(entry, top.line, f"flows[{index}]")
        added = _flows_of(fields, duration_ns, preset)
        flows += added
        clients += len(added) * added[0].clients
        requests += len(added) * added[0].expected_arrivals()
        for name, number, most, noun in (
            ("count", len(flows), MOST_FLOWS, "flows"),
            ("clients", clients, MOST_CLIENTS, "clients"),
            ("rate", requests, MOST_REQUESTS, "requests"),
        ):
            if number > most:
                raise fields.error(name, f"more than {most:,} {noun} in all")
    return Mix(duration_ns, seed, tuple(flows))


def parse_times(text: str) -> Times:
    """Read a distribution of durations, or raise ValueError."""
    call = CALL.fullmatch(text.replace(" ", ""))
    if call is not None:
        centre_ns = _duration_ns(call[2])
        if call[1] == "exp" and call[3] is None:
            return Times("exp", centre_ns)
        if call[1] == "lognormal" and call[3] and NUMBER.fullmatch(call[3]):
            sigma = float(call[3])
            if sigma <= MOST_SIGMA:
                return Times("lognormal", centre_ns, sigma)
        raise ValueError(f"expected a service time, not {text!r}")
    first, dash, second = text.partition("-")
    if not dash:
        return Times("constant", _duration_ns(text))
    least_ns, greatest_ns = _duration_ns(first.strip()), _duration_ns(second.strip())
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


class Fields:
    """The fields of a mapping, each taken once; what is left over is unknown.

    `line` and `path` say in errors where it is, unless it knows itself.
    """

    def __init__(self, content: object, line: int, path: str = "") -> None:
        self.path = path
        self.line = line
        if not isinstance(content, dict):
            raise MixError(f"{path or 'the document'}: expected a mapping", line)
        if isinstance(content, Mapping):
            self.line = content.line or line
        self._left: dict[str, Any] = dict(content)
        self._known: list[str] = []

    def error(self, name: str, message: str) -> MixError:
        """What to raise for a wrong field."""
        return MixError(
            ".".join(part for part in (self.path, name) if part) + f": {message}", self.line
        )

    def take(self, name: str) -> Any:  # noqa: ANN401  whatever the document has
        """A field's value; None if it is not there."""
        self._known.append(name)
        return self._left.pop(name, None)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self.take(name)
        if value is None:
            if default is None:
                raise self.error(name, "is missing")
            return default
        if not isinstance(value, str) or not value:
            raise self.error(name, f"expected a text, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(name, f"expected a list of texts, not {value!r}")
        return tuple(value)

    def number(self, name: str, most: float) -> float:
        """A number, above 0; 0 if it is not there."""
        value = self.take(name)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.error(name, f"expected a number above 0, up to {most:g}, not {value!r}")
        return float(value)

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        """A whole number."""
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.error(name, f"expected a whole number, {least} to {most}, not {value!r}")
        return value

    def duration(
        self, name: str, *, default: int = 0, required: bool = False, least_ns: int = 0
    ) -> int:
        """A duration in nanoseconds."""
        value = self.take(name)
        if value is None:
            if required:
                raise self.error(name, "is missing")
            return default
        try:
            found = _duration_ns(value if isinstance(value, str) else str(value))
        except ValueError as error:
            raise self.error(name, str(error)) from None
        if found < least_ns:
            least = f"{least_ns / NS_PER_S:g}s or more" if least_ns > 1 else "above 0"
            raise self.error(name, f"has to be {least}")
        return found

    def finish(self) -> None:
        """Refuse what has not been taken."""
        for name in self._left:
            raise self.error(str(name), f"unknown; known are {', '.join(self._known)}")


def _flows_of(fields: Fields, duration_ns: int, preset: Preset) -> list[MixFlow]:
    """The flows of one entry: one, or as many as its `count` says."""
    name = fields.text("name")
    count = fields.integer("count", 1, MOST_FLOWS, default=1)
    user = fields.text("user", ANONYMOUS.name)
    groups = fields.texts("groups")
    method, target = _request_of(fields)
    rate = fields.number("rate", MOST_RATE)
    clients = fields.integer("clients", 1, MOST_CLIENTS, default=0)
    if bool(rate) == bool(clients):
        raise fields.error("rate", "give either rate, or clients")
    arrivals = fields.text("arrivals", POISSON)
    if arrivals not in {POISSON, CONSTANT}:
        raise fields.error("arrivals", f"expected {POISSON} or {CONSTANT}, not {arrivals!r}")
    service_text = fields.take("serviceTime")
    if service_text is None:
        raise fields.error("serviceTime", f"is missing; give one {TIMES}")
    try:
        service = parse_times(str(service_text))
    except ValueError as error:
        raise fields.error("serviceTime", f"{error}; service times are {TIMES}") from None
    seats = fields.integer("seats", 1, MOST_SEATS, default=0)
    headers = _headers_of(fields)
    think_ns = fields.duration("thinkTime")
    start_ns = fields.duration("start")
    stop_ns = min(fields.duration("stop", default=duration_ns), duration_ns)
    if start_ns >= stop_ns:
        raise fields.error("start", "has to be before stop and the end of the mix")
    fields.finish()
    made = []
    for index in range(count):
        number = str(index)
        own = name if "{}" in name or count == 1 else f"{name}-{{}}"
        try:
            kind = kind_of(
                own.replace("{}", number),
                _user(user.replace("{}", number), groups),
                method,
                target.replace("{}", number),
                seats,
                headers,
                preset,
            )
        except (AttributesError, DeadlineError) as error:
            raise fields.error("request", str(error)) from None
        made.append(
            MixFlow(
                kind.client, kind, rate, clients, arrivals, service, think_ns, start_ns, stop_ns
            )
        )
    return made


def _user(name: str, groups: tuple[str, ...]) -> User:
    if name == ANONYMOUS.name:
        return User(name, (*groups, *ANONYMOUS.groups))
    account = ACCOUNT.fullmatch(name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[1]}")
    return authenticated(User(name, groups))


def _headers_of(fields: Fields) -> tuple[tuple[str, str], ...]:
    """The header fields: names in lower case, and values."""
    found = []
    for text in fields.texts("headers"):
        name, colon, value = text.partition(":")
        if not colon or use_of(name.strip().lower()) is HeaderUse.MALFORMED:
            raise fields.error("headers", f"expected a header such as X-Team: red, not {text!r}")
        found.append((name.strip().lower(), value.strip()))
    return tuple(found)


def _request_of(fields: Fields) -> tuple[str, str]:
    """The method and the target."""
    request = fields.text("request", "")
    verb = fields.text("verb", "")
    resource = fields.text("resource", "")
    namespace = fields.text("namespace", "")
    name = fields.text("objectName", "")
    if request:
        if verb or resource or namespace or name:
            raise fields.error("request", "give either request, or verb and resource")
        method, _, target = request.partition(" ")
        if not method.isalpha() or not target.startswith("/") or " " in target:
            raise fields.error("request", f"expected GET /api/v1/pods or the like, not {request!r}")
        return method, target
    if not verb or not resource:
        raise fields.error("request", "is missing; or give verb and resource")
    method_of_verb = METHOD_OF_VERB.get(verb)
    if method_of_verb is None:
        raise fields.error("verb", f"expected one of {', '.join(METHOD_OF_VERB)}, not {verb!r}")
    for field, part in (("resource", resource), ("namespace", namespace), ("objectName", name)):
        if part and not PART.fullmatch(part):
            raise fields.error(field, f"expected a name, not {part!r}; or give the whole request")
    plural, _, group = resource.partition(".")
    target = f"/apis/{group}/v1" if group else "/api/v1"
    if namespace:
        target += f"/namespaces/{namespace}"
    target += f"/{plural}"
    if verb in {"get", "update", "patch", "delete"}:
        target += f"/{name or 'some'}"
    elif name:
        raise fields.error("objectName", f"means nothing to {verb}")
    if verb == "watch":
        target += "?watch=true"
    return method_of_verb, target
