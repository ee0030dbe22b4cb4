"""Tests of `apfproxy.apiserver.policy.eviction_rules`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.policy.eviction_rules import (
    Refusal,
    budgets_of,
    charge,
    ignores_budgets,
    mark_target,
    may_start,
    spares_unhealthy,
)
from tests.apiserver.policy.objects import budget, pod

NOW = "2006-01-02T15:04:05Z"
WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("phase", "is_ignored", "may"),
    [
        ("Succeeded", True, False),
        ("Failed", True, False),
        ("Pending", True, True),
        ("Running", False, True),
        ("Unknown", False, True),
    ],
)
def test_phases(phase: str, *, is_ignored: bool, may: bool) -> None:
    """Budgets protect pods that run."""
    assert is_ignored is ignores_budgets(pod(phase=phase))
    assert may is may_start(pod(phase=phase))


def test_deleted_pods_ignore_budgets() -> None:
    """They go anyway."""
    assert ignores_budgets(pod(deletionTimestamp=NOW))
    assert not may_start(pod(deletionTimestamp=NOW))


@pytest.mark.parametrize(
    ("selector", "is_matched"),
    [
        (WEB, True),
        ({}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
    ],
)
def test_selectors(selector: dict[str, object], *, is_matched: bool) -> None:
    """An empty selector matches all pods; one that makes no sense matches none."""
    made = budget(selector=selector)

    assert ([made] if is_matched else []) == budgets_of(pod(labels={"app": "web"}), [made])


def test_absent_selector_matches_nothing() -> None:
    """As with selectors everywhere."""
    assert [] == budgets_of(pod(), [budget()])


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "is_spared"),
    [
        (None, 1, 1, True),
        ("IfHealthyBudget", 2, 1, True),
        ("IfHealthyBudget", 0, 1, False),
        (None, 0, 0, False),
        ("AlwaysAllow", 0, 1, True),
    ],
)
def test_unhealthy_pods(policy: str | None, healthy: int, desired: int, *, is_spared: bool) -> None:
    """They may go while enough others are healthy, or always, as the policy says."""
    made = budget(status={"currentHealthy": healthy, "desiredHealthy": desired})
    if policy:
        made["spec"]["unhealthyPodEvictionPolicy"] = policy

    assert is_spared is spares_unhealthy(made, pod(ready="False"))
    assert not spares_unhealthy(made, pod())


def test_changed_budgets_have_to_be_looked_at() -> None:
    """Until then it is not known what they allow."""
    made = budget(generation=2, status={"disruptionsAllowed": 1})

    told = "The disruption budget b is still being processed by the server."
    assert Refusal(is_final=False, message=told, retry_after_s=10) == charge(made, "p", NOW)


def test_negative_numbers() -> None:
    """A budget that makes no sense allows nothing."""
    refusal = charge(budget(status={"disruptionsAllowed": -1}), "p", NOW)

    assert Refusal(is_final=True, message="pdb disruptions allowed is negative") == refusal


def test_too_many_evictions_at_once() -> None:
    """The controller has to catch up first."""
    disrupted = {f"p{i}": NOW for i in range(2001)}
    refusal = charge(budget(status={"disruptionsAllowed": 1, "disruptedPods": disrupted}), "p", NOW)

    assert refusal is not None
    assert refusal.is_final
    assert refusal.message.startswith("DisruptedPods map too big")


def condition(reason: str, message: str) -> dict[str, str]:
    """The condition that nothing is allowed."""
    return {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {"currentHealthy": 1, "desiredHealthy": 1},
            "needs 1 healthy pods and has 1 currently",
        ),
        ({"currentHealthy": 2, "desiredHealthy": 1}, "does not allow evicting pods currently"),
        (
            {"conditions": [condition("SyncFailed", "broken")]},
            "does not allow evicting pods currently because it failed sync: broken",
        ),
        (
            {"currentHealthy": 2, "conditions": [condition("Other", "so")]},
            "does not allow evicting pods currently (Other): so",
        ),
        (
            {"currentHealthy": 2, "conditions": [condition("InsufficientPods", "")]},
            "does not allow evicting pods currently",
        ),
    ],
)
def test_why_nothing_is_allowed(status: dict[str, object], told: str) -> None:
    """The condition or the numbers say why."""
    refusal = charge(budget(status=status), "p", NOW)

    assert Refusal(is_final=False, message=f"The disruption budget b {told}") == refusal


def test_evictions_count_down() -> None:
    """The last one allowed changes the condition, too."""
    made = budget(status={"disruptionsAllowed": 2})

    assert charge(made, "p", NOW) is None
    assert (1, {"p": NOW}) == (
        made["status"]["disruptionsAllowed"],
        made["status"]["disruptedPods"],
    )
    assert "conditions" not in made["status"]
    assert charge(made, "q", NOW) is None
    assert {"p": NOW, "q": NOW} == made["status"]["disruptedPods"]
    assert "InsufficientPods" == made["status"]["conditions"][0]["reason"]


@pytest.mark.parametrize("generation", [0, 3])
def test_pods_say_why_they_end(generation: int) -> None:
    """A condition names the eviction."""
    made = pod(generation=generation)

    mark_target(made, NOW)

    expected: dict[str, object] = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": NOW,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    if generation:
        expected["observedGeneration"] = generation
    assert expected == made["status"]["conditions"][-1]
