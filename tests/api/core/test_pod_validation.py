"""Tests of what is wrong with pods."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import is_int32, validate_pod
from tests.api.core.pods import causes, container, pod

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
TOKEN = {"sources": [{"serviceAccountToken": {"path": "p"}}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"restartPolicy": "OnFailure", "dnsPolicy": "Default"}, []),
        ({"restartPolicy": "x"}, [("restartPolicy", "unsupported")]),
        ({"dnsPolicy": "x"}, [("dnsPolicy", "unsupported")]),
        ({"preemptionPolicy": "x"}, [("preemptionPolicy", "unsupported")]),
        ({"nodeSelector": {"a": "b"}}, []),
        ({"nodeSelector": {"a b": "c d"}}, [("nodeSelector", "invalid")] * 2),
        ({"activeDeadlineSeconds": 0}, [("activeDeadlineSeconds", "invalid")]),
        ({"activeDeadlineSeconds": 2**31}, [("activeDeadlineSeconds", "invalid")]),
        ({"terminationGracePeriodSeconds": -1}, []),
        ({"nodeName": "A", "hostname": "a.b"}, [("nodeName", "invalid"), ("hostname", "invalid")]),
        ({"serviceAccountName": "A"}, [("serviceAccountName", "invalid")]),
        ({"overhead": {"cpu": "-1"}}, [("overhead.limits[cpu]", "invalid")]),
        (
            {"readinessGates": [{"conditionType": "a b"}]},
            [("readinessGates[0].conditionType", "invalid")],
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
            [("schedulingGates[1]", "duplicate")],
        ),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, [("nodeName", "forbidden")]),
        ({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]}, []),
        (
            {"hostAliases": [{"ip": "x", "hostnames": ["A"]}]},
            [("hostAliases[0].ip", "invalid"), ("hostAliases[0].hostnames[0]", "invalid")],
        ),
        ({"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}, []),
        (
            {
                "resourceClaims": [
                    {"resourceClaimName": "A"},
                    {"name": "a"},
                    {"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "b"},
                ]
            },
            [
                ("resourceClaims[0].name", "required"),
                ("resourceClaims[0].resourceClaimName", "invalid"),
                ("resourceClaims[1]", "invalid"),
                ("resourceClaims[2].name", "duplicate"),
                ("resourceClaims[2]", "invalid"),
            ],
        ),
        (
            {
                "hostNetwork": True,
                "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])],
            },
            [("ports[0].hostPort", "invalid")],
        ),
        ({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}, []),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]},
                    }
                ],
                "serviceAccountName": "a",
            },
            [],
        ),
    ],
)
def test_pods(spec: Spec, expected: Causes) -> None:
    """A pod's fields make sense, alone and together."""
    assert expected == causes(validate_pod(pod(**spec)))


@pytest.mark.parametrize(
    ("policy", "config", "expected"),
    [
        ("None", {"nameservers": ["10.0.0.1"]}, []),
        ("None", None, [("dnsConfig", "required")]),
        ("None", {}, [("dnsConfig.nameservers", "required")]),
        (
            "Default",
            {"nameservers": ["::1", "a", "::1", "::1"]},
            [("dnsConfig.nameservers", "invalid"), ("dnsConfig.nameservers[1]", "invalid")],
        ),
        ("Default", {"searches": [".", "a.b.", "_c"]}, []),
        ("Default", {"searches": ["A"]}, [("dnsConfig.searches[0]", "invalid")]),
        ("Default", {"searches": ["a"] * 33}, [("dnsConfig.searches", "invalid")]),
        ("Default", {"searches": ["a" * 250] * 9}, [("dnsConfig.searches", "invalid")]),
        (
            "Default",
            {"options": [{"name": "ndots", "value": "2"}, {}]},
            [("dnsConfig.options[1]", "required")],
        ),
    ],
)
def test_dns(policy: str, config: Spec | None, expected: Causes) -> None:
    """A pod that resolves names by itself says how."""
    spec = {} if config is None else {"dnsConfig": config}

    assert expected == causes(validate_pod(pod(dnsPolicy=policy, **spec)))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"a": "b"}, []),
        ({"kubernetes.io/config.mirror": "x"}, ["kubernetes.io/config.mirror"]),
        ({"controller.kubernetes.io/pod-deletion-cost": "-5"}, []),
        (
            {"controller.kubernetes.io/pod-deletion-cost": "a"},
            ["controller.kubernetes.io/pod-deletion-cost"],
        ),
    ],
)
def test_annotations(annotations: dict[str, str], expected: list[str]) -> None:
    """Some annotations mean something."""
    errors = validate_pod(pod(metadata={"annotations": annotations}))

    assert [f"metadata.annotations[{key}]" for key in expected] == [e.field for e in errors]


def test_mirror_pods() -> None:
    """A pod that a node runs by itself says which node that is."""
    metadata = {"annotations": {"kubernetes.io/config.mirror": "x"}}

    assert [] == validate_pod(pod(metadata=metadata, nodeName="n"))


def test_metadata() -> None:
    """Metadata are judged, too."""
    assert [("metadata.name", "invalid")] == causes(validate_pod(pod(metadata={"name": "A"})))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", True),
        ("-0", True),
        ("2147483647", True),
        ("2147483648", False),
        ("-2147483648", True),
        ("-2147483649", False),
        ("9" * 5000, False),
        ("-" + "0" * 5000, True),
        ("01", False),
        ("+1", False),
        ("", False),
        ("\u0661", False),
    ],
)
def test_is_int32(text: str, expected: bool) -> None:
    """Numbers of 32 bits are told from all else."""
    assert expected == is_int32(text)
