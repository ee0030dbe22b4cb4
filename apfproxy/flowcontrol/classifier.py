"""Which FlowSchema a request belongs to, and which of its flows.

FlowSchemas are tried by their matching precedence, then by name; the first that matches wins.  One
matches if any of its rules does: any subject of the rule, and any of its resource rules (for a
resource request) or of its non-resource rules (for any other).  An addition may ask for more than
the rules do, see `conditions`.

Source: kubernetes/apiserver pkg/util/flowcontrol/rule.go.

Deviation: a path that some server might take for another one matches a non-resource URL only as a
whole, or by `*` or `/*`.  Kubernetes lets `/healthz/../api/v1/secrets` pass for a part of
`/healthz`, which is harmless before kube-apiserver, which resolves nothing.  Behind this proxy may
be a server that does, and its clients must not choose an exempt priority level so.  Such paths are
those with dot segments, and those with a character that is not unreserved or a delimiter by
RFC 3986: escapes that are decoded a second time, backslashes, `;` with what belongs to a segment,
and whatever is no ASCII, which may become it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import mmh3

from apfproxy.api.flowcontrol.additions import flow_schema_additions
from apfproxy.flowcontrol.added_distinguisher import no_header
from apfproxy.flowcontrol.conditions import is_met

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.api.flowcontrol.conditions import Condition
    from apfproxy.api.flowcontrol.types import (
        FlowSchema,
        NonResourcePolicyRule,
        PolicyRulesWithSubjects,
        ResourcePolicyRule,
        Subject,
    )
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User

ALL = "*"
PLAIN_PATH = re.compile(r"(?:/(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]*+)*+")
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


def flow_hash(seed: int, flow_schema_name: str, distinguisher: str) -> int:
    """The hash of a flow, 64 bits, from which it is dealt its hand.

    The seed (32 bits) is drawn at start, so that nobody can compute which names share a hand.
    """
    # A header may carry text that is no Unicode; it is hashed as it came.
    key = f"{flow_schema_name}\0{distinguisher}".encode(errors="surrogatepass")
    return mmh3.hash64(key, seed & 0xFFFFFFFF, signed=False)[0]


def distinguisher(flow_schema: FlowSchema, user: User, attributes: RequestAttributes) -> str:
    """What tells the flow of this request from others of its FlowSchema; "" if nothing does."""
    method = flow_schema.spec.distinguisher_method
    if method is None:
        return ""
    if method.type == "ByUser":
        return user.name
    return attributes.namespace


class Classifier:
    """Finds the FlowSchema of a request.

    Rules are indexed by their subjects: only those that name the user or one of its groups are
    tried, in the order of their FlowSchemas.

    Args:
        flow_schemas: In any order; names differ.
        known: One whose work is used for the FlowSchemas that both have, the very same objects.
    """

    def __init__(self, flow_schemas: Iterable[FlowSchema], known: Classifier | None = None) -> None:
        self._compiled: dict[str, CompiledSchema] = {}
        self._flow_schemas: list[FlowSchema] = []
        self._rules: list[RequestRules] = []
        # Indexes into the two lists above, ascending.
        self._for_all: list[int] = []
        self._by_user: dict[str, list[int]] = {}
        self._by_group: dict[str, list[int]] = {}
        self._prefixes: list[tuple[str, int]] = []
        self._conditions: dict[int, Condition] = {}
        before = {} if known is None else known._compiled  # noqa: SLF001 - of this class
        for flow_schema in sorted(flow_schemas, key=matching_order):
            name = flow_schema.metadata.name
            compiled = before.get(name)
            if compiled is None or compiled.flow_schema is not flow_schema:
                compiled = CompiledSchema(flow_schema)
            self._compiled[name] = compiled
            for subjects, rules in compiled.rules:
                if compiled.condition is not None:
                    self._conditions[len(self._rules)] = compiled.condition
                self._add(flow_schema, subjects, rules)

    def _add(self, flow_schema: FlowSchema, subjects: Subjects, rules: RequestRules) -> None:
        index = len(self._rules)
        self._flow_schemas.append(flow_schema)
        self._rules.append(rules)
        if subjects.is_all:
            self._for_all.append(index)
            return
        for name in subjects.users:
            self._by_user.setdefault(name, []).append(index)
        for name in subjects.groups:
            self._by_group.setdefault(name, []).append(index)
        self._prefixes += [(prefix, index) for prefix in subjects.user_prefixes]

    def classify(
        self,
        user: User,
        attributes: RequestAttributes,
        header_of: Callable[[str], str] = no_header,
    ) -> FlowSchema | None:
        """The first FlowSchema that matches; None cannot be with the mandatory `catch-all`.

        `header_of` gives the value of a header by its name in lower case; "" if there is none.
        """
        candidates = set(self._for_all)
        for group in user.groups:
            candidates.update(self._by_group.get(group, ()))
        candidates.update(self._by_user.get(user.name, ()))
        if user.name.startswith(SERVICE_ACCOUNT_PREFIX):
            candidates.update(
                index for prefix, index in self._prefixes if user.name.startswith(prefix)
            )
        conditions = self._conditions
        for index in sorted(candidates):
            if self._rules[index].match(attributes):
                # In most configurations there are none: 20 ns less than to look for one.
                condition = conditions[index] if conditions and index in conditions else None
                if condition is None or is_met(condition, attributes, header_of):
                    return self._flow_schemas[index]
        return None


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
        """Whether any of them is the user or one of its groups."""
        return (
            self.is_all
            or user.name in self.users
            or not self.groups.isdisjoint(user.groups)
            or user.name.startswith(self.user_prefixes)
        )


class CompiledSchema:
    """A FlowSchema with what its rules come to; shared by classifiers, so immutable."""

    __slots__ = ("condition", "flow_schema", "rules")

    def __init__(self, flow_schema: FlowSchema) -> None:
        self.flow_schema = flow_schema
        self.condition = flow_schema_additions(flow_schema).condition
        self.rules = tuple(
            (Subjects(rule.subjects), RequestRules(rule)) for rule in flow_schema.spec.rules
        )


class RequestRules:
    """The resource and non-resource rules of one rule."""

    def __init__(self, rule: PolicyRulesWithSubjects) -> None:
        self._resource = [ResourceMatcher(rule) for rule in rule.resource_rules]
        self._non_resource = [NonResourceMatcher(rule) for rule in rule.non_resource_rules]

    def match(self, attributes: RequestAttributes) -> bool:
        """Whether any rule of the request's kind matches."""
        if attributes.is_resource_request:
            subresource = attributes.subresource
            resource = (
                f"{attributes.resource}/{subresource}" if subresource else attributes.resource
            )
            for rule in self._resource:
                if rule.match(attributes, resource):
                    return True
        else:
            for non_resource_rule in self._non_resource:
                if non_resource_rule.match(attributes):
                    return True
        return False


class ResourceMatcher:
    """A resource rule, ready to match; None stands for a wildcard."""

    def __init__(self, rule: ResourcePolicyRule) -> None:
        self._verbs = _set_or_all(rule.verbs)
        self._resources = _set_or_all(rule.resources)
        self._api_groups = _set_or_all(rule.api_groups)
        self._cluster_scope = rule.cluster_scope
        self._namespaces = _set_or_all(rule.namespaces)

    def match(self, attributes: RequestAttributes, resource: str) -> bool:
        """Whether it matches a request; `resource` has the subresource after a slash."""
        if self._verbs is not None and attributes.verb not in self._verbs:
            return False
        if self._resources is not None and resource not in self._resources:
            return False
        if self._api_groups is not None and attributes.api_group not in self._api_groups:
            return False
        if not attributes.namespace:
            return self._cluster_scope
        return self._namespaces is None or attributes.namespace in self._namespaces


class NonResourceMatcher:
    """A non-resource rule, ready to match.

    A URL `/a`, `/a/` or `/a/*` matches what is below `/a/` too; `*` matches everything.
    """

    def __init__(self, rule: NonResourcePolicyRule) -> None:
        urls = rule.non_resource_urls
        self._verbs = _set_or_all(rule.verbs)
        self._exact = frozenset(urls)
        self._prefixes = tuple({url.removesuffix(ALL).removesuffix("/") + "/" for url in urls})
        self._is_all = ALL in urls

    def match(self, attributes: RequestAttributes) -> bool:
        """Whether it matches a request."""
        if self._verbs is not None and attributes.verb not in self._verbs:
            return False
        path = attributes.path
        if self._is_all or path in self._exact:
            return True
        if not path.startswith(self._prefixes):
            return False
        return is_plain_path(path) or "/" in self._prefixes


def is_plain_path(path: str) -> bool:
    """Whether every server takes the path, decoded once, for one below its beginning."""
    return PLAIN_PATH.fullmatch(path) is not None


def _set_or_all(values: tuple[str, ...]) -> frozenset[str] | None:
    """The values as a set; None for all, which only a wildcard that stands alone means."""
    return None if values == (ALL,) else frozenset(values)


def matching_order(flow_schema: FlowSchema) -> tuple[int, str]:
    """What FlowSchemas are sorted by before they are tried."""
    return flow_schema.spec.matching_precedence, flow_schema.metadata.name
