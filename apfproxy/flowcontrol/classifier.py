"""The FlowSchema that a request belongs to, and what tells flows apart.

FlowSchemas are tried by their matching precedence, then by name; the first that matches wins.  One
matches if any of its rules does: any subject of the rule, and any of its resource rules (for a
resource request) or of its non-resource rules (for any other).  An addition may ask for more than
the rules do, see `mismatch.unmet`.

Rules are not tried one after the other.  Each resource rule and each non-resource rule, with the
subjects that stand beside it, is a line.  A set of lines is an integer with a bit for each; the
first line has the highest bit.  For each field of a rule there is a table from a value to the lines
that the value matches, and the lines that any other value matches, by a wildcard.  A request's
lines are the intersection of those of its fields, and the first of them is the length of the
integer in bits.  The tables of n lines may take n² bits, so an index has `MOST_LINES` at most, and
a `Classifier` asks one index after the other.

A non-resource URL `/a`, `/a/` or `/a/*` matches what is below `/a/` too; `*` matches everything.

Deviation: a path that some server might take for another one, see `request.path_prefixes`, matches
a non-resource URL only as a whole, or by `*` or `/*`.  Kubernetes lets `/healthz/../api/v1/secrets`
pass for a part of `/healthz`, which is harmless before kube-apiserver, which resolves nothing.
Behind this proxy may be a server that does, and its clients must not choose an exempt priority
level so.

Source: kubernetes/apiserver pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import mmh3

from apfproxy.objects.additions import MOST_VALUES, Condition, DistinguisherKind, matches
from apfproxy.objects.types import (  # compiled, `Line` has them at run time
    FlowSchema,
    NonResourcePolicyRule,
    ResourcePolicyRule,
)
from apfproxy.request.attributes import (
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    parameter_pattern,
    parameter_values,
)
from apfproxy.request.rules import is_plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from apfproxy.objects.additions import Distinguisher
    from apfproxy.objects.types import Subject
    from apfproxy.request.attributes import RequestAttributes, User

ALL: Final = "*"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Subjects:
    """The subjects of one rule, merged; `user_prefixes` are all service accounts of a namespace."""

    def __init__(self, subjects: Iterable[Subject]) -> None:
        self.is_all = False
        self.users: set[str] = set()
        self.groups: set[str] = set()
        self.user_prefixes: tuple[str, ...] = ()
        for subject in subjects:
            self._add(subject)

    def _add(self, subject: Subject) -> None:
        if subject.kind == "User" and subject.user is not None:
            self.is_all |= subject.user.name == ALL
            self.users.add(subject.user.name)
        elif subject.kind == "Group" and subject.group is not None:
            self.is_all |= subject.group.name == ALL
            self.groups.add(subject.group.name)
        elif subject.kind == "ServiceAccount" and subject.service_account is not None:
            prefix = f"{SERVICE_ACCOUNT_PREFIX}{subject.service_account.namespace}:"
            if subject.service_account.name == ALL:
                self.user_prefixes += (prefix,)
            else:
                self.users.add(prefix + subject.service_account.name)

    def match(self, user: User) -> bool:
        return (
            self.is_all
            or user.name in self.users
            or not self.groups.isdisjoint(user.groups)
            or user.name.startswith(self.user_prefixes)
        )


ROOT: Final = "/"


def below(url: str) -> str:
    """The begin of all paths below a URL; those below `ROOT` need not be plain."""
    return url.removesuffix(ALL).removesuffix("/") + "/"


MOST_LINES: Final = 4096
"""Bounds the sets of one index: a set takes 560 bytes at most."""


class Line(NamedTuple):
    flow_schema: FlowSchema
    subjects: Subjects
    rule: ResourcePolicyRule | NonResourcePolicyRule
    condition: Condition | None


class Field:
    """The lines of an index by the values of one field.

    Attributes:
        every: The lines that match every value.
        lines: Those that match a value; a value that is not there has `every`.
    """

    def __init__(self) -> None:
        self.every = 0
        self.lines: dict[str, int] = {}

    def add(self, values: Iterable[str], line: int) -> None:
        """Have a line match these values; a wildcard counts only if it stands alone."""
        if values == (ALL,):
            self.every |= line
        else:
            _add(self.lines, values, line)

    def complete(self) -> None:
        every = self.every
        if every:
            self.lines = {value: lines | every for value, lines in self.lines.items()}


class Header(Field):
    """The lines that ask for a header, by its values.

    Attributes:
        name: The header's, in lower case.
        asking: All of these lines.
        patterns: Those that ask for a pattern.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.asking = 0
        self.patterns: dict[str, int] = {}

    def add_condition(self, values: frozenset[str], line: int) -> None:
        """Have a line ask for the header with one of these values or patterns; empty for any."""
        self.asking |= line
        self.add([each for each in values if ALL not in each] if values else (ALL,), line)
        _add(self.patterns, [each for each in values if ALL in each], line)

    def unmet(self, value: str, found: int) -> int:
        """The lines that a value does not satisfy; "" if the request has no such header.

        Patterns of lines that are not among those found are not looked at.
        """
        value = value.strip(" \t")
        if not value:
            return self.asking
        met = self.lines.get(value, self.every)
        return self.asking & ~(met | self._met_by_patterns(value, found & ~met))

    def _met_by_patterns(self, value: str, wanted: int) -> int:
        met = 0
        for pattern, lines in self.patterns.items():
            if lines & wanted & ~met and matches(pattern, value):
                met |= lines
        return met


MODEL: Final = ":model"
"""The name by which a completion's model is asked for, as if it were a header; none has a colon."""
QUERY: Final = ":query"
"""The name of the query, see `raw_query`."""


def raw_query(target: bytes) -> str:
    """The query of a target as it came, its bytes as Latin-1."""
    return target.partition(b"?")[2].decode("latin-1")


class Parameter(Header):
    """The lines that ask for a parameter of the query; `missing` are met by a request without it.

    Any of several values counts.  More than `MOST_VALUES` meet all lines: none is evaded by them.
    """

    def __init__(self, name: str) -> None:
        super().__init__(QUERY)
        self.missing = 0
        self._pattern = parameter_pattern(name)

    def add_condition(self, values: frozenset[str], line: int) -> None:
        super().add_condition(values, line)
        if "" in values:
            self.missing |= line

    def unmet(self, value: str, found: int) -> int:
        values, may_be_missing = parameter_values(self._pattern, value.encode("latin-1"))
        if len(values) > MOST_VALUES:
            return 0
        met = self.missing if may_be_missing else 0
        for each in values:
            met |= self.lines.get(each, self.every) | self._met_by_patterns(each, found & ~met)
        return self.asking & ~met


class RuleIndex:
    """Finds the first line of a request among `MOST_LINES` at most, in the order they count."""

    def __init__(self, lines: Sequence[Line]) -> None:
        # By the length of a set of lines, that is by its first line.
        self._flow_schemas: list[FlowSchema | None] = [None]
        self._conditions: list[tuple[Header, ...]] = [()]
        self._everybody = 0
        self._users: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._accounts: dict[str, int] = {}  # by the beginning of their names, with the namespace
        self._resource_verbs = Field()
        self._api_groups = Field()
        self._resources = Field()
        self._namespaces = Field()
        self._cluster_scope = 0
        self._url_verbs = Field()
        self._urls = Field()
        self._root = 0
        self._below: dict[str, int] = {}  # by the beginnings of paths, but for "/"
        self._asking = 0

        asked: dict[str, Header] = {}
        for number, line in enumerate(reversed(lines)):
            bit = 1 << number
            self._flow_schemas.append(line.flow_schema)
            self._conditions.append(self._add_condition(line.condition, bit, asked))
            if line.subjects.is_all:
                self._everybody |= bit
            else:
                _add(self._users, line.subjects.users, bit)
                _add(self._groups, line.subjects.groups, bit)
                _add(self._accounts, line.subjects.user_prefixes, bit)
            rule = line.rule
            if isinstance(rule, ResourcePolicyRule):
                self._resource_verbs.add(rule.verbs, bit)
                self._api_groups.add(rule.api_groups, bit)
                self._resources.add(rule.resources, bit)
                self._namespaces.add(rule.namespaces, bit)
                if rule.cluster_scope:
                    self._cluster_scope |= bit
            else:
                self._add_url_rule(rule, line.condition, bit)
        self._longest_below = max(map(len, self._below), default=0)
        for field in (
            self._resource_verbs,
            self._api_groups,
            self._resources,
            self._namespaces,
            self._url_verbs,
            self._urls,
            *asked.values(),
        ):
            field.complete()

    def _add_condition(
        self, condition: Condition | None, bit: int, asked: dict[str, Header]
    ) -> tuple[Header, ...]:
        if condition is None:
            return ()
        wanted: dict[str, frozenset[str]] = {}
        if condition.models is not None:
            wanted[MODEL] = condition.models
        if condition.header:
            wanted[condition.header] = condition.values
        if condition.parameter:
            wanted[f"?{condition.parameter}"] = condition.parameter_values
        for name, values in wanted.items():
            if name not in asked:
                asked[name] = Parameter(name[1:]) if name.startswith("?") else Header(name)
            asked[name].add_condition(values, bit)
            self._asking |= bit
        return tuple([asked[name] for name in wanted])

    def _add_url_rule(
        self, rule: NonResourcePolicyRule, condition: Condition | None, bit: int
    ) -> None:
        methods = None if condition is None else condition.methods
        if methods is None:
            self._url_verbs.add(rule.verbs, bit)
        else:
            self._url_verbs.add(
                methods if rule.verbs == (ALL,) else methods.intersection(rule.verbs), bit
            )
        urls = rule.non_resource_urls
        if ALL in urls:
            self._urls.every |= bit
        else:
            self._urls.add(urls, bit)
            prefixes = set(map(below, urls))
            if ROOT in prefixes:
                self._root |= bit
            else:
                _add(self._below, prefixes, bit)

    def first(
        self, user: User, attributes: RequestAttributes, header_of: Callable[[str], str]
    ) -> FlowSchema | None:
        found = self._everybody
        of_group = self._groups
        for group in user.groups:
            if group in of_group:
                found |= of_group[group]
        name = user.name
        if name in self._users:
            found |= self._users[name]
        if name.startswith(SERVICE_ACCOUNT_PREFIX):
            namespace = name[: name.find(":", len(SERVICE_ACCOUNT_PREFIX)) + 1]
            found |= self._accounts.get(namespace, 0)
        if not found:
            return None
        verb = attributes.verb
        if attributes.is_resource_request:
            resource, namespace = attributes.resource, attributes.namespace
            if attributes.subresource:
                resource = f"{resource}/{attributes.subresource}"
            field = self._resource_verbs
            found &= field.lines.get(verb, field.every)
            field = self._resources
            found &= field.lines.get(resource, field.every)
            field = self._api_groups
            found &= field.lines.get(attributes.api_group, field.every)
            if namespace:
                field = self._namespaces
                found &= field.lines.get(namespace, field.every)
            else:
                found &= self._cluster_scope
        else:
            field = self._url_verbs
            found &= field.lines.get(verb, field.every)
            found &= self._of_path(attributes.path)
        if found & self._asking:
            found = self._met(found, header_of)
        return self._flow_schemas[found.bit_length()]

    def _of_path(self, path: str) -> int:
        field = self._urls
        found = field.lines.get(path, field.every)
        if path.startswith(ROOT):
            found |= self._root
        # No slash beyond the longest beginning counts: a client may send thousands.
        longest, lines = self._longest_below, 0
        end = path.find("/", 1, longest)
        while end > 0:
            lines |= self._below.get(path[: end + 1], 0)
            end = path.find("/", end + 1, longest)
        if lines & ~found and is_plain_path(path):
            found |= lines
        return found

    def _met(self, found: int, header_of: Callable[[str], str]) -> int:
        """The lines without those before the first whose condition is met."""
        seen: list[Header] = []
        first = 0
        while found.bit_length() != first:
            first = found.bit_length()
            for each in self._conditions[first]:
                if each not in seen:
                    seen.append(each)
                    found &= ~each.unmet(header_of(each.name), found)
        return found


def _add(table: dict[str, int], values: Iterable[str], line: int) -> None:
    for value in values:
        table[value] = table.get(value, 0) | line


LONGEST_VALUE: Final = 128
"""Characters of a header or a path that count: flows are kept by their names."""

VIRTUAL_GROUPS: Final = frozenset(
    {AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, "system:serviceaccounts"}
)
"""Groups of all users, or of all service accounts of a cluster."""

_PROGRAM: Final = re.compile(r"[^/\s]+")


def no_header(name: str) -> str:  # noqa: ARG001  the signature of those that know some
    return ""


def flow_hash(seed: int, flow_schema_name: str, distinguisher: str) -> int:
    """The 64 bits that deal a hand; the seed (32 bits) keeps users from computing others' hands."""
    # A header may carry text that is no Unicode; it is hashed as it came.
    key = f"{flow_schema_name}\0{distinguisher}".encode(errors="surrogatepass")
    return mmh3.hash64(key, seed & 0xFFFFFFFF, signed=False)[0]


class Classifier:
    def __init__(self, flow_schemas: Iterable[FlowSchema], most_lines: int = MOST_LINES) -> None:
        lines = list(chain.from_iterable(map(_lines, sorted(flow_schemas, key=matching_order))))
        self._indexes = [
            RuleIndex(lines[start : start + most_lines])
            for start in range(0, len(lines), most_lines)
        ]

    def classify(
        self,
        user: User,
        attributes: RequestAttributes,
        header_of: Callable[[str], str] = no_header,
    ) -> FlowSchema | None:
        """The first FlowSchema that matches; None cannot be with the mandatory `catch-all`."""
        for index in self._indexes:
            found = index.first(user, attributes, header_of)
            if found is not None:
                return found
        return None


def _lines(flow_schema: FlowSchema) -> Iterator[Line]:
    condition = flow_schema.additions.condition
    if condition is not None and condition.is_broken:
        return
    for rule in flow_schema.spec.rules:
        subjects = Subjects(rule.subjects)
        for resource_rule in rule.resource_rules:
            yield Line(flow_schema, subjects, resource_rule, condition)
        for url_rule in rule.non_resource_rules:
            yield Line(flow_schema, subjects, url_rule, condition)


def matching_order(flow_schema: FlowSchema) -> tuple[int, str]:
    return flow_schema.spec.matching_precedence, flow_schema.metadata.name


def added_distinguisher(
    distinguisher: Distinguisher,
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str],
) -> str:
    """Tell the flow of a request from others of its FlowSchema; "" if nothing does."""
    if distinguisher.kind is DistinguisherKind.GROUP:
        return next((group for group in user.groups if group not in VIRTUAL_GROUPS), "")
    if distinguisher.kind is DistinguisherKind.PATH_PREFIX:
        return attributes.prefix_value[:LONGEST_VALUE]
    if distinguisher.kind is DistinguisherKind.HEADER:
        # A list that the proxy is to complete, X-Forwarded-For, ends with a comma.
        return _text(header_of(distinguisher.header)).rstrip(", ")[:LONGEST_VALUE]
    # Of `kubectl/v1.36.0 (linux/amd64) kubernetes/abc` what stays with another version.
    program = _PROGRAM.match(_text(header_of("user-agent")))
    return "" if program is None else program[0][:LONGEST_VALUE]


def _text(value: str) -> str:
    """The value with U+FFFD in place of lone surrogates."""
    return (
        value
        if value.isascii()
        else value.encode(errors="surrogateescape").decode(errors="replace")
    )
