"""Parts of FlowSchemas (subjects, verbs, URLs, groups, resources, scopes) that nothing matches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from apfproxy.flowcontrol.classifier import ALL, SERVICE_ACCOUNT_PREFIX
from apfproxy.lint.findings import (
    MATCHES_NOTHING,
    NO_SUCH_GROUP,
    NO_SUCH_RESOURCE,
    NO_SUCH_SCOPE,
    NO_SUCH_SUBJECT,
    NO_SUCH_URL,
    NO_SUCH_VERB,
    Finding,
    FindingKind,
)
from apfproxy.lint.known_resources import KNOWN_GROUPS, KnownResource, groups_of
from apfproxy.lint.reachability import ACCOUNTS_GROUP
from apfproxy.objects.field_errors import closest
from apfproxy.objects.names import check_dns_label, check_dns_subdomain
from apfproxy.request.attributes import ANONYMOUS_NAME, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from apfproxy.objects.types import (
        FlowSchema,
        NonResourcePolicyRule,
        PolicyRulesWithSubjects,
        ResourcePolicyRule,
        Subject,
    )

Value = TypeVar("Value")

SYSTEM = "system:"
KNOWN_AS_GROUPS = frozenset(
    {"system:bootstrappers", "system:masters", "system:monitoring", "system:nodes"}
) | {AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP}
"""Groups that Kubernetes names, and no user."""
COMPONENTS = ("apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler")
KNOWN_AS_USERS = frozenset({*(f"{SYSTEM}{name}" for name in COMPONENTS), ANONYMOUS_NAME})
"""Users that Kubernetes names, and no group."""

URL_VERBS = frozenset({ALL, "get", "delete", "patch"})
"""The verbs of rules that are HTTP methods, too."""

ALIKE = 0.94
"""The likeness of a misspelt name: one letter of 20 may differ."""

VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
ALL_NAMESPACES_VERBS = frozenset({ALL, "list", "watch"})
OF_ONE_NAMESPACE_VERBS = frozenset({ALL, "get", "update", "patch", "delete", "watch", "proxy"})
"""Verbs of requests for one Namespace, which count as in it."""
OF_NAMESPACES_VERBS = frozenset({ALL, "list", "watch", "create", "deletecollection"})
"""Verbs of requests for Namespaces without naming one: of the scope of the cluster."""

Dead = tuple[FindingKind, str, str]
"""The kind, the field within the rule, and the message."""


def dead_rules(schema: FlowSchema, *, is_plain: bool = False) -> Iterator[Finding]:
    """The parts of a FlowSchema that match nothing; if all do, `MATCHES_NOTHING` comes last.

    Before an API that `is_plain` resource rules match nothing, a finding only if there are no
    others.
    """
    name, rules = schema.metadata.name, schema.spec.rules
    alive = False
    for index, rule in enumerate(rules):
        found, is_alive = _dead_parts(rule, is_plain=is_plain)
        alive |= is_alive
        for kind, field, message in found:
            yield Finding(kind, "FlowSchema", name, f"spec.rules[{index}].{field}", message)
    if not alive:
        message = "none of its rules can match a request" if rules else "it has no rules"
        yield Finding(MATCHES_NOTHING, "FlowSchema", name, "spec.rules", message)


def _dead_parts(rules: PolicyRulesWithSubjects, *, is_plain: bool) -> tuple[list[Dead], bool]:
    """The dead parts of one element of a FlowSchema's rules, and whether the rest can match."""
    found = _doubted(NO_SUCH_SUBJECT, "subjects", rules.subjects, why_no_subject)
    has_subject = len(found) < len(rules.subjects)
    has_rule = False
    judged: dict[str, list[tuple[list[Dead], bool]]] = {
        "resourceRules": []
        if is_plain
        else [dead_in_resource_rule(rule) for rule in rules.resource_rules],
        "nonResourceRules": [
            dead_in_url_rule(rule, is_plain=is_plain) for rule in rules.non_resource_rules
        ],
    }
    for name, each in judged.items():
        for index, (dead, is_alive) in enumerate(each):
            found += [(kind, f"{name}[{index}].{field}", message) for kind, field, message in dead]
            has_rule |= is_alive
    return found, has_subject and has_rule


def _doubted(
    kind: FindingKind, field: str, values: Sequence[Value], why: Callable[[Value], str]
) -> list[Dead]:
    reasons = enumerate(map(why, values))
    return [(kind, f"{field}[{index}]", message) for index, message in reasons if message]


def why_no_subject(subject: Subject) -> str:
    if subject.user is not None:
        return _why_no_user(subject.user.name)
    if subject.group is not None:
        return _why_no_group(subject.group.name)
    return ""  # a service account's namespace and name have been validated


def _why_no_user(name: str) -> str:
    if name.startswith(SYSTEM) and ALL in name:
        return "names are compared as they are: no user has a * in its name"
    if name in KNOWN_AS_GROUPS or name.startswith(ACCOUNTS_GROUP):
        return "this is a group, and no user"
    if name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        if check_dns_label(namespace) or check_dns_subdomain(account):
            return f"no service account: its user would be {SERVICE_ACCOUNT_PREFIX}NAMESPACE:NAME"
    return _why_misspelt(name, KNOWN_AS_USERS, "user")


def _why_no_group(name: str) -> str:
    if name.startswith(SYSTEM) and ALL in name:
        return "names are compared as they are: no group has a * in its name"
    if name in KNOWN_AS_USERS or name.startswith((SERVICE_ACCOUNT_PREFIX, "system:node:")):
        return "this is a user, and no group"
    if name.startswith(f"{ACCOUNTS_GROUP}:"):
        if check_dns_label(name.removeprefix(f"{ACCOUNTS_GROUP}:")):
            return f"no group: that of a namespace's service accounts is {ACCOUNTS_GROUP}:NAMESPACE"
        return ""
    return _why_misspelt(name, KNOWN_AS_GROUPS | {ACCOUNTS_GROUP}, "group")


def _why_misspelt(name: str, known: Collection[str], noun: str) -> str:
    if not name.startswith(SYSTEM) or name in known:
        return ""
    close = closest(name, known, ALIKE)
    return f'Kubernetes has no {noun} of this name; did you mean "{close}"?' if close else ""


def dead_in_url_rule(
    rule: NonResourcePolicyRule, *, is_plain: bool = False
) -> tuple[list[Dead], bool]:
    verbs = _doubted(
        NO_SUCH_VERB,
        "verbs",
        rule.verbs,
        lambda verb: "" if verb in URL_VERBS else f"no HTTP method is called {verb}",
    )
    urls = _doubted(
        NO_SUCH_URL,
        "nonResourceURLs",
        rule.non_resource_urls,
        lambda url: why_no_url(url, is_plain=is_plain),
    )
    is_alive = len(verbs) < len(rule.verbs) and len(urls) < len(rule.non_resource_urls)
    return verbs + urls, is_alive


def why_no_url(url: str, *, is_plain: bool = False) -> str:
    """Why no request for a non-resource URL has the path; "" if one may, as in all below."""
    if "?" in url or "#" in url:
        return "a path ends before ? and #; apfproxy.io/match-query is for parameters"
    if is_plain:
        return ""
    match url.removesuffix(ALL).strip("/").split("/"):
        case ["api", version, resource, *_] | ["apis", _, version, resource, *_]:
            return f"this is a path of resources, here {resource} of version {version}"
        case ["api", version] | ["apis", _, version] if url.endswith(f"/{ALL}"):
            return f"what is below are paths of resources, of version {version}"
        case _:
            return ""


def dead_in_resource_rule(rule: ResourcePolicyRule) -> tuple[list[Dead], bool]:
    groups = _doubted(NO_SUCH_GROUP, "apiGroups", rule.api_groups, why_no_api_group)
    resources: list[Dead] = []
    for index, resource in enumerate(rule.resources):
        field = f"resources[{index}]"
        if message := _why_no_resource(resource, rule.api_groups):
            resources.append((NO_SUCH_RESOURCE, field, message))
        elif message := _why_out_of_scope(resource, rule):
            resources.append((NO_SUCH_SCOPE, field, message))
    is_alive = len(groups) < len(rule.api_groups) and len(resources) < len(rule.resources)
    return groups + resources, is_alive


def why_no_api_group(group: str) -> str:
    if group == "core":
        return 'the name of the core group is ""'
    if "/" in group or VERSION.fullmatch(group):
        return "a group is named without its version"
    if group != group.lower() or " " in group:
        return "the name of a group has small letters only"
    return ""


def _why_no_resource(resource: str, groups: Sequence[str]) -> str:
    if resource == ALL:
        return ""
    name, slash, subresource = resource.partition("/")
    if ALL in resource:
        return "names are compared as they are: * is for all only where it stands alone"
    if not name or (slash and not subresource) or "/" in subresource:
        return "a resource is named RESOURCE or RESOURCE/SUBRESOURCE"
    if resource != resource.lower() or " " in resource:
        return "the name of a resource has small letters only"
    if not set(groups) <= KNOWN_GROUPS.keys():
        return ""
    known = _known(name, groups)
    if not known:
        return _why_not_here(name, groups)
    listed = sorted({each for resource in known for each in resource.subresources})
    if not subresource or subresource in listed:
        return ""
    if not listed:
        return f"{name} have no subresources"
    return f"the subresources of {name} are {', '.join(listed)}"


def _known(name: str, groups: Sequence[str]) -> list[KnownResource]:
    return [KNOWN_GROUPS[group][name] for group in groups if name in KNOWN_GROUPS.get(group, ())]


def _why_not_here(name: str, groups: Sequence[str]) -> str:
    """Why groups that are all known have no such resource; "" if no known group has it."""
    if elsewhere := groups_of(name):
        here = " or ".join(group or "the core group" for group in groups)
        return f"{name} is no resource of {here}, but of {elsewhere[0] or 'the core group'}"
    for plural in (f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies"):
        if found := groups_of(plural):
            group = found[0] or "core group"
            return f"resources are named by their plural, here {plural} ({group})"
    return ""


def _why_out_of_scope(resource: str, rule: ResourcePolicyRule) -> str:
    """Why requests for a resource do not have a rule's scope; "" if they may."""
    if not set(rule.api_groups) <= KNOWN_GROUPS.keys():
        return ""
    name, _, subresource = resource.partition("/")
    scopes = {each.is_namespaced for each in _known(name, rule.api_groups)}
    if scopes == {False} and not rule.cluster_scope:
        return f"{name} are in no namespace: only a rule with clusterScope matches them"
    is_of_some = bool(subresource) or ALL_NAMESPACES_VERBS.isdisjoint(rule.verbs)
    if scopes == {True} and not rule.namespaces and is_of_some:
        return f"{name} are in namespaces, and the rule names none"
    if scopes != {None}:
        return ""
    is_of_one = bool(subresource) or not OF_ONE_NAMESPACE_VERBS.isdisjoint(rule.verbs)
    if rule.namespaces and is_of_one:
        return ""
    is_of_all = not subresource and not OF_NAMESPACES_VERBS.isdisjoint(rule.verbs)
    if rule.cluster_scope and is_of_all:
        return ""
    if is_of_one:
        return "what names a namespace is in it: only a rule with namespaces matches it"
    return "what names no namespace is in none: only a rule with clusterScope matches it"
