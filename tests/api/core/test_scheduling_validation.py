"""Tests of what is wrong with what decides where a pod runs."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import validate_pod
from tests.api.core.pods import causes, pod

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone"}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        ({}, []),
        (
            {"nodeAffinity": {NEEDED: {}}},
            [(f"nodeAffinity.{NEEDED}.nodeSelectorTerms", "required")],
        ),
        (
            {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}},
            [(f"nodeAffinity.{PREFERRED}[0].weight", "invalid")],
        ),
        (
            {"podAffinity": {NEEDED: [TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}},
            [],
        ),
        (
            {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": TERM}]}},
            [(f"podAntiAffinity.{PREFERRED}[0].weight", "invalid")],
        ),
        (
            {"podAffinity": {NEEDED: [{"namespaces": ["a", "B"]}]}},
            [
                (f"podAffinity.{NEEDED}[0].namespace", "invalid"),
                (f"podAffinity.{NEEDED}[0].topologyKey", "required"),
                (f"podAffinity.{NEEDED}[0].topologyKey", "invalid"),
                (f"podAffinity.{NEEDED}[0].topologyKey", "invalid"),
            ],
        ),
        (
            {"podAffinity": {NEEDED: [{**TERM, "labelSelector": {"matchLabels": {"a": "b c"}}}]}},
            [(f"podAffinity.{NEEDED}[0].labelSelector.matchLabels", "invalid")],
        ),
        (
            {"podAffinity": {NEEDED: [{**TERM, "matchLabelKeys": ["a"]}]}},
            [(f"podAffinity.{NEEDED}[0].matchLabelKeys", "forbidden")],
        ),
        (
            {
                "podAffinity": {
                    NEEDED: [
                        {
                            **TERM,
                            "labelSelector": {},
                            "matchLabelKeys": ["a", "b c"],
                            "mismatchLabelKeys": ["a"],
                        }
                    ]
                }
            },
            [
                (f"podAffinity.{NEEDED}[0].matchLabelKeys[1]", "invalid"),
                (f"podAffinity.{NEEDED}[0].matchLabelKeys[0]", "invalid"),
            ],
        ),
    ],
)
def test_affinity(affinity: Spec, expected: Causes) -> None:
    """Terms select, and wishes weigh something."""
    errors = validate_pod(pod(affinity=affinity))

    assert [(f"affinity.{field}", reason) for field, reason in expected] == causes(errors)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, []),
        ({"operator": "Exists"}, []),
        ({}, [("operator", "invalid")]),
        ({"key": "a b"}, [("key", "invalid")]),
        ({"key": "a", "operator": "Exists", "value": "b"}, [("operator", "invalid")]),
        ({"key": "a", "operator": "Gt"}, [("operator", "unsupported")]),
        ({"key": "a", "value": "b c"}, [("operator", "invalid")]),
        ({"key": "a", "effect": "x"}, [("effect", "unsupported")]),
        ({"key": "a", "tolerationSeconds": 1}, [("effect", "invalid")]),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}, []),
    ],
)
def test_tolerations(toleration: Spec, expected: Causes) -> None:
    """A toleration names a taint, and only NoExecute for some time."""
    errors = validate_pod(pod(tolerations=[toleration]))

    assert [(f"tolerations[0].{field}", reason) for field, reason in expected] == causes(errors)


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ([{**SPREAD, "minDomains": 1, "nodeTaintsPolicy": "Honor"}], []),
        (
            [{}],
            [
                ("[0].maxSkew", "invalid"),
                ("[0].topologyKey", "required"),
                ("[0].whenUnsatisfiable", "unsupported"),
            ],
        ),
        ([SPREAD, SPREAD], [("[1].{topologyKey, whenUnsatisfiable}", "duplicate")]),
        (
            [{**SPREAD, "minDomains": 0, "whenUnsatisfiable": "ScheduleAnyway"}],
            [("[0].minDomains", "invalid")] * 2,
        ),
        ([{**SPREAD, "nodeAffinityPolicy": "x"}], [("[0].nodeAffinityPolicy", "unsupported")]),
        ([{**SPREAD, "matchLabelKeys": ["a"]}], [("[0].matchLabelKeys", "forbidden")]),
        (
            [{**SPREAD, "labelSelector": {"matchLabels": {"a": "b c"}}}],
            [("[0].labelSelector.matchLabels", "invalid")],
        ),
    ],
)
def test_spreading(constraints: list[Spec], expected: Causes) -> None:
    """A constraint says what is counted, how, and what happens otherwise."""
    errors = validate_pod(pod(topologySpreadConstraints=constraints))

    assert [(f"topologySpreadConstraints{field}", why) for field, why in expected] == causes(errors)
