"""The group `policy`: disruption budgets, and evictions: deletions that budgets may forbid.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.

The decision about an eviction and the count in the budget's status are one synchronous step of the
registry.  Between that and the deletion the pod may change; a pod that was let go for being
unhealthy is therefore deleted only as it was seen.

Sources: Kubernetes API reference, `policy/v1` and `policy/v1beta1`; of Kubernetes 1.36,
`generated.proto`, `pkg/apis/policy/validation`, `pkg/registry/policy/poddisruptionbudget` and
`pkg/registry/core/pod/storage/eviction.go`; Kubernetes documentation, "API-initiated Eviction".
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver import metadata
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.errors import StatusError, bad_request, forbidden, success, unknown_error
from apfproxy.apiserver.kind import Kind, Rules, Version, by_path, not_negative, one_of, starts
from apfproxy.apiserver.metadata import FALSE, TRUE, set_condition, validate_conditions
from apfproxy.apiserver.outcomes import WriteOptions, check_preconditions
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.selectors import selector_of, validate_label_selector
from apfproxy.apiserver.tables import AGE, NAME, Column
from apfproxy.objects.field_errors import FieldError, invalid
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from apfproxy.apiserver.registry import DeleteOptions, Registry
    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

DISRUPTION_ALLOWED = "DisruptionAllowed"
SYNC_FAILED = "SyncFailed"
STATUS_NUMBERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
PERCENT = re.compile("[0-9]+%")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    f" '93%', regex used for validation is '{PERCENT.pattern}')"
)
LONGEST_PERCENT = 19
"""Characters: Kubernetes cannot read a number that has more."""

GROUP = "policy"
ALWAYS_ALLOW = "AlwaysAllow"
HIGHEST_PERCENTAGE = 100

MANAGER = "kube-apiserver"
"""Field manager of the writes to budgets and pods."""
ATTEMPTS, MOST_DISRUPTED_PODS, RETRY_AFTER_S = 20, 2000, 10
"""Kubernetes' numbers: of tries while the pod keeps changing, and of evictions that the disruption
controller may be behind; and when to try again if a budget has not been looked at."""

DISRUPTION_TARGET = "DisruptionTarget"
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = (
    "This pod has more than one PodDisruptionBudget,"
    " which the eviction subresource does not support."
)
TOO_MANY = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"

DECLARED = """
PodDisruptionBudget +object: Limits how many pods of a set may be disrupted at once.
PodDisruptionBudgetSpec: What a disruption budget asks for; one of minAvailable and maxUnavailable
        at most.
  1 minAvailable                *intOrString  How many pods stay: 3 or 50%.
  2 selector  *LabelSelector +replaced  The pods whose evictions the budget limits: all of the
        namespace for an empty selector, none for an absent one.
  3 maxUnavailable              *intOrString  How many pods may be away at once.
  4 unhealthyPodEvictionPolicy  *string +enum=AlwaysAllow|IfHealthyBudget
        +go=UnhealthyPodEvictionPolicyType  When running pods that are not ready may be evicted:
        IfHealthyBudget, the default, if enough others are healthy; AlwaysAllow at any time.
PodDisruptionBudgetStatus: What a disruption budget allows at the moment.
  1 observedGeneration  int64           The one that this is about.
  2 disruptedPods  map[string]time  Pods whose eviction is allowed and not yet seen, by name, with
        the time of it.
  3 disruptionsAllowed  int32 +written  How many pods may be disrupted now.
  4 currentHealthy      int32 +written  How many pods are healthy.
  5 desiredHealthy      int32 +written  How many pods have to be healthy at least.
  6 expectedPods        int32 +written  How many pods the budget counts on.
  7 conditions  []Condition +keys=type  DisruptionAllowed: whether, and why not.
Eviction +typed: Asks to delete a pod as far as disruption budgets allow it.
  1 metadata       ObjectMeta      Name and namespace of the pod to evict.
  2 deleteOptions  *DeleteOptions  How to delete the pod.
"""
STRUCTS = structs("io.k8s.api.policy.v1", DECLARED, SHARED)
BETA_STRUCTS = structs("io.k8s.api.policy.v1beta1", DECLARED, SHARED)
EVICTION = STRUCTS["Eviction"]
EVICTIONS = {"policy/v1": EVICTION, "policy/v1beta1": BETA_STRUCTS["Eviction"]}


def _amount(name: str) -> Cell:
    return lambda obj, _now_s: str(obj["spec"].get(name, "N/A"))


def _validate(obj: Object) -> list[FieldError]:
    wrong = _validate_spec(obj["spec"])
    return wrong or metadata.validate_named(obj["metadata"], is_namespaced=True)


def percentage(value: str) -> int | None:
    """Read a percentage, such as `50%`; None if the text is none."""
    is_readable = PERCENT.fullmatch(value) and len(value) <= LONGEST_PERCENT
    return int(value[:-1]) if is_readable else None


def _validate_amount(field: str, value: int | str) -> list[FieldError]:
    if isinstance(value, int):
        return not_negative(field, value)
    if not PERCENT.fullmatch(value):
        return [invalid(field, value, PERCENT_RULE)]
    if (percentage(value) or 0) > HIGHEST_PERCENTAGE:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


SPEC_FIELDS = STRUCTS["PodDisruptionBudgetSpec"].by_name
check_fields = by_path(
    {
        "minAvailable": _validate_amount,
        "maxUnavailable": _validate_amount,
        "selector": lambda field, selector: validate_label_selector(selector, field),
        "unhealthyPodEvictionPolicy": one_of(*SPEC_FIELDS["unhealthyPodEvictionPolicy"].enum),
    }
)
check_numbers = by_path({f"status.{name}": not_negative for name in STATUS_NUMBERS})


def _validate_spec(spec: Object) -> list[FieldError]:
    errors = check_fields(spec, "spec.")
    if "minAvailable" not in spec or "maxUnavailable" not in spec:
        return errors
    # As Kubernetes shows the whole of it.
    shown = {name[0].upper() + name[1:]: spec.get(name) for name in SPEC_FIELDS}
    return [invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"), *errors]


POD_DISRUPTION_BUDGET = Kind(
    GROUP,
    "PodDisruptionBudget",
    (Version("v1", STRUCTS["PodDisruptionBudget"]),),
    Rules(
        prepare_create=starts(**dict.fromkeys(STATUS_NUMBERS, 0)),
        prepare_update=metadata.keep_status,
        validate=_validate,
        validate_update=lambda new, _old: _validate_spec(new["spec"]),
        prepare_status=metadata.keep_spec,
        validate_status=lambda new, _old: validate_conditions(new["status"]) + check_numbers(new),
        allows_unconditional_update=False,
    ),
    columns=(
        NAME,
        Column("Min Available", _amount("minAvailable"), "How many pods have to be available."),
        Column("Max Unavailable", _amount("maxUnavailable"), "How many pods may be unavailable."),
        Column("Allowed Disruptions", "status.disruptionsAllowed", "Pods that may go.", "integer"),
        AGE,
    ),
    short_names=("pdb",),
    storage_hash="EVWiDmWqyJw=",
)


def set_disruption_allowed(status: Object, now: str, failure: str = "") -> None:
    """Let the condition say what `disruptionsAllowed` does, or a failure to tell; in place."""
    is_allowed = status["disruptionsAllowed"] > 0
    reason = SYNC_FAILED if failure else "SufficientPods" if is_allowed else "InsufficientPods"
    value = TRUE if is_allowed else FALSE
    condition = {"type": DISRUPTION_ALLOWED, "status": value, "reason": reason, "message": failure}
    if status.get("observedGeneration"):
        condition["observedGeneration"] = status["observedGeneration"]
    set_condition(status, condition, now)


async def evict(
    registry: Registry, namespace: str, name: str, eviction: Object, options: DeleteOptions
) -> Object:
    """Delete a pod if its disruption budgets allow it, and return a Status; or StatusError.

    The options are the eviction's `deleteOptions`, and `dryRun` of the request.
    """
    if eviction["metadata"].get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    is_exact = options.resource_version is not None
    for attempt in itertools.count(1):
        pod = registry.get(POD, namespace, name)
        if not ignores_budgets(pod):
            await _delete_protected(registry, pod, options)
            break
        as_seen = _only_as_seen(pod, options) if may_start(pod) and not is_exact else options
        try:
            await _delete(registry, namespace, name, as_seen)
        except StatusError as error:
            if is_exact or error.reason != "Conflict" or attempt == ATTEMPTS:
                raise
        else:
            break
    return success(code=201)


async def _delete_protected(registry: Registry, pod: Object, options: DeleteOptions) -> None:
    """Delete a pod that its budget allows to go; one that is not healthy only as it was seen."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    found = registry.objects(POD_DISRUPTION_BUDGET, namespace)
    budgets = [budget for budget in found if is_matched(budget, pod)]
    if len(budgets) > 1:
        raise unknown_error(SEVERAL)
    is_spared = bool(budgets) and spares_unhealthy(budgets[0], pod)
    if budgets and not is_spared:
        counted = partial(charge, pod_name=name, now=rfc3339(registry.clock()))
        status = WriteOptions(MANAGER, options.is_dry_run, subresource="status")
        budget_name = budgets[0]["metadata"]["name"]
        await registry.update(POD_DISRUPTION_BUDGET, namespace, budget_name, counted, status)
    as_seen = _only_as_seen(pod, options) if is_spared else options
    try:
        await _delete(registry, namespace, name, as_seen)
    except StatusError as error:
        if is_spared and error.reason == "Conflict" and options.resource_version is None:
            raise _unprocessed(budgets[0]) from error
        raise


async def _delete(registry: Registry, namespace: str, name: str, options: DeleteOptions) -> None:
    if not options.is_dry_run:
        now = rfc3339(registry.clock())

        def marked(pod: Object) -> Object:
            entry = registry.store.head(POD.resource, namespace, name)
            assert entry is not None, "the pod was just read from it"
            check_preconditions(POD, entry, options.uid, options.resource_version)
            mark_target(pod, now)
            return pod

        status = WriteOptions(MANAGER, subresource="status")
        written = await registry.update(POD, namespace, name, marked, status)
        if options.resource_version is not None:
            options = _only_as_seen(written.obj, options)
    await registry.delete(POD, namespace, name, options)


def _only_as_seen(pod: Object, options: DeleteOptions) -> DeleteOptions:
    return dataclasses.replace(options, resource_version=pod["metadata"]["resourceVersion"])


def ignores_budgets(pod: Object) -> bool:
    return not may_start(pod) or pod["status"].get("phase", "") == "Pending"


def may_start(pod: Object) -> bool:
    is_ended = pod["status"].get("phase", "") in ENDED
    return not is_ended and "deletionTimestamp" not in pod["metadata"]


def is_matched(budget: Object, pod: Object) -> bool:
    try:
        selector = selector_of(budget["spec"].get("selector"))
    except SelectorError:
        return False
    return selector.matches(pod["metadata"].get("labels", {}))


def spares_unhealthy(budget: Object, pod: Object) -> bool:
    """Whether the pod may go without counting, since it is not healthy."""
    if metadata.is_true(pod["status"], "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW:
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def charge(budget: Object, pod_name: str, now: str) -> Object:
    """Count the eviction of a pod in the only budget about it, in place.

    StatusError if the budget does not allow it: 429, or 403 where it is no use to try again.
    """
    status, name = budget["status"], budget["metadata"]["name"]
    allowed, disrupted = status["disruptionsAllowed"], status.get("disruptedPods", {})
    refused = partial(forbidden, GROUP, POD_DISRUPTION_BUDGET.singular, name)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _unprocessed(budget)
    if allowed < 0:
        raise refused("pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED_PODS:
        raise refused(TOO_MANY)
    if allowed == 0:
        raise _refused(_why_none(name, status))
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        set_disruption_allowed(status, now)
    status["disruptedPods"] = {**disrupted, pod_name: now}
    return budget


def _refused(message: str, retry_after_s: int = 0) -> StatusError:
    details = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    return StatusError(429, "TooManyRequests", VIOLATION, details, retry_after_s)


def _unprocessed(budget: Object) -> StatusError:
    """The budget has changed since it was last looked at, or the pod has."""
    name = budget["metadata"]["name"]
    message = f"The disruption budget {name} is still being processed by the server."
    return _refused(message, RETRY_AFTER_S)


def _why_none(name: str, status: Object) -> str:
    condition = metadata.find_condition(status, DISRUPTION_ALLOWED) or {}
    explanation = condition["message"] if condition.get("status") == FALSE else ""
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    # The numbers mean nothing where they could not be worked out.
    if explanation and condition["reason"] == SYNC_FAILED:
        return f"{refused} because it failed sync: {explanation}"
    healthy, desired = status["currentHealthy"], status["desiredHealthy"]
    if healthy <= desired:
        needs = f"The disruption budget {name} needs {desired} healthy pods"
        return f"{needs} and has {healthy} currently"
    return f"{refused} ({condition['reason']}): {explanation}" if explanation else refused


def mark_target(pod: Object, now: str) -> None:
    condition = {
        "type": DISRUPTION_TARGET,
        "status": TRUE,
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    set_condition(pod["status"], condition, now)
