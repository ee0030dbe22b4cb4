"""Every kind of finding; an id never changes its meaning, and is never used again.

The hundreds are: 0 files, 1 FlowSchemas, 2 priority levels, 3 leases, 4 annotations, 5 differences.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial


class Severity(enum.StrEnum):
    """An error is not used, a warning hardly works as meant, an info may well be meant."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class FindingKind:
    id: str
    title: str
    severity: Severity
    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in an object, at a field's path from its root; "" for the object as a whole."""

    found: FindingKind
    kind: str
    name: str
    field: str
    message: str


FINDING_KINDS: dict[str, FindingKind] = {}

GIVEN_UP = frozenset({"APF103", "APF206", "APF302"})
"""Ids of earlier kinds, which may still be ignored."""


def _kind(severity: Severity, name: str, meaning: str, advice: str) -> FindingKind:
    id_, _, title = name.partition(" ")
    kind = FINDING_KINDS[id_] = FindingKind(id_, title, severity, meaning, advice)
    return kind


_error = partial(_kind, Severity.ERROR)
_warning = partial(_kind, Severity.WARNING)
_info = partial(_kind, Severity.INFO)

INVALID = _error(
    "APF001 invalid",
    "A file cannot be read, or an object in it breaks a rule of the API.  The proxy does not use"
    " it, and kube-apiserver would refuse it.  It cannot be ignored.",
    "Correct what the message names.",
)
NOTHING_GIVEN = _warning(
    "APF002 no objects",
    "A path holds no object.  If none does, the built-in ones alone would be in force.",
    "Name the files or directories that have the objects.",
)
LEFT_OUT = _info(
    "APF003 left out",
    "A file or a document is none of flow control, such as a Deployment beside a FlowSchema or"
    " values of a chart.  The proxy leaves it out; with --strict it is an error.",
    "Name paths that have flow control objects only, if that is what you want.",
)
OTHER_API = _info(
    "APF004 another API",
    "The FlowSchemas look as if they were for an API that is not Kubernetes', and no preset was"
    " chosen: they are judged as if they were in front of Kubernetes, with its built-in objects.",
    "Give --preset http, or --preset kubernetes if they are right as they are.",
)

DANGLING = _error(
    "APF101 dangling reference",
    "The FlowSchema names a priority level that does not exist.  It is valid, but not used until"
    " the level is there.",
    "Create the PriorityLevelConfiguration, correct it if it is invalid, or name another.",
)
UNREACHABLE = _warning(
    "APF102 unreachable",
    "FlowSchemas that are tried earlier match every request that this one could match, of all users"
    " who have the groups that authentication gives them.",
    "Give it a smaller matchingPrecedence, narrow the earlier ones, or delete it.",
)
SAME_PRECEDENCE = _info(
    "APF104 same precedence",
    "Two FlowSchemas of the same matchingPrecedence can match the same request.  The one whose"
    " name sorts first gets it.",
    "Give them different precedences, so that the order is the one you mean.",
)
MATCHES_NOTHING = _warning(
    "APF110 matches nothing",
    "The FlowSchema has no rules, or none of its rules can match any request.",
    "Give it a rule that can match, or delete it.",
)
NO_SUCH_SUBJECT = _warning(
    "APF111 subject that does not exist",
    "No user or group has this name: it is a pattern where names are compared as they are, a group"
    " in place of a user or the reverse, no name of a service account, or one of Kubernetes' own"
    " with another letter.",
    "Write the name as it is, with the kind that it has; `*` alone stands for all, and a subject"
    " of kind ServiceAccount with the name `*` for those of a namespace.",
)
NO_SUCH_VERB = _warning(
    "APF112 verb that no request has",
    "The verb of a request for a non-resource URL is its HTTP method in small letters: create,"
    " update, list, watch, deletecollection and proxy are the verbs of resources.",
    "Use get, delete, patch, or `*`, which is the only one that matches HEAD, POST and PUT; the"
    " annotation apfproxy.io/match-methods narrows that to some.",
)
NO_SUCH_URL = _warning(
    "APF113 URL that no such request has",
    "Requests for this path are requests for resources, which only resourceRules match; or it is"
    " no path at all: a query and a fragment are no part of it.",
    "Write a resource rule, or the path alone.",
)
NO_SUCH_GROUP = _warning(
    "APF114 API group that does not exist",
    "The name of an API group has no version and no capital letters, and that of the core group"
    ' is "".',
    'Write "" for the core group, and `apps` instead of `apps/v1`.',
)
NO_SUCH_RESOURCE = _warning(
    "APF115 resource that does not exist",
    "No resource has this name: it is a pattern, a kind instead of a resource, a subresource that"
    " this resource does not have, or the resource of another API group.",
    "Write the plural in small letters, as `kubectl api-resources` shows it, with the API group"
    " that it is in; `*` alone stands for all resources and subresources.",
)
NO_SUCH_SCOPE = _warning(
    "APF116 scope that no request has",
    "Requests for resources without a namespace are matched only with clusterScope, those in"
    " namespaces only with namespaces.  These rules have the wrong one of the two.",
    "Set clusterScope for resources such as nodes, and namespaces for others; only a LIST or a"
    " WATCH of all namespaces at once is of cluster scope too.  Requests that name a Namespace"
    " are in it.",
)
MANAGED = _warning(
    "APF117 change that the server takes back",
    'With the annotation apf.kubernetes.io/autoupdate-spec: "true" kube-apiserver undoes changes of'
    " a suggested object, and deletes one that it does not suggest.",
    'Set the annotation to "false".',
)

NO_SEATS = _warning(
    "APF201 level without seats",
    "The level has no seats of its own, because its nominalConcurrencyShares are 0.  While it"
    " borrows none, its requests wait in vain until their time in the queue is over.",
    "Give it nominalConcurrencyShares.",
)
REJECTS_ALL = _info(
    "APF202 level that turns away",
    "The level has no seats of its own and no queues: unless it borrows, it serves one request at"
    " a time and rejects the others.",
    "Give it nominalConcurrencyShares if its requests are to be served, or the annotation"
    ' apfproxy.io/ban: "true" if none of them is.',
)
ROUNDED_UP = _info(
    "APF203 less than one seat",
    "The level's shares buy less than one seat at this server concurrency limit; it gets one, so"
    " that the proportions are not those of the shares.",
    "Raise the server concurrency limit or the level's shares, or merge small levels.",
)
UNUSED = _warning(
    "APF204 unused level",
    "No FlowSchema sends requests to this level, but its shares make the other levels smaller.",
    "Delete it, or name it in a FlowSchema.",
)
LARGE_HAND = _warning(
    "APF205 large hand",
    "The hand is larger than half of the queues, so that any two flows share queues, and a few"
    " busy flows fill them all.",
    "Choose many more queues than cards in a hand, such as 64 and 6.",
)
WIDE_HAND = _info(
    "APF207 hand larger than the level",
    "The hand has more queues than the level has seats.  A request may take as many seats as the"
    " nominal limit has for each card, and at least one: here every LIST, however long, counts as"
    " one seat.",
    "Choose a smaller hand, or give the level more seats.",
)
ONE_QUEUE = _info(
    "APF208 one queue",
    "With one queue requests are served in the order of their arrival: a busy flow holds up all"
    " others.",
    "Choose more queues, such as 64 with a hand of 6.",
)
LONG_QUEUE = _info(
    "APF209 queue length limit without effect",
    "One flow may queue more requests than the level's seats serve in the longest time that a"
    " request waits (60 seconds, or the annotation apfproxy.io/wait-limit), even if each takes only"
    " 10 milliseconds: they time out instead of being rejected at once.",
    "Choose a queueLengthLimit that the level can work off, such as 50.",
)
TOO_FEW_SEATS = _warning(
    "APF210 server concurrency limit too small",
    "At this server concurrency limit the level has so few seats that, by rounding, it may lend all"
    " of them.  While it is idle its limit is 0: its next requests are served one at a time, or"
    " with flowControl.limitAdjustment: kubernetes not at all, until limits are adjusted again.",
    "Raise the server concurrency limit to the number in the message, or raise the level's shares,"
    " lower its lendablePercent, or merge small levels.",
)
KEPT_IN_VAIN = _warning(
    "APF211 seats kept in vain",
    "No FlowSchema that sends requests to this level can match one, since others match before or"
    " since its rules match nothing.  What the level does not lend is kept from all other levels.",
    "Correct the FlowSchemas that the message names, delete the level, or set its lendablePercent"
    " to 100.",
)
SAME_SEATS = _warning(
    "APF212 levels that are alike by rounding",
    "The shares of these levels differ, but at this server concurrency limit they have the same"
    " seats: none of them is served more than another one.",
    "Raise the server concurrency limit to the number in the message, make the shares differ more,"
    " or give the levels the annotation apfproxy.io/priority: then they are served in that order,"
    " and in turns where shares are less than a seat.",
)

CROWDED_LEASE = _warning(
    "APF301 lease that others crowd out",
    "Renewals of the leases that keep a controller elected, or a node healthy, come to a level"
    " that pods and people use as well.  When these fill it, leases expire, controllers restart"
    " and work is moved away from healthy nodes.",
    "Send leases to a level of their own by an early FlowSchema, as system-leader-election and"
    " system-node-high of the suggested objects do.",
)

ADDITION = _error(
    "APF401 addition that does not count",
    "An annotation under apfproxy.io/ is unknown, has a value that cannot be read, or has no"
    " meaning on its object.  The proxy goes on without it.",
    "Correct what the message names, or remove the annotation.",
)

NO_COMPLETIONS = _warning(
    "APF402 tokens where there are none",
    "Tokens and models are those of LLM APIs, which presets http and llm read.  Before a Kubernetes"
    " API the FlowSchema matches nothing, no token is limited, and fair queuing shares time.",
    "Remove the annotation, or check with the preset that the proxy has (--preset).",
)

ENDED = _warning(
    "APF403 object that has ended",
    "The time of its annotation apfproxy.io/until is over: the object is not in force, and all"
    " else is judged without it.",
    "Delete it, or name a later time.",
)
CUT_VALUE = _warning(
    "APF404 value that ends within parentheses",
    "Commas divide the values of match-header, also commas in parentheses, as in a User-Agent with"
    " (KHTML, like Gecko).  No header has the parts as its value, or the wrong ones have.",
    "Write * in the place of the comma.",
)
IDLE_WEIGHT = _warning(
    "APF405 weight without effect",
    "The annotation apfproxy.io/weight divides the seats of a level among its flows: where these"
    " wait in several queues, and differ in their weights.",
    "Have the FlowSchemas that it is to be compared with lead to the same level, with queues, or"
    " remove the annotation.",
)

CHANGED = _info(
    "APF501 differs from the suggested object",
    "Only with --diff.  The object has the name of a built-in one and says something else.",
    "Nothing, if it is meant.",
)
MISSING = _info(
    "APF502 suggested object is missing",
    "Only with --diff and --no-suggested-objects.  A suggested object is not among the given ones.",
    "Nothing, if it is meant.",
)
ADDED = _info(
    "APF503 not among the suggested objects",
    "Only with --diff.  No built-in object has this name.",
    "Nothing, if it is meant.",
)
