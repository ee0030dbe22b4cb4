"""Additions to FlowSchemas and PriorityLevelConfigurations: annotations under `apfproxy.io/`.

They are annotations, so that every object stays valid for kube-apiserver, which ignores them.

1. An annotation that is unknown, that is of the other kind, whose value cannot be read, or that
   its object gives no meaning to, is an error at `metadata.annotations[NAME]`.
2. An addition with an error does not count; the object and its other additions do.  Only a
   condition that cannot be read counts: as one that no request meets.
3. So an object whose `until` cannot be read stays in force: a client would notice a ban that does
   not end, but only the server one that never began.

`docs/objects.md` has their table.  Of a value with `*` in `match-header`, `match-model` and
`match-query` the whole is a pattern, in which `*` stands for any characters, or none; others are
compared as they are.  The first field of the name counts, but any parameter of the name: servers
differ in which of several they take, and a rule that keeps requests out must not be evaded by
another one.  `match-methods` is for requests for non-resource paths, since Kubernetes allows only
verbs of resources in the rules for them.
"""

from __future__ import annotations

import enum
import math
import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from apfproxy.objects.field_errors import FieldError, closest, forbidden, invalid, not_supported
from apfproxy.objects.go_text import parse_time, rfc3339
from apfproxy.objects.names import CATCH_ALL, EXEMPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
Number = TypeVar("Number", int, float)

PREFIX = "apfproxy.io/"
MATCH_HEADER = PREFIX + "match-header"
MATCH_METHODS = PREFIX + "match-methods"
MATCH_MODEL = PREFIX + "match-model"
MATCH_QUERY = PREFIX + "match-query"
WAIT_LIMIT = PREFIX + "wait-limit"
BAN = PREFIX + "ban"
PRIORITY = PREFIX + "priority"
DISTINGUISHER = PREFIX + "distinguisher"
REQUEST_RATE = PREFIX + "request-rate"
REQUEST_BURST = PREFIX + "request-burst"
LONG_RUNNING_LIMIT = PREFIX + "long-running-limit"
STREAM_SEATS = PREFIX + "stream-seats"
COST = PREFIX + "cost"
TOKEN_RATE = PREFIX + "token-rate"
TOKEN_BURST = PREFIX + "token-burst"
FLOW_REQUESTS_LIMIT = PREFIX + "flow-requests-limit"
WEIGHT = PREFIX + "weight"
BYTES_PER_SECOND = PREFIX + "bytes-per-second"
UNTIL = PREFIX + "until"

OF_LEVEL = (BAN, COST, PRIORITY, STREAM_SEATS, UNTIL, WAIT_LIMIT)
OF_FLOW_SCHEMA = (
    BYTES_PER_SECOND,
    DISTINGUISHER,
    FLOW_REQUESTS_LIMIT,
    LONG_RUNNING_LIMIT,
    MATCH_HEADER,
    MATCH_METHODS,
    MATCH_MODEL,
    MATCH_QUERY,
    REQUEST_BURST,
    REQUEST_RATE,
    STREAM_SEATS,
    TOKEN_BURST,
    TOKEN_RATE,
    UNTIL,
    WEIGHT,
)

OF_RATES = (
    REQUEST_RATE,
    REQUEST_BURST,
    LONG_RUNNING_LIMIT,
    TOKEN_RATE,
    TOKEN_BURST,
    FLOW_REQUESTS_LIMIT,
    BYTES_PER_SECOND,
)
"""Additions that reject requests of a flow, or hold its responses up."""

MOST_WAIT_NS = 60_000_000_000
"""No request waits longer where its level does not say for how long."""
MOST_WAIT_LIMIT_NS = 600_000_000_000
MOST_REQUESTS = 1_000_000
"""Requests a second, at once, or long-running."""
MOST_TOKENS = 1_000_000_000
"""Tokens a minute, or at once."""
MOST_PRIORITY = 1000
MOST_WEIGHT = 100
LEAST_BYTES, MOST_BYTES = 1000, 100_000_000_000
"""Bytes a second."""
LEAST_RATE = 0.001
MOST_ERRORS = 20
"""Errors of one object: further ones usually have the same cause."""

_NS_PER_UNIT = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_DURATION_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern}){{1,3}}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_RATE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_BYTES = re.compile(r"[0-9]{1,12}(?:[kMG]|[KMG]i)?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
"""Suffixes of Kubernetes' quantities."""
_FLAGS = ("false", "true")
MOST_VALUES = 32
LONGEST_VALUE = 128
_OR_MORE = (
    f"or up to {MOST_VALUES} values with commas, of {LONGEST_VALUE} ASCII characters at most,"
    " in which * stands for any characters"
)
LONGEST_HEADER_NAME = 64
SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "proxy-authorization", "sec-websocket-protocol", "x-api-key"}
)
"""Headers that name nothing, since objects, metrics, dumps and logs show names."""
_CONNECTION_HEADER = re.compile(
    "connection|expect|keep-alive|proxy-authenticate|proxy-connection|te|trailer"
    "|transfer-encoding|upgrade"
)
_IDENTITY_HEADER = re.compile(r"x-remote-(?:user|uid|group|extra-.*)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_PARAMETER_NAME = re.compile(r"[A-Za-z0-9._~:$@\[\]-]{1,64}")
_SECRET_PARAMETER = re.compile(
    r".*(secret|passw|signature|credential|jwt|(api|access)[-_.]?key"
    r"|(access|api|auth|bearer|csrf|id|refresh|security|session|xsrf)[-_.]?token).*"
    r"|auth|authorization|key|pwd|session([-_.]?id)?|sid|sig|token",
    re.IGNORECASE,
)
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Z]{1,64}")
_ENCODED = re.compile("%[0-9A-Fa-f]{2}|&")
_VALUE = re.compile(r"[\x21-\x2b\x2d-\x7e](?:[\x20-\x2b\x2d-\x7e]*[\x21-\x2b\x2d-\x7e])?")


class HeaderUse(enum.Enum):
    """Whether requests can be told apart by a header, or why not, and the advice."""

    FIT = ""
    MALFORMED = "a header's name has letters, digits and hyphens, such as X-Priority"
    SECRET = "an object must not hold secrets: take another header"  # noqa: S105  no password
    CONNECTION = "it is about a connection, and tells no requests apart: take another"
    IDENTITY = "it names the user: name users and groups as subjects of a rule"


def use_of(name: str) -> HeaderUse:
    """Judge a header by its name in lower case."""
    if len(name) > LONGEST_HEADER_NAME or not _HEADER_NAME.fullmatch(name):
        return HeaderUse.MALFORMED
    if name in SECRET_HEADERS:
        return HeaderUse.SECRET
    if _CONNECTION_HEADER.fullmatch(name):
        return HeaderUse.CONNECTION
    if _IDENTITY_HEADER.fullmatch(name):
        return HeaderUse.IDENTITY
    return HeaderUse.FIT


class Condition(msgspec.Struct, frozen=True):
    """A condition on requests.

    Attributes:
        methods: In small letters, of requests for no resource; None for any.
        header: The name in lower case; "" for none.
        values: Values or patterns; empty for any.
        models: Names or patterns of the models of completions; empty for any, None for all
            requests.
        parameter: The name of a parameter of the query; "" for none.
        parameter_values: Values or patterns; "" for a request without it; empty for any value.
        is_broken: No request meets it, because it cannot be read.
    """

    methods: frozenset[str] | None = None
    header: str = ""
    values: frozenset[str] = frozenset()
    models: frozenset[str] | None = None
    parameter: str = ""
    parameter_values: frozenset[str] = frozenset()
    is_broken: bool = False

    def can_meet(self, other: Condition) -> bool:
        """Whether a request can meet both; a query may have a parameter twice, so it can that."""
        if self.is_broken or other.is_broken:
            return False
        if self.header and self.header == other.header and not _overlap(self.values, other.values):
            return False
        if self.models is None or other.models is None:
            return True
        return _overlap(self.models, other.models)

    def holds(self, other: Condition | None) -> bool:
        """Whether every request that meets the other meets this one; False may be wrong."""
        if other is None or self.is_broken or other.is_broken:
            return False
        if self.methods is not None and not (other.methods or {""}) <= self.methods:
            return False
        if self.header and not (self.header == other.header and _cover(self.values, other.values)):
            return False
        if self.parameter:
            own, others = self.parameter_values, other.parameter_values
            if self.parameter != other.parameter or not _cover(own, others):
                return False
            if "" in others and "" not in own:
                return False
        if self.models is None:
            return True
        return other.models is not None and _cover(self.models, other.models)


def _overlap(values: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a text can be as both ask for; none ask for any."""
    if not values or not others:
        return True
    return any(values_meet(one, two) for one in values for two in others)


def _cover(values: frozenset[str], others: frozenset[str]) -> bool:
    """Whether every text that is as the others ask for is as these do."""
    if not values or not others:
        return not values
    # A pattern matches another as if that were a value: each `*` of it falls in one of its own.
    return all(any(matches(own, each) for own in values) for each in others)


def matches(pattern: str, value: str) -> bool:
    """Whether a value is as a pattern says; linear in the value."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == value
    *middle, last = rest
    at, end = len(first), len(value) - len(last)
    if at > end or not value.startswith(first) or not value.endswith(last):
        return False
    for piece in middle:
        at = value.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def values_meet(one: str, other: str) -> bool:
    if "*" not in one or "*" not in other:
        return matches(one, other) or matches(other, one)
    start, other_start = one.partition("*")[0], other.partition("*")[0]
    end, other_end = one.rpartition("*")[2], other.rpartition("*")[2]
    # What is between can be all of one and then all of the other.
    return (start.startswith(other_start) or other_start.startswith(start)) and (
        end.endswith(other_end) or other_end.endswith(end)
    )


def parse_methods(text: str) -> frozenset[str]:
    """Read `METHOD, METHOD`; a `ValueError` says what to write."""
    methods = [part.strip() for part in text.split(",")]
    if len(methods) > MOST_VALUES or not all(map(_METHOD.fullmatch, methods)):
        raise ValueError("write HTTP methods in capital letters, such as GET, HEAD")
    return frozenset(method.lower() for method in methods)


def parse_header(text: str) -> tuple[str, frozenset[str]]:
    """Read `NAME: VALUE, VALUE`: the name in lower case and the values; errors as above."""
    name, colon, rest = text.partition(":")
    name = name.strip().lower()
    use = use_of(name)
    if use is not HeaderUse.FIT:
        raise ValueError(use.value)
    values = _values(rest)
    if not colon or values is None:
        text = "write NAME: VALUE, such as X-Priority: batch"
        raise ValueError(f"{text}, {_OR_MORE}; or NAME: * for any value")
    return name, values


def parse_parameter(text: str) -> tuple[str, frozenset[str]]:
    """Read `NAME=VALUE, VALUE`: the name and the values, "" for `!`; errors as above."""
    name, equals, rest = text.partition("=")
    name = name.strip()
    if _SECRET_PARAMETER.fullmatch(name):
        raise ValueError("an object must not hold secrets: take another parameter")
    values = _values(rest)
    is_all = values == frozenset() and any(part.strip() == "!" for part in rest.split(","))
    if not equals or values is None or is_all or not _PARAMETER_NAME.fullmatch(name):
        more = "NAME=* for any value, or ! for a request without the parameter, such as limit=!, 0"
        raise ValueError(f"write NAME=VALUE, such as format=csv, {_OR_MORE}; {more}")
    if _ENCODED.search(rest):
        raise ValueError("name one parameter, write values as they are decoded, and * for , or &")
    return name, frozenset("" if each == "!" else each for each in values)


def parse_models(text: str) -> frozenset[str]:
    """Read `PATTERN, PATTERN`; errors as above."""
    values = _values(text)
    if values is None:
        raise ValueError(f"write a model such as llama3:8b, {_OR_MORE}; or * for any model")
    return values


def _values(text: str) -> frozenset[str] | None:
    """The values between commas, none for any of them; None if they are not well-formed."""
    values = [part.strip() for part in text.split(",")]
    if len(values) > MOST_VALUES:
        return None
    if not all(len(each) <= LONGEST_VALUE and _VALUE.fullmatch(each) for each in values):
        return None
    return frozenset() if "*" in values else frozenset(values)


CONDITIONS = (MATCH_HEADER, MATCH_METHODS, MATCH_MODEL, MATCH_QUERY)
WITHOUT_END = "; as it is, the object stays in force without an end"
MATCHES_NOTHING = "; as it is, the FlowSchema matches no request"
_NO_DISTINGUISHER = {
    HeaderUse.MALFORMED: "write group, path-prefix, user-agent, or header:NAME such as"
    " header:X-Tenant, of letters, digits and hyphens",
    HeaderUse.SECRET: "flows are named in logs and dumps, which must not hold secrets: take"
    " another",
    HeaderUse.CONNECTION: HeaderUse.CONNECTION.value,
    HeaderUse.IDENTITY: "it names the user: write group, or take distinguisherMethod ByUser",
}


_NO_COST = {
    HeaderUse.CONNECTION: HeaderUse.CONNECTION.value,
    HeaderUse.MALFORMED: "write tokens, or header:NAME such as header:X-Cost, of letters, digits"
    " and hyphens",
    HeaderUse.SECRET: HeaderUse.SECRET.value,
    HeaderUse.IDENTITY: "it names the user, and is no number: take another header",
}


class DistinguisherKind(enum.Enum):
    GROUP = "group"
    PATH_PREFIX = "path-prefix"
    USER_AGENT = "user-agent"
    HEADER = "header"


class Distinguisher(msgspec.Struct, frozen=True):
    """How flows are told apart; the header's name is in lower case, "" for another kind."""

    kind: DistinguisherKind
    header: str = ""


class StreamSeats(enum.Enum):
    """Whether a response of unknown length has seats until it ends."""

    HOLD = "hold"
    RELEASE = "release"


class Cost(msgspec.Struct, frozen=True):
    """The cost of requests: as a header says, by its name in lower case; "" for tokens."""

    header: str = ""


TOKENS = Cost()


class LevelAdditions(msgspec.Struct, frozen=True):
    wait_limit_ns: int | None = None
    is_ban: bool = False
    priority: int | None = None
    stream_seats: StreamSeats | None = None
    cost: Cost | None = None
    errors: tuple[FieldError, ...] = ()
    until_s: float | None = None


class FlowSchemaAdditions(msgspec.Struct, frozen=True):
    """Additions to a FlowSchema.

    Attributes:
        request_rate: Requests a second of each flow.
        request_burst: Requests of a flow at once; 0 without a rate.
        token_rate: Tokens a minute of each flow.
        token_burst: Tokens of a flow at once; 0 without a rate.
        flow_requests_limit: Requests of a flow that wait or have seats.
        weight: The share of each flow, where one without has 1.
        bytes_per_second: Of the bodies of responses of each flow.
        errors: The first ones of its annotations.
        until_s: The end, in seconds since 1970.
    """

    distinguisher: Distinguisher | None = None
    request_rate: float | None = None
    request_burst: int = 0
    long_running_limit: int | None = None
    condition: Condition | None = None
    stream_seats: StreamSeats | None = None
    token_rate: int | None = None
    token_burst: int = 0
    errors: tuple[FieldError, ...] = ()
    flow_requests_limit: int | None = None
    weight: int = 1
    bytes_per_second: int | None = None
    until_s: float | None = None

    @property
    def limits_flows(self) -> bool:
        """Whether it limits what each flow does."""
        limits = (
            self.request_rate,
            self.token_rate,
            self.long_running_limit,
            self.flow_requests_limit,
            self.bytes_per_second,
        )
        return any(each is not None for each in limits)


NO_FLOW_SCHEMA_ADDITIONS = FlowSchemaAdditions()


def describe(additions: FlowSchemaAdditions | LevelAdditions) -> tuple[str, ...]:
    """A sentence for each addition that counts."""
    if isinstance(additions, FlowSchemaAdditions):
        what, found = "FlowSchema", _describe_flow_schema(additions)
    else:
        what, found = "level", _describe_level(additions)
    if additions.until_s is None:
        return tuple(found)
    return (*found, f"The {what} is in force until {rfc3339(additions.until_s)} ({UNTIL}).")


def _describe_level(additions: LevelAdditions) -> Iterator[str]:
    if additions.is_ban:
        yield f"Every request is rejected, with 403 ({BAN})."
    if additions.wait_limit_ns is not None:
        seconds = decimal(additions.wait_limit_ns / 1e9)
        yield f"A request waits in its queue for {seconds} s at most ({WAIT_LIMIT})."
    if additions.priority is not None:
        yield (
            "Of the levels with a priority the greatest gets seats first; this one has"
            f" {additions.priority} ({PRIORITY}), and is sure of what its shares are of theirs."
        )
    if (cost := additions.cost) is not None:
        what = f"the cost that the header {cost.header} says" if cost.header else "tokens"
        yield f"Fair queuing shares {what}, not time ({COST})."
    yield from _describe_streams(additions.stream_seats)


def _describe_flow_schema(additions: FlowSchemaAdditions) -> Iterator[str]:
    condition = additions.condition or Condition()
    if condition.is_broken:
        yield "It matches no request, because a condition cannot be read."
    if condition.methods is not None:
        methods = ", ".join(sorted(condition.methods)).upper()
        yield f"Of requests for non-resource paths it matches only {methods} ({MATCH_METHODS})."
    if condition.header:
        header = _named(condition.header, condition.values)
        yield f"It matches only requests with the header {header} ({MATCH_HEADER})."
    if condition.models is not None:
        models = " or ".join(sorted(condition.models)) or "any model"
        yield f"It matches only completions of {models} ({MATCH_MODEL})."
    if condition.parameter:
        parameter = _named(condition.parameter, condition.parameter_values)
        yield f"It matches only requests with the parameter {parameter} ({MATCH_QUERY})."
    if additions.distinguisher is not None:
        by = {
            DistinguisherKind.GROUP: "the first group of the user that is not virtual",
            DistinguisherKind.PATH_PREFIX: "the variable part of request.pathPrefixes",
            DistinguisherKind.USER_AGENT: "the program that User-Agent names",
            DistinguisherKind.HEADER: f"the header {additions.distinguisher.header}",
        }[additions.distinguisher.kind]
        yield f"Flows are told apart by {by} ({DISTINGUISHER})."
    if additions.request_rate is not None:
        rate, burst = decimal(additions.request_rate), additions.request_burst
        yield (
            f"A flow may make {rate} requests a second ({REQUEST_RATE}), and {burst} at once"
            f" ({REQUEST_BURST})."
        )
    if additions.token_rate is not None:
        yield (
            f"A flow may have {additions.token_rate} tokens a minute ({TOKEN_RATE}), and"
            f" {additions.token_burst} at once ({TOKEN_BURST})."
        )
    if (limit := additions.long_running_limit) is not None:
        yield f"A flow may have {limit} long-running requests at once ({LONG_RUNNING_LIMIT})."
    if (limit := additions.flow_requests_limit) is not None:
        yield f"A flow may have {limit} requests that wait or have seats ({FLOW_REQUESTS_LIMIT})."
    if additions.weight > 1:
        yield f"A flow has {additions.weight} times the share of one of weight 1 ({WEIGHT})."
    if (number := additions.bytes_per_second) is not None:
        yield f"The responses of a flow get {number} bytes a second together ({BYTES_PER_SECOND})."
    yield from _describe_streams(additions.stream_seats)


def _named(name: str, values: frozenset[str]) -> str:
    return f"{name}, {listed_values(values)}" if values else name


def listed_values(values: frozenset[str]) -> str:
    return " or ".join(each or "missing" for each in sorted(values))


def _describe_streams(stream_seats: StreamSeats | None) -> Iterator[str]:
    if stream_seats is StreamSeats.HOLD:
        yield f"A response of unknown length has its seats until it ends ({STREAM_SEATS})."
    elif stream_seats is StreamSeats.RELEASE:
        yield f"A response of unknown length gives its seats back at its begin ({STREAM_SEATS})."


def decimal(number: float) -> str:
    """The number as an annotation has it, without an exponent."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def field_of(name: str) -> str:
    return f"metadata.annotations[{name}]"


class _Reader:
    def __init__(
        self,
        annotations: Mapping[str, str],
        known: tuple[str, ...],
        others: tuple[str, ...],
        other_kind: str,
    ) -> None:
        self.own = {key: text for key, text in annotations.items() if key.startswith(PREFIX)}
        self.errors: list[FieldError] = []
        for name in sorted(self.own.keys() - set(known)):
            if name in others:
                self.refuse(name, f"put it on a {other_kind}, or remove it")
            else:
                error = not_supported(field_of(name), name, known)
                bare = (each.removeprefix(PREFIX) for each in known)
                if meant := closest(name.removeprefix(PREFIX), bare):
                    error = msgspec.structs.replace(
                        error, detail=f'did you mean "{PREFIX}{meant}"?'
                    )
                self.errors.append(error)

    def refuse(self, name: str, detail: str) -> None:
        self.errors.append(forbidden(field_of(name), detail))

    def read(self, name: str, parse: Callable[[str], T], more: str = "") -> T | None:
        if (value := self.own.get(name)) is not None:
            try:
                return parse(value)
            except ValueError as error:
                self.errors.append(invalid(field_of(name), value, f"{error}{more}"))
        return None


def read_level_additions(
    annotations: Mapping[str, str], *, has_queues: bool, is_closed: bool
) -> LevelAdditions:
    """Read the additions to a level; it `is_closed` if it has no shares and never queues."""
    reader = _Reader(annotations, OF_LEVEL, OF_FLOW_SCHEMA, "FlowSchema")
    wait_limit = reader.read(WAIT_LIMIT, _wait_limit_ns)
    if wait_limit is not None and not has_queues:
        reader.refuse(WAIT_LIMIT, "nothing waits there: only with limitResponse.type Queue")
        wait_limit = None
    priority = reader.read(PRIORITY, _priority)
    if priority is not None and not has_queues:
        reader.refuse(PRIORITY, "nothing waits there for seats: only with limitResponse.type Queue")
        priority = None
    cost = reader.read(COST, _cost)
    if cost is not None and not has_queues:
        reader.refuse(COST, "nothing is shared there: only with limitResponse.type Queue")
        cost = None
    ban = reader.own.get(BAN)
    is_ban = ban == "true"
    if ban is not None and ban not in _FLAGS:
        reader.errors.append(not_supported(field_of(BAN), ban, _FLAGS))
    elif is_ban and not is_closed:
        detail = "only with limited.nominalConcurrencyShares 0 and limitResponse.type Reject"
        reader.refuse(BAN, detail)
        is_ban = False
    streams = reader.read(STREAM_SEATS, _stream_seats)
    until_s = reader.read(UNTIL, parse_time, WITHOUT_END)
    errors = tuple(reader.errors[:MOST_ERRORS])
    return LevelAdditions(wait_limit, is_ban, priority, streams, cost, errors, until_s)


def read_flow_schema_additions(name: str, annotations: Mapping[str, str]) -> FlowSchemaAdditions:
    reader = _Reader(annotations, OF_FLOW_SCHEMA, OF_LEVEL, "PriorityLevelConfiguration")
    rate = reader.read(REQUEST_RATE, _rate)
    burst = reader.read(REQUEST_BURST, _count)
    tokens, token_burst = reader.read(TOKEN_RATE, _tokens), reader.read(TOKEN_BURST, _tokens)
    for each, needed in ((REQUEST_BURST, REQUEST_RATE), (TOKEN_BURST, TOKEN_RATE)):
        if each in reader.own and needed not in reader.own:
            reader.refuse(each, f"of no use without {needed}: add that, or remove this")
    limit = reader.read(LONG_RUNNING_LIMIT, _count)
    flow_requests = reader.read(FLOW_REQUESTS_LIMIT, _count)
    size = reader.read(BYTES_PER_SECOND, _bytes)
    if name == EXEMPT:
        # An administrator must not be able to lock all users out.
        for each in OF_RATES:
            if each in reader.own:
                reader.refuse(each, f"the FlowSchema {EXEMPT} is never limited: remove it")
        rate = limit = tokens = flow_requests = size = None
    if rate is None:
        burst = 0
    elif burst is None:
        burst = max(1, math.ceil(rate))
    if tokens is None:
        token_burst = 0
    elif token_burst is None:
        token_burst = tokens
    distinguisher, condition = reader.read(DISTINGUISHER, _distinguisher), _condition(name, reader)
    streams = reader.read(STREAM_SEATS, _stream_seats)
    weight = reader.read(WEIGHT, _weight) or 1
    until_s = reader.read(UNTIL, parse_time, WITHOUT_END)
    errors = tuple(reader.errors[:MOST_ERRORS])
    return FlowSchemaAdditions(
        distinguisher,
        rate,
        burst or 0,
        limit,
        condition,
        streams,
        tokens,
        token_burst,
        errors,
        flow_requests_limit=flow_requests,
        weight=weight,
        bytes_per_second=size,
        until_s=until_s,
    )


def _condition(name: str, reader: _Reader) -> Condition | None:
    given = {each for each in CONDITIONS if each in reader.own}
    if name in (EXEMPT, CATCH_ALL):
        for each in sorted(given):
            reader.refuse(each, f"the FlowSchema {name} is mandatory and matches all: remove it")
        return None
    if not given:
        return None
    methods = reader.read(MATCH_METHODS, parse_methods, MATCHES_NOTHING)
    header = reader.read(MATCH_HEADER, parse_header, MATCHES_NOTHING)
    models = reader.read(MATCH_MODEL, parse_models, MATCHES_NOTHING)
    query = reader.read(MATCH_QUERY, parse_parameter, MATCHES_NOTHING)
    read = dict(zip(CONDITIONS, (header, methods, models, query), strict=True))
    if any(read[each] is None for each in given):
        return Condition(is_broken=True)
    nothing = "", frozenset[str]()
    return Condition(methods, *(header or nothing), models, *(query or nothing))


def _distinguisher(text: str) -> Distinguisher:
    kind, _, header = text.partition(":")
    header = header.lower()
    if text in ("group", "path-prefix", "user-agent"):
        return Distinguisher(DistinguisherKind(kind))
    use = use_of(header) if kind == "header" else HeaderUse.MALFORMED
    if use is not HeaderUse.FIT:
        raise ValueError(_NO_DISTINGUISHER[use])
    return Distinguisher(DistinguisherKind.HEADER, header)


def _cost(text: str) -> Cost:
    kind, _, header = text.partition(":")
    header = header.lower()
    if text == "tokens":
        return TOKENS
    use = use_of(header) if kind == "header" else HeaderUse.MALFORMED
    if use is not HeaderUse.FIT:
        raise ValueError(_NO_COST[use])
    return Cost(header)


def _stream_seats(text: str) -> StreamSeats:
    if text not in ("hold", "release"):
        raise ValueError("write hold, or release")
    return StreamSeats(text)


def _duration_ns(text: str) -> int:
    parts = _DURATION_PART.findall(text)
    return round(sum(float(number) * _NS_PER_UNIT[unit] for number, unit in parts))


def _in_bytes(text: str) -> int:
    number = text.rstrip("kKMGi")
    return int(number) * _UNITS[text.removeprefix(number)]


def _within(
    parse: Callable[[str], Number],
    pattern: re.Pattern[str],
    least: float,
    most: float,
    hint: str,
    text: str,
) -> Number:
    if pattern.fullmatch(text) and least <= (number := parse(text)) <= most:
        return number
    raise ValueError(hint)


_WHOLE = "write a whole number from 1 to"
_count = partial(_within, int, _NUMBER, 1, MOST_REQUESTS, f"{_WHOLE} {MOST_REQUESTS}")
_tokens = partial(_within, int, _NUMBER, 1, MOST_TOKENS, f"{_WHOLE} {MOST_TOKENS}")
_priority = partial(
    _within, int, _NUMBER, 1, MOST_PRIORITY, f"{_WHOLE} {MOST_PRIORITY}; the greatest goes first"
)
_weight = partial(_within, int, _NUMBER, 1, MOST_WEIGHT, f"{_WHOLE} {MOST_WEIGHT}")
_BYTES_HINT = "write bytes a second from 1000 to 100G, such as 500000, 500k, 10M or 10Mi"
_bytes = partial(_within, _in_bytes, _BYTES, LEAST_BYTES, MOST_BYTES, _BYTES_HINT)
_RATE_HINT = f"write requests per second, such as 20 or 0.5, from {LEAST_RATE} to {MOST_REQUESTS}"
_rate = partial(_within, float, _RATE, LEAST_RATE, MOST_REQUESTS, _RATE_HINT)
_DURATION_HINT = "write a duration such as 500ms, 5s or 1m, longer than 0s and at most 10m"
_wait_limit_ns = partial(_within, _duration_ns, _DURATION, 1, MOST_WAIT_LIMIT_NS, _DURATION_HINT)
