"""The structure of FlowSchemas and PriorityLevelConfigurations, in v1 and v1beta3.

Source: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3.
"""

from __future__ import annotations

from apfproxy.api.schema.meta import object_struct
from apfproxy.api.schema.types import (
    Field,
    List,
    ListType,
    Scalar,
    Struct,
    Union,
    pointer,
    required,
    written,
)

V1_PACKAGE = "io.k8s.api.flowcontrol.v1"
V1BETA3_PACKAGE = "io.k8s.api.flowcontrol.v1beta3"

STRING_SET = List(Scalar.STRING, ListType.SET)


def condition_struct(name: str, package: str) -> Struct:
    """The struct of conditions, which each kind has under a name of its own."""
    return Struct(
        name,
        (
            Field("type", Scalar.STRING, "What the condition is about.", number=1),
            Field("status", Scalar.STRING, "True, False or Unknown.", number=2),
            written("lastTransitionTime", Scalar.TIME, "When the status changed.", number=3),
            Field("reason", Scalar.STRING, "Why it changed, as a word for programs.", number=4),
            Field("message", Scalar.STRING, "Why it changed, for people.", number=5),
        ),
        package,
        "One aspect of the current state.",
    )


def status_struct(kind: str, package: str) -> Struct:
    """The struct of a kind's status."""
    conditions = List(
        condition_struct(f"{kind}Condition", package),
        ListType.MAP,
        list_keys=("type",),
        merge_key="type",
        is_merged=True,
    )
    return Struct(
        f"{kind}Status",
        (Field("conditions", conditions, "Aspects of the current state.", number=1),),
        package,
        "How the object is.",
    )


def name_struct(name: str, package: str, description: str) -> Struct:
    """A struct that has nothing but a name."""
    return Struct(
        name, (required("name", Scalar.STRING, "The name.", number=1),), package, description
    )


def flow_schema_struct(package: str) -> Struct:
    """The struct of FlowSchemas: all versions have the same."""
    subject = Struct(
        "Subject",
        (
            required("kind", Scalar.STRING, "Which of the others is there.", number=1),
            pointer(
                "user",
                name_struct("UserSubject", package, "A user, or all of them with *."),
                "The user that matches.",
                number=2,
            ),
            pointer(
                "group",
                name_struct("GroupSubject", package, "A group of users, or all with *."),
                "The group that matches.",
                number=3,
            ),
            pointer(
                "serviceAccount",
                Struct(
                    "ServiceAccountSubject",
                    (
                        required("namespace", Scalar.STRING, "Its namespace.", number=1),
                        required("name", Scalar.STRING, "Its name, or * for all there.", number=2),
                    ),
                    package,
                    "A service account.",
                ),
                "The service account that matches.",
                number=4,
            ),
        ),
        package,
        "Who makes a request: a user, a group or a service account.",
        union=Union(("group", "serviceAccount", "user"), "kind"),
    )
    resource_rule = Struct(
        "ResourcePolicyRule",
        (
            required("verbs", STRING_SET, "Verbs that match, or * alone.", number=1),
            required("apiGroups", STRING_SET, "API groups that match, or * alone.", number=2),
            required(
                "resources",
                STRING_SET,
                "Resources that match, with a subresource after a slash, or * alone.",
                number=3,
            ),
            Field(
                "clusterScope",
                Scalar.BOOLEAN,
                "Whether requests match that name no namespace.",
                number=4,
            ),
            Field(
                "namespaces",
                STRING_SET,
                "Namespaces that match, or * alone; empty only with clusterScope.",
                is_always_written=True,
                number=5,
            ),
        ),
        package,
        "Matches requests for resources when all of its parts do.",
    )
    non_resource_rule = Struct(
        "NonResourcePolicyRule",
        (
            required("verbs", STRING_SET, "Verbs that match, or * alone.", number=1),
            required(
                "nonResourceURLs",
                STRING_SET,
                "Paths that match; /* at the end matches all below; or * alone.",
                number=6,
            ),
        ),
        package,
        "Matches requests for paths that are no resources.",
    )
    rules = Struct(
        "PolicyRulesWithSubjects",
        (
            required("subjects", List(subject), "Who makes the request: at least one.", number=1),
            Field(
                "resourceRules", List(resource_rule), "Rules for requests for resources.", number=2
            ),
            Field(
                "nonResourceRules", List(non_resource_rule), "Rules for other requests.", number=3
            ),
        ),
        package,
        "Matches a request when one of the subjects and one of the rules do.",
    )
    spec = Struct(
        "FlowSchemaSpec",
        (
            Field(
                "priorityLevelConfiguration",
                name_struct(
                    "PriorityLevelConfigurationReference",
                    package,
                    "Names a PriorityLevelConfiguration.",
                ),
                "Where requests go that match.",
                is_required=True,
                number=1,
            ),
            Field(
                "matchingPrecedence",
                Scalar.INT32,
                "From 1 to 10000: of the FlowSchemas that match, the one with the lowest is used."
                " 1000 if it is not there.",
                is_always_written=True,
                number=2,
            ),
            pointer(
                "distinguisherMethod",
                Struct(
                    "FlowDistinguisherMethod",
                    (required("type", Scalar.STRING, "ByUser or ByNamespace.", number=1),),
                    package,
                    "How flows are told apart.",
                ),
                "How the flows of the FlowSchema are told apart; without it they are one.",
                number=3,
            ),
            Field(
                "rules",
                List(rules),
                "Which requests match: those that one of these matches.",
                number=4,
            ),
        ),
        package,
        "What a FlowSchema matches, in which order, and where it sends what it matches.",
    )
    return object_struct(
        "FlowSchema",
        package,
        spec,
        status_struct("FlowSchema", package),
        "Sorts requests into the flows of a priority level.",
    )


def lendable_field(number: int) -> Field:
    """The field `lendablePercent`, which levels of both types have."""
    return pointer(
        "lendablePercent",
        Scalar.INT32,
        "From 0 to 100: how much of the level's nominal limit others may borrow. 0 if absent.",
        number=number,
    )


def priority_level_struct(package: str, shares: Field) -> Struct:
    """The struct of PriorityLevelConfigurations.

    Args:
        package: Of the version.
        shares: The field `nominalConcurrencyShares` of limited levels, in which versions differ.
    """
    queuing = Struct(
        "QueuingConfiguration",
        (
            Field(
                "queues",
                Scalar.INT32,
                "Number of queues: 64 if it is not there.",
                is_always_written=True,
                number=1,
            ),
            Field(
                "handSize",
                Scalar.INT32,
                "How many queues a flow may use: 8 if it is not there.",
                is_always_written=True,
                number=2,
            ),
            Field(
                "queueLengthLimit",
                Scalar.INT32,
                "How many requests may wait in a queue: 50 if it is not there.",
                is_always_written=True,
                number=3,
            ),
        ),
        package,
        "How requests wait.",
    )
    response = Struct(
        "LimitResponse",
        (
            required("type", Scalar.STRING, "Queue or Reject.", number=1),
            pointer("queuing", queuing, "How requests wait, if the type is Queue.", number=2),
        ),
        package,
        "What becomes of requests that cannot be executed at once.",
        union=Union(("queuing",), "type"),
    )
    limited = Struct(
        "LimitedPriorityLevelConfiguration",
        (
            shares,
            Field(
                "limitResponse",
                response,
                "What becomes of requests that cannot be executed at once.",
                number=2,
            ),
            lendable_field(3),
            pointer(
                "borrowingLimitPercent",
                Scalar.INT32,
                "How much the level may borrow, in percent of its nominal limit; absent for any.",
                number=4,
            ),
        ),
        package,
        "Limits of a level, and what becomes of requests beyond them.",
    )
    exempt = Struct(
        "ExemptPriorityLevelConfiguration",
        (
            pointer(
                "nominalConcurrencyShares",
                Scalar.INT32,
                "The level's share in the division of seats, which it lends. 0 if absent.",
                number=1,
            ),
            lendable_field(2),
        ),
        package,
        "What can be chosen of a level whose requests are not limited.",
    )
    spec = Struct(
        "PriorityLevelConfigurationSpec",
        (
            required("type", Scalar.STRING, "Limited or Exempt.", number=1),
            pointer("limited", limited, "Limits, if the type is Limited.", number=2),
            pointer("exempt", exempt, "What can be chosen, if the type is Exempt.", number=3),
        ),
        package,
        "How requests of a priority level are treated.",
        union=Union(("exempt", "limited"), "type"),
    )
    return object_struct(
        "PriorityLevelConfiguration",
        package,
        spec,
        status_struct("PriorityLevelConfiguration", package),
        "A priority level: its share of the server, and how requests wait for it.",
    )


SHARES = "nominalConcurrencyShares"
SHARES_DESCRIPTION = "The level's share in the division of seats. 30 if absent"

FLOW_SCHEMA_V1 = flow_schema_struct(V1_PACKAGE)
FLOW_SCHEMA_V1BETA3 = flow_schema_struct(V1BETA3_PACKAGE)
PRIORITY_LEVEL_V1 = priority_level_struct(
    V1_PACKAGE,
    Field(
        SHARES,
        Scalar.INT32,
        f"{SHARES_DESCRIPTION}; with 0 no request is executed but on borrowed seats.",
        is_pointer=True,
        is_always_written=True,
        number=1,
    ),
)
PRIORITY_LEVEL_V1BETA3 = priority_level_struct(
    V1BETA3_PACKAGE,
    Field(SHARES, Scalar.INT32, f"{SHARES_DESCRIPTION} or 0.", is_always_written=True, number=1),
)
