"""Says what is wrong with a FlowSchema or a PriorityLevelConfiguration that has its defaults.

Fields, reasons and wording are those of kube-apiserver 1.36, so that an object which passes here
passes there.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1; kube-apiserver 1.36;
Kubernetes API conventions, "Metadata"; Kubernetes documentation, "Labels and Selectors",
"Annotations", "Owners and Dependents", "Finalizers"; apimachinery's `ValidateObjectMeta`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import fields, replace

from apfproxy.objects.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    checked,
    checked_name,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from apfproxy.objects.names import (
    CATCH_ALL,
    EXEMPT,
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    FlowControlObject,
    FlowSchema,
    FlowSchemaSpec,
    LimitedPriorityLevelConfiguration,
    Model,
    NonResourcePolicyRule,
    Object,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
    Texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T = TypeVar("T")
ALL = "*"
LOWEST_PRECEDENCE = 10000
MOST_QUEUES = 10_000_000
MOST_ENTROPY_BITS = 60
"""Dealing may consume so many bits of a flow's 64, so that the last card is hardly uneven."""
PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""The annotation, of any value, by which zero shares keep their meaning in v1beta3."""
GO_NAMES = {"apiGroups": "APIGroups"}
DISTINGUISHERS = ("ByNamespace", "ByUser")
SUBJECT_KINDS = ("Group", "ServiceAccount", "User")
LEVEL_TYPES = ("Exempt", "Limited")
RESPONSE_TYPES = ("Queue", "Reject")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_EVERY = {key: [ALL] for key in ("verbs", "apiGroups", "resources", "namespaces")}
EVERYTHING = {
    "resourceRules": [{**_EVERY, "clusterScope": True}],
    "nonResourceRules": [{"verbs": [ALL], "nonResourceURLs": [ALL]}],
}


def _everything_by(level: str, precedence: int, method: str | None, *groups: str) -> FlowSchemaSpec:
    subjects = [{"kind": "Group", "group": {"name": group}} for group in groups]
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": method and {"type": method},
        "rules": [{"subjects": subjects, **EVERYTHING}],
    }
    return msgspec.convert(spec, FlowSchemaSpec)


FLOW_SCHEMAS = {
    EXEMPT: _everything_by(EXEMPT, 1, None, "system:masters"),
    CATCH_ALL: _everything_by(
        CATCH_ALL, LOWEST_PRECEDENCE, "ByUser", "system:unauthenticated", "system:authenticated"
    ),
}
"""The mandatory ones, here so that no edited file redefines what it is checked against."""

PRIORITY_LEVELS = msgspec.convert(
    {
        EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
        CATCH_ALL: {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0,
            },
        },
    },
    dict[str, PriorityLevelConfigurationSpec],
)


def validate(obj: FlowControlObject) -> list[FieldError]:
    """All errors of an object but those of its other metadata."""
    if isinstance(obj, FlowSchema):
        return _validate_flow_schema_spec(obj.metadata.name, obj.spec)
    errors = []
    if PRESERVE_ZERO in obj.metadata.annotations:
        detail = f"annotation '{PRESERVE_ZERO}' is forbidden"
        errors.append(forbidden("metadata.annotations", detail))
    return errors + _validate_level_spec(obj.metadata.name, obj.spec)


def internal(value: object) -> object:
    """The value as it is inside Kubernetes: all fields, by their names in Go."""
    if isinstance(value, Model):
        return {
            GO_NAMES.get(field.encode_name, field.encode_name[0].upper() + field.encode_name[1:]): (
                internal(getattr(value, field.name))
            )
            for field in fields(value)
        }
    if isinstance(value, tuple):
        return [internal(each) for each in value] or None
    return value


def _validate_flow_schema_spec(name: str, spec: FlowSchemaSpec) -> list[FieldError]:
    errors = []
    precedence, detail = spec.matching_precedence, ""
    if precedence <= 0:
        detail = "must be a positive value"
    elif precedence > LOWEST_PRECEDENCE:
        detail = f"must not be greater than {LOWEST_PRECEDENCE}"
    elif precedence == 1 and name != EXEMPT:
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
    if detail:
        errors.append(invalid("spec.matchingPrecedence", precedence, detail))
    method = spec.distinguisher_method
    if method is not None and method.type not in DISTINGUISHERS:
        # Kubernetes shows what the field is in.
        shown = internal(method)
        errors.append(not_supported("spec.distinguisherMethod.type", shown, DISTINGUISHERS))
    level, field = spec.priority_level_configuration.name, "spec.priorityLevelConfiguration.name"
    errors += checked_name(field, level, check_dns_subdomain, "must reference a priority level")
    errors += _validate_each(spec.rules, "spec.rules", _validate_rules)
    if spec != FLOW_SCHEMAS.get(name, spec):
        detail = f"spec of '{name}' must equal the fixed value"
        errors.append(invalid("spec", internal(spec), detail))
    return errors


def _validate_each(
    values: Sequence[T], field: str, check: Callable[[T, str], list[FieldError]]
) -> list[FieldError]:
    found = (check(each, f"{field}[{index}]") for index, each in enumerate(values))
    return [error for errors in found for error in errors]


def _validate_rules(rules: PolicyRulesWithSubjects, field: str) -> list[FieldError]:
    errors = []
    if not rules.subjects:
        errors.append(required(f"{field}.subjects", "subjects must contain at least one value"))
    errors += _validate_each(rules.subjects, f"{field}.subjects", _validate_subject)
    if not rules.resource_rules and not rules.non_resource_rules:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(field, detail))
    resource_rules, others = rules.resource_rules, rules.non_resource_rules
    errors += _validate_each(resource_rules, f"{field}.resourceRules", _validate_resource_rule)
    errors += _validate_each(others, f"{field}.nonResourceRules", _validate_non_resource_rule)
    return errors


def _validate_subject(subject: Subject, field: str) -> list[FieldError]:
    if subject.kind not in SUBJECT_KINDS:
        return [not_supported(f"{field}.kind", subject.kind, SUBJECT_KINDS)]
    errors = []
    for kind, member, value in (
        ("ServiceAccount", "serviceAccount", subject.service_account),
        ("User", "user", subject.user),
        ("Group", "group", subject.group),
    ):
        at = f"{field}.{member}"
        if kind != subject.kind:
            if value is not None:
                detail = f"{member} is forbidden when subject kind is not '{kind}'"
                errors.append(forbidden(at, detail))
        elif value is None:
            errors.append(required(at, f"{member} is required when subject kind is '{kind}'"))
        elif isinstance(value, ServiceAccountSubject):
            errors += _validate_service_account(value, at)
        elif not value.name:
            errors.append(required(f"{at}.name"))
    return errors


def _validate_service_account(account: ServiceAccountSubject, field: str) -> list[FieldError]:
    errors = []
    if not account.name:
        errors.append(required(f"{field}.name"))
    elif account.name != ALL:
        errors += checked(f"{field}.name", account.name, check_dns_subdomain)
    detail = "must specify namespace for service account"
    return errors + checked_name(f"{field}.namespace", account.namespace, check_dns_label, detail)


def _validate_resource_rule(rule: ResourcePolicyRule, field: str) -> list[FieldError]:
    errors = _validate_verbs(rule.verbs, field)
    detail = "resource rules must supply at least one api group"
    errors += _validate_list(rule.api_groups, f"{field}.apiGroups", "api groups", detail)
    detail = "resource rules must supply at least one resource"
    errors += _validate_list(rule.resources, f"{field}.resources", "resources", detail)
    if not rule.namespaces and not rule.cluster_scope:
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(f"{field}.namespaces", detail))
    errors += _validate_wildcard(rule.namespaces, f"{field}.namespaces", "namespaces")
    if ALL not in rule.namespaces:
        errors += _validate_each(rule.namespaces, f"{field}.namespaces", _validate_namespace)
    return errors


def _validate_namespace(namespace: str, field: str) -> list[FieldError]:
    start = "each member of this list must be '*' or a DNS-1123 label; "
    return [invalid(field, namespace, start + wrong) for wrong in check_dns_label(namespace)]


def _validate_non_resource_rule(rule: NonResourcePolicyRule, field: str) -> list[FieldError]:
    errors = _validate_verbs(rule.verbs, field)
    urls, field = rule.non_resource_urls, f"{field}.nonResourceURLs"
    detail = "nonResourceURLs must contain at least one value"
    errors += _validate_list(urls, field, "non-resource URLs", detail)
    return errors if ALL in urls else errors + _validate_each(urls, field, _validate_url)


def _validate_verbs(verbs: Texts, field: str) -> list[FieldError]:
    field = f"{field}.verbs"
    if not verbs or ALL in verbs:
        return _validate_list(verbs, field, "verbs", "verbs must contain at least one value")
    return [] if set(verbs) <= set(VERBS) else [not_supported(field, verbs, VERBS)]


def _validate_list(values: Texts, field: str, others: str, if_empty: str) -> list[FieldError]:
    return _validate_wildcard(values, field, others) if values else [required(field, if_empty)]


def _validate_wildcard(values: Texts, field: str, others: str) -> list[FieldError]:
    if len(values) > 1 and ALL in values:
        return [invalid(field, values, f"if '*' is present, must not specify other {others}")]
    return []


def _validate_url(url: str, field: str) -> list[FieldError]:
    if not url:
        detail = "must not be empty"
    elif not url.startswith("/"):
        detail = "must start with slash"
    elif " " in url:
        detail = "must not contain white-space"
    elif "//" in url:
        detail = "must not contain double slash"
    elif "*" in url.removesuffix("/*"):
        detail = "wildcard can only do suffix matching"
    else:
        return []
    return [invalid(field, url, detail)]


def _validate_level_spec(name: str, spec: PriorityLevelConfigurationSpec) -> list[FieldError]:
    errors = []
    if (name == EXEMPT) != (spec.type == "Exempt"):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid("spec.type", spec.type, detail))
    if spec.type == "Exempt":
        if spec.limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        if spec.exempt is not None:
            errors += _validate_shares(spec.exempt, "spec.exempt")
    elif spec.type == "Limited":
        if spec.exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if spec.limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _validate_limits(spec.limited, "spec.limited")
    else:
        errors.append(not_supported("spec.type", spec.type, LEVEL_TYPES))
    fixed, but = PRIORITY_LEVELS.get(name, spec), ""
    if name == EXEMPT:
        # How many seats the exempt level counts for, and lends, is the administrator's choice.
        fixed, but = replace(fixed, exempt=spec.exempt), " except the 'spec.exempt' field"
    if spec != fixed:
        detail = f"spec of '{name}'{but} must equal the fixed value"
        errors.append(invalid("spec", internal(spec), detail))
    return errors


def _validate_shares(
    part: ExemptPriorityLevelConfiguration | LimitedPriorityLevelConfiguration, field: str
) -> list[FieldError]:
    errors = []
    shares, lendable = part.nominal_concurrency_shares, part.lendable_percent
    if shares is not None and shares < 0:
        detail = "must be a non-negative integer"
        errors.append(invalid(f"{field}.nominalConcurrencyShares", shares, detail))
    if lendable is not None and not 0 <= lendable <= 100:  # noqa: PLR2004  all of a percentage
        detail = "must be between 0 and 100, inclusive"
        errors.append(invalid(f"{field}.lendablePercent", lendable, detail))
    return errors


def _validate_limits(limited: LimitedPriorityLevelConfiguration, field: str) -> list[FieldError]:
    errors = _validate_shares(limited, field)
    response, queuing = limited.limit_response, limited.limit_response.queuing
    at = f"{field}.limitResponse.queuing"
    # The messages say Limited where they mean Queue, as kube-apiserver's do.
    if response.type not in RESPONSE_TYPES:
        errors.append(not_supported(f"{field}.limitResponse.type", response.type, RESPONSE_TYPES))
    elif response.type == "Queue":
        if queuing is None:
            detail = "must not be empty if limited.limitResponse.type is Limited"
            errors.append(required(at, detail))
        else:
            errors += _validate_queuing(queuing, at)
    elif queuing is not None:
        detail = "must be nil if limited.limitResponse.type is not Limited"
        errors.append(forbidden(at, detail))
    borrowing = limited.borrowing_limit_percent
    if borrowing is not None and borrowing < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{field}.borrowingLimitPercent", borrowing, detail))
    return errors


def _validate_queuing(queuing: QueuingConfiguration, field: str) -> list[FieldError]:
    queues, hand_size, length = queuing.queues, queuing.hand_size, queuing.queue_length_limit
    errors = []
    if length <= 0:
        errors.append(invalid(f"{field}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{field}.queues", queues, "must be positive"))
    elif queues > MOST_QUEUES:
        detail = f"must not be greater than {MOST_QUEUES}"
        errors.append(invalid(f"{field}.queues", queues, detail))
    if hand_size <= 0:
        detail = "must be positive"
    elif hand_size > queues:
        detail = f"should not be greater than queues ({queues})"
    elif entropy_bits(queues, hand_size) > MOST_ENTROPY_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand_size} "
            f"should not be greater than {MOST_ENTROPY_BITS}"
        )
    else:
        return errors
    return [*errors, invalid(f"{field}.handSize", hand_size, detail)]


def entropy_bits(deck_size: int, hand_size: int) -> int:
    """Bits of a hash that dealing a hand consumes, estimated from above; both sizes are >= 1."""
    return math.ceil(math.log2(deck_size) * hand_size)


# Metadata that objects have wherever they come from.

FIELD = "metadata"
LARGEST_ANNOTATIONS_BYTES = 256 * 1024
UNQUALIFIED_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The only finalizers that need no domain prefix."""
REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in"
    " 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate"
    " UID(s) observed: {uids}"
)


def validate_metadata(
    metadata: Object,
    *,
    is_namespaced: bool,
    check_name: Callable[[str], list[str]] = check_dns_subdomain,
) -> list[FieldError]:
    """Find the errors in a new object's metadata; not in managed fields and bare finalizers."""
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        # The reference takes the last two characters for one `a`, if a dash is at the end.  The
        # generated name is checked as well, so nothing slips through.
        judged = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += [invalid(f"{FIELD}.generateName", prefix, wrong) for wrong in check_name(judged)]
    detail = "name or generateName is required"
    errors += checked_name(f"{FIELD}.name", name, check_name, detail)
    namespace = metadata.get("namespace", "")
    if is_namespaced:
        errors += checked_name(f"{FIELD}.namespace", namespace, check_dns_label)
    elif namespace:
        errors.append(forbidden(f"{FIELD}.namespace", "not allowed on this type"))
    generation = metadata.get("generation", 0)
    if generation < 0:
        errors.append(invalid(f"{FIELD}.generation", generation, NOT_NEGATIVE))
    errors += validate_collections(metadata)
    finalizers, field = metadata.get("finalizers", ()), f"{FIELD}.finalizers"
    for finalizer in finalizers:
        errors += checked(field, finalizer, check_qualified_name)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, detail))
    return errors


def validate_collections(metadata: Object) -> list[FieldError]:
    errors = validate_labels(metadata.get("labels", {}), f"{FIELD}.labels")
    annotations, field = metadata.get("annotations", {}), f"{FIELD}.annotations"
    for key in annotations:
        errors += [invalid(field, key, wrong) for wrong in check_qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS_BYTES:
        errors.append(too_long(field, LARGEST_ANNOTATIONS_BYTES))
    owners = metadata.get("ownerReferences", ())
    return errors + _validate_owner_references(owners, f"{FIELD}.ownerReferences")


def validate_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += checked(field, key, check_qualified_name)
        errors += checked(field, value, check_label_value)
    return errors


def _validate_owner_references(owners: Sequence[Object], field: str) -> list[FieldError]:
    errors = []
    controllers: list[str] = []
    for owner in owners:
        api_version, kind = owner["apiVersion"], owner["kind"]
        group, _, version = api_version.rpartition("/")
        if not version or "/" in group:
            errors.append(invalid(f"{field}.apiVersion", api_version, "version must not be empty"))
        errors += [
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        ]
        if (api_version.removeprefix("/"), kind) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid(field, owner, detail))
        if owner.get("controller"):
            controllers.append(f"{kind}/{owner['name']}")
    for second in controllers[1:]:
        found = f'Found "true" in references for {controllers[0]} and {second}'
        detail = f"Only one reference can have Controller set to true. {found}"
        errors.append(invalid(field, owners, detail))
    return errors


def validate_bare_finalizers(metadata: Object) -> list[FieldError]:
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{FIELD}.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(metadata.get("finalizers", ()))
        if "/" not in finalizer and finalizer not in UNQUALIFIED_FINALIZERS
    ]


def drop_repeated_owners(metadata: Object) -> list[str]:
    """Remove owner references that equal an earlier one; returns the warning, if any."""
    kept: dict[bytes, Object] = {}
    repeated: list[str] = []
    for owner in metadata.get("ownerReferences", ()):
        key = msgspec.json.encode(owner, order="sorted")
        if key in kept:
            repeated.append(owner["uid"])
        else:
            kept[key] = owner
    if not repeated:
        return []
    metadata["ownerReferences"] = list(kept.values())
    return [REPEATED_OWNERS.format(uids=", ".join(repeated))]
