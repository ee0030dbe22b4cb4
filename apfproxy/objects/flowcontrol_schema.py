"""The structure of FlowSchemas and PriorityLevelConfigurations, in v1 and v1beta3.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3; for the numbers,
Kubernetes 1.36, `api/flowcontrol/{v1,v1beta3}/generated.proto`.
"""

from __future__ import annotations

import msgspec

from apfproxy.objects.schema.shared_structs import object_struct
from apfproxy.objects.schema.types import (
    Field,
    List,
    ListType,
    Scalar,
    Struct,
    Union,
    changed,
    in_package,
    pointer,
    required,
    written,
)

V1_PACKAGE = "io.k8s.api.flowcontrol.v1"
V1BETA3_PACKAGE = "io.k8s.api.flowcontrol.v1beta3"

STRING = Scalar.STRING
INT32 = Scalar.INT32
STRING_SET = List(STRING, ListType.SET)


def struct(name: str, description: str, *fields: Field, union: Union | None = None) -> Struct:
    """A struct of v1."""
    return Struct(name, fields, V1_PACKAGE, description, union=union)


def name_struct(name: str, description: str) -> Struct:
    """A struct that has nothing but a name."""
    return struct(name, description, required("name", STRING, "The name.", number=1))


def status_struct(kind: str) -> Struct:
    """The struct of a kind's status, whose conditions have a struct of their own."""
    condition = struct(
        f"{kind}Condition",
        "One aspect of the current state.",
        Field("type", STRING, "What the condition is about.", number=1),
        Field("status", STRING, "True, False or Unknown.", number=2),
        written("lastTransitionTime", Scalar.TIME, "When the status changed.", number=3),
        Field("reason", STRING, "Why it changed, as a word for programs.", number=4),
        Field("message", STRING, "Why it changed, for people.", number=5),
    )
    conditions = List(condition, ListType.MAP, ("type",), "type", is_merged=True)
    return struct(
        f"{kind}Status",
        "How the object is.",
        Field("conditions", conditions, "Aspects of the current state.", number=1),
    )


SUBJECT = struct(
    "Subject",
    "Who makes a request: a user, a group or a service account.",
    required("kind", STRING, "Which of the others is there.", number=1),
    pointer(
        "user",
        name_struct("UserSubject", "A user, or all of them with *."),
        "The user that matches.",
        number=2,
    ),
    pointer(
        "group",
        name_struct("GroupSubject", "A group of users, or all with *."),
        "The group that matches.",
        number=3,
    ),
    pointer(
        "serviceAccount",
        struct(
            "ServiceAccountSubject",
            "A service account.",
            required("namespace", STRING, "Its namespace.", number=1),
            required("name", STRING, "Its name, or * for all there.", number=2),
        ),
        "The service account that matches.",
        number=4,
    ),
    union=Union(("group", "serviceAccount", "user"), "kind"),
)

RESOURCE_RULE = struct(
    "ResourcePolicyRule",
    "Matches requests for resources when all of its parts do.",
    required("verbs", STRING_SET, "Verbs that match, or * alone.", number=1),
    required("apiGroups", STRING_SET, "API groups that match, or * alone.", number=2),
    required(
        "resources",
        STRING_SET,
        "Resources that match, with a subresource after a slash, or * alone.",
        number=3,
    ),
    Field(
        "clusterScope", Scalar.BOOLEAN, "Whether requests match that name no namespace.", number=4
    ),
    written(
        "namespaces",
        STRING_SET,
        "Namespaces that match, or * alone; empty only with clusterScope.",
        number=5,
    ),
)

NON_RESOURCE_RULE = struct(
    "NonResourcePolicyRule",
    "Matches requests for paths that are no resources.",
    required("verbs", STRING_SET, "Verbs that match, or * alone.", number=1),
    required(
        "nonResourceURLs",
        STRING_SET,
        "Paths that match; /* at the end matches all below; or * alone.",
        number=6,
    ),
)

RULES = struct(
    "PolicyRulesWithSubjects",
    "Matches a request when one of the subjects and one of the rules do.",
    required("subjects", List(SUBJECT), "Who makes the request: at least one.", number=1),
    Field("resourceRules", List(RESOURCE_RULE), "Rules for requests for resources.", number=2),
    Field("nonResourceRules", List(NON_RESOURCE_RULE), "Rules for other requests.", number=3),
)

FLOW_SCHEMA_SPEC = struct(
    "FlowSchemaSpec",
    "What a FlowSchema matches, in which order, and where it sends what it matches.",
    Field(
        "priorityLevelConfiguration",
        name_struct("PriorityLevelConfigurationReference", "Names a PriorityLevelConfiguration."),
        "Where requests go that match.",
        is_required=True,
        number=1,
    ),
    written(
        "matchingPrecedence",
        INT32,
        "From 1 to 10000: of the FlowSchemas that match, the one with the lowest is used. 1000 if"
        " it is not there.",
        number=2,
    ),
    pointer(
        "distinguisherMethod",
        struct(
            "FlowDistinguisherMethod",
            "How flows are told apart.",
            required("type", STRING, "ByUser or ByNamespace.", number=1),
        ),
        "How the flows of the FlowSchema are told apart; without it they are one.",
        number=3,
    ),
    Field("rules", List(RULES), "Which requests match: those that one of these matches.", number=4),
)

QUEUING = struct(
    "QueuingConfiguration",
    "How requests wait.",
    written("queues", INT32, "Number of queues: 64 if it is not there.", number=1),
    written("handSize", INT32, "How many queues a flow may use: 8 if it is not there.", number=2),
    written(
        "queueLengthLimit",
        INT32,
        "How many requests may wait in a queue: 50 if it is not there.",
        number=3,
    ),
)

LIMIT_RESPONSE = struct(
    "LimitResponse",
    "What happens to requests that cannot be executed at once.",
    required("type", STRING, "Queue or Reject.", number=1),
    pointer("queuing", QUEUING, "How requests wait, if the type is Queue.", number=2),
    union=Union(("queuing",), "type"),
)

LENDABLE = pointer(
    "lendablePercent",
    INT32,
    "From 0 to 100: how much of the level's nominal limit others may borrow. 0 if absent.",
)

SHARES = "nominalConcurrencyShares"
SHARES_DESCRIPTION = "The level's share in the division of seats. 30 if absent"

V1BETA3_LIMITED = struct(
    "LimitedPriorityLevelConfiguration",
    "Limits of a level, and what happens to requests beyond them.",
    written(SHARES, INT32, f"{SHARES_DESCRIPTION} or 0.", number=1),
    Field("limitResponse", LIMIT_RESPONSE, LIMIT_RESPONSE.description, number=2),
    msgspec.structs.replace(LENDABLE, number=3),
    pointer(
        "borrowingLimitPercent",
        INT32,
        "How much the level may borrow, in percent of its nominal limit; absent for any.",
        number=4,
    ),
)
LIMITED = changed(
    V1BETA3_LIMITED,
    Field(
        SHARES,
        INT32,
        f"{SHARES_DESCRIPTION}; with 0 no request is executed but on borrowed seats.",
        is_pointer=True,
        is_always_written=True,
        number=1,
    ),
)

EXEMPT = struct(
    "ExemptPriorityLevelConfiguration",
    "What can be chosen of a level whose requests are not limited.",
    pointer(
        SHARES,
        INT32,
        "The level's share in the division of seats, which it lends. 0 if absent.",
        number=1,
    ),
    msgspec.structs.replace(LENDABLE, number=2),
)


def level_struct(limited: Struct) -> Struct:
    """The struct of PriorityLevelConfigurations, whose limited levels differ between versions."""
    spec = struct(
        "PriorityLevelConfigurationSpec",
        "How requests of a priority level are treated.",
        required("type", STRING, "Limited or Exempt.", number=1),
        pointer("limited", limited, "Limits, if the type is Limited.", number=2),
        pointer("exempt", EXEMPT, "What can be chosen, if the type is Exempt.", number=3),
        union=Union(("exempt", "limited"), "type"),
    )
    return object_struct(
        "PriorityLevelConfiguration",
        V1_PACKAGE,
        spec,
        status_struct("PriorityLevelConfiguration"),
        "A priority level: its share of the server, and how requests wait for it.",
    )


FLOW_SCHEMA_V1 = object_struct(
    "FlowSchema",
    V1_PACKAGE,
    FLOW_SCHEMA_SPEC,
    status_struct("FlowSchema"),
    "Sorts requests into the flows of a priority level.",
)
FLOW_SCHEMA_V1BETA3 = in_package(FLOW_SCHEMA_V1, V1BETA3_PACKAGE)
PRIORITY_LEVEL_V1 = level_struct(LIMITED)
PRIORITY_LEVEL_V1BETA3 = in_package(level_struct(V1BETA3_LIMITED), V1BETA3_PACKAGE)
