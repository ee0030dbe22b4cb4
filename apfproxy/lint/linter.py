"""Finds what will not work as intended, in a configuration as a whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import Classifier, matching_order
from apfproxy.flowcontrol.preset import HTTP, KUBERNETES
from apfproxy.lint.dead_rules import dead_rules
from apfproxy.lint.findings import (
    ADDITION,
    CROWDED_LEASE,
    CUT_VALUE,
    DANGLING,
    ENDED,
    IDLE_WEIGHT,
    MANAGED,
    MATCHES_NOTHING,
    NO_COMPLETIONS,
    OTHER_API,
    Finding,
)
from apfproxy.lint.levels import level_findings
from apfproxy.lint.reachability import ACCOUNTS_GROUP, same_precedence, unreachable
from apfproxy.objects.additions import (
    COST,
    MATCH_HEADER,
    MATCH_MODEL,
    TOKEN_RATE,
    TOKENS,
    UNTIL,
    WEIGHT,
    LevelAdditions,
    field_of,
)
from apfproxy.objects.field_errors import closest
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    kind_of,
)
from apfproxy.objects.validation import PRIORITY_LEVELS
from apfproxy.request.attributes import ANONYMOUS, AUTHENTICATED_GROUP, User, parse_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.request.attributes import RequestAttributes

KUBERNETES_URL = re.compile(
    r"\*|/\*?|/(healthz|livez|readyz|metrics|version|openapi|openid|\.well-known|logs|debug|apis)(/.*)?"
    r"|/api(/|/\*|/v[0-9].*)?"
)
"""URLs of rules for paths that a Kubernetes API has."""

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"


def lint(
    objects: Iterable[FlowControlObject],
    server_concurrency_limit: int = 600,
    preset: Preset = KUBERNETES,
) -> list[Finding]:
    """Findings of all objects in force, built-in ones included, by ids, then in their order."""
    objects = tuple(objects)
    schemas = [each for each in objects if isinstance(each, FlowSchema)]
    schemas.sort(key=matching_order)
    levels = {each.metadata.name: each for each in objects if not isinstance(each, FlowSchema)}
    in_force = [each for each in schemas if level_of(each) in levels]
    dead = [each for schema in schemas for each in dead_rules(schema, is_plain=preset.is_plain)]
    matching_nothing = {each.name for each in dead if each.found is MATCHES_NOTHING}
    alive = [each for each in in_force if each.metadata.name not in matching_nothing]
    shadowed = [*unreachable(alive)]
    unreached = {each.name for each in shadowed}
    reached = [each for each in alive if each.metadata.name not in unreached]
    found = [*_dangling(schemas, levels), *dead, *shadowed, *same_precedence(reached)]
    found += [*managed(objects, preset), *_additions(objects), *_cut_values(schemas)]
    found += _idle_weights(in_force, levels)
    if not preset.is_plain:
        found += [*crowded_leases(in_force, levels), *_without_completions(objects)]
    users: dict[str, list[str]] = {}
    for schema in in_force:
        users.setdefault(level_of(schema), []).append(schema.metadata.name)
    is_reached = {level_of(each) for each in reached}
    found += level_findings(levels, users, is_reached, server_concurrency_limit, preset)
    return sorted(found, key=lambda each: each.found.id)


def level_of(schema: FlowSchema) -> str:
    return schema.spec.priority_level_configuration.name


def _dangling(
    schemas: Iterable[FlowSchema], levels: Mapping[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    for schema in schemas:
        level = level_of(schema)
        if level not in levels:
            field = "spec.priorityLevelConfiguration.name"
            message = f'there is no PriorityLevelConfiguration "{level}"'
            if close := closest(level, levels):
                message += f'; did you mean "{close}"?'
            yield Finding(DANGLING, "FlowSchema", schema.metadata.name, field, message)


def managed(objects: Iterable[FlowControlObject], preset: Preset = KUBERNETES) -> Iterator[Finding]:
    """Objects that an annotation gives to kube-apiserver, which would have them otherwise.

    Source: Kubernetes documentation, "API Priority and Fairness", "Maintenance of the mandatory and
    suggested configuration objects".
    """
    specs = {(kind_of(each), each.metadata.name): each.spec for each in preset.objects()}
    for each in objects:
        kind, name = kind_of(each), each.metadata.name
        if each.metadata.annotations.get(AUTO_UPDATE) != "true" or name in PRIORITY_LEVELS:
            continue
        suggested = specs.get((kind, name))
        if suggested is None:
            message = f'"true" lets kube-apiserver delete this {kind}, which it does not suggest'
        elif suggested != each.spec:
            message = '"true" lets kube-apiserver undo what differs from the suggested object'
        else:
            continue
        yield Finding(MANAGED, kind, name, f"metadata.annotations[{AUTO_UPDATE}]", message)


def other_api(given: Iterable[FlowControlObject]) -> Iterator[Finding]:
    """The finding that given objects look as if they were for a plain API; at most one."""
    given = tuple(given)
    schemas = [each for each in given if isinstance(each, FlowSchema)]
    known = {each.metadata.name for each in (*given, *KUBERNETES.objects())}
    only_http = {each.metadata.name for each in HTTP.objects()} - known
    for schema in schemas:
        if (level := level_of(schema)) in only_http:
            field = "spec.priorityLevelConfiguration.name"
            message = f'the level "{level}" is built in with --preset http or llm only'
            yield Finding(OTHER_API, "FlowSchema", schema.metadata.name, field, message)
            return
    rules = [(schema, rule) for schema in schemas for rule in schema.spec.rules]
    if any(rule.resource_rules for _, rule in rules):
        return
    for schema, rule in rules:
        for url in (url for each in rule.non_resource_rules for url in each.non_resource_urls):
            if not KUBERNETES_URL.fullmatch(url):
                message = f"no rule is for resources, and Kubernetes has no path {url}"
                yield Finding(OTHER_API, "FlowSchema", schema.metadata.name, "spec.rules", message)
                return


def _additions(objects: Iterable[FlowControlObject]) -> Iterator[Finding]:
    for each in objects:
        for error in each.additions.errors:
            message = str(error).removeprefix(f"{error.field}: ")
            yield Finding(ADDITION, kind_of(each), each.metadata.name, error.field, message)


def ended(objects: Iterable[FlowControlObject], unix_s: float) -> Iterator[Finding]:
    """The given objects that are no longer in force at a time."""
    for each in objects:
        until_s = each.additions.until_s
        if until_s is not None and until_s <= unix_s:
            message = f"it ended at {rfc3339(until_s)}"
            yield Finding(ENDED, kind_of(each), each.metadata.name, field_of(UNTIL), message)


def _cut_values(schemas: Iterable[FlowSchema]) -> Iterator[Finding]:
    for each in schemas:
        condition = each.additions.condition
        values = sorted(condition.values) if condition else []
        opened, closed = (
            [value for value in values if value.count(one) > value.count(other)]
            for one, other in ("()", ")(")
        )
        if opened and closed:
            message = f'"{opened[0]}" and "{closed[0]}" look like one value with a comma in it'
            name, field = each.metadata.name, field_of(MATCH_HEADER)
            yield Finding(CUT_VALUE, "FlowSchema", name, field, message)


def _idle_weights(
    in_force: Sequence[FlowSchema], levels: Mapping[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    weights: dict[str, set[int]] = {}
    for schema in in_force:
        weights.setdefault(level_of(schema), set()).add(schema.additions.weight)
    for schema in in_force:
        level, limited = level_of(schema), levels[level_of(schema)].spec.limited
        queuing = limited.limit_response.queuing if limited else None
        if schema.additions.weight == 1:
            continue
        if queuing is None:
            message = f'nothing waits in level "{level}"'
        elif queuing.queues == 1:
            message = f'all flows of level "{level}" wait in one queue'
        elif len(weights[level]) == 1:
            message = f'all flows of level "{level}" have this weight'
        else:
            continue
        yield Finding(IDLE_WEIGHT, "FlowSchema", schema.metadata.name, field_of(WEIGHT), message)


def _without_completions(objects: Iterable[FlowControlObject]) -> Iterator[Finding]:
    for each in objects:
        added = each.additions
        if isinstance(added, LevelAdditions):
            used = {COST: added.cost == TOKENS}
        else:
            models = None if added.condition is None else added.condition.models
            used = {MATCH_MODEL: models is not None, TOKEN_RATE: added.token_rate is not None}
        for name in (name for name, is_used in used.items() if is_used):
            message = "requests to a Kubernetes API are no completions"
            kind, named = kind_of(each), each.metadata.name
            yield Finding(NO_COMPLETIONS, kind, named, field_of(name), message)


def _account(namespace: str, name: str) -> User:
    groups = (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}", AUTHENTICATED_GROUP)
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def _lease(namespace: str, name: str) -> RequestAttributes:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    return parse_attributes("PUT", path.encode())


SYSTEM = "kube-system"
LIST_OF_PODS = parse_attributes("GET", b"/api/v1/pods")
CONFIG_MAPS = parse_attributes("GET", b"/api/v1/namespaces/default/configmaps")
HOLDERS = {
    **{
        name: (User(f"system:{name}", (AUTHENTICATED_GROUP,)), _lease(SYSTEM, name))
        for name in ("kube-controller-manager", "kube-scheduler")
    },
    "controllers in kube-system": (
        _account(SYSTEM, "cloud-controller-manager"),
        _lease(SYSTEM, "cloud-controller-manager"),
    ),
    "nodes": (
        User("system:node:node-1", ("system:nodes", AUTHENTICATED_GROUP)),
        _lease("kube-node-lease", "node-1"),
    ),
}
"""Users that hold important leases, and the renewal."""
CROWD = {
    "pods": (_account("default", "default"), CONFIG_MAPS),
    "pods that elect leaders": (_account("default", "default"), _lease("default", "operator")),
    "people": (User("alice@example.com", (AUTHENTICATED_GROUP,)), LIST_OF_PODS),
    "strangers": (ANONYMOUS, LIST_OF_PODS),
}
"""Other clients, each with a request."""


def crowded_leases(
    flow_schemas: Sequence[FlowSchema], levels: Mapping[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    """FlowSchemas in force that send leases to levels where others crowd them out."""
    classifier = Classifier(flow_schemas)
    crowd: dict[str, list[str]] = {}
    for title, (user, request) in CROWD.items():
        if schema := classifier.classify(user, request):
            crowd.setdefault(level_of(schema), []).append(title)
    found: dict[tuple[str, str], list[str]] = {}
    for title, (user, renewal) in HOLDERS.items():
        schema = classifier.classify(user, renewal)
        if schema and level_of(schema) in crowd and levels[level_of(schema)].spec.limited:
            found.setdefault((schema.metadata.name, level_of(schema)), []).append(title)
    for (name, level), titles in found.items():
        message = (
            f'leases of {", ".join(titles)} share level "{level}" with what'
            f" {', '.join(crowd[level])} ask"
        )
        field = "spec.priorityLevelConfiguration.name"
        yield Finding(CROWDED_LEASE, "FlowSchema", name, field, message)
