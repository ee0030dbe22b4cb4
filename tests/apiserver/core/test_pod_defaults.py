"""Tests of what absent fields of pods stand for."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.pods import pull_policy
from tests.apiserver.core.pods import container, pod, pod_of

Spec = dict[str, Any]


def test_a_plain_pod() -> None:
    """A pod of one image gets these fields."""
    expected = {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }

    assert expected == pod()["spec"]


def test_given_fields_stay() -> None:
    """What is given is kept, false and empty pointers, too."""
    obj = pod(
        containers=[container(imagePullPolicy="Never")],
        enableServiceLinks=False,
        terminationGracePeriodSeconds=0,
    )

    assert "Never" == obj["spec"]["containers"][0]["imagePullPolicy"]
    assert obj["spec"]["enableServiceLinks"] is False
    assert 0 == obj["spec"]["terminationGracePeriodSeconds"]


def test_requests() -> None:
    """What is only limited is requested."""
    given = {"limits": {"cpu": "1500m", "memory": "1"}, "requests": {"cpu": "1m"}}
    resources = pod_of({"resources": given})["spec"]["containers"][0]["resources"]

    assert {"cpu": "1m", "memory": "1"} == resources["requests"]
    assert {"cpu": "1500m", "memory": "1"} == resources["limits"]


def test_ports() -> None:
    """Ports are TCP's."""
    ports = pod_of({"ports": [{"containerPort": 80}]})["spec"]["containers"][0]["ports"]

    assert [{"containerPort": 80, "protocol": "TCP"}] == ports


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"serviceAccount": "a"}, {"serviceAccount": "a", "serviceAccountName": "a"}),
        (
            {"serviceAccount": "a", "serviceAccountName": "b"},
            {"serviceAccount": "b", "serviceAccountName": "b"},
        ),
    ],
)
def test_service_account(given: Spec, expected: Spec) -> None:
    """Both names of the field have one value."""
    spec = pod(**given)["spec"]

    assert expected == {name: spec[name] for name in spec if name.startswith("serviceAccount")}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"podIP": "1.1.1.1"}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        ({"podIPs": [{"ip": "::1"}]}, {"podIP": "::1", "podIPs": [{"ip": "::1"}]}),
        (
            {"podIP": "1.1.1.1", "podIPs": [{"ip": "2.2.2.2"}]},
            {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]},
        ),
    ],
)
def test_addresses(given: Spec, expected: Spec) -> None:
    """The one address and the list of all agree."""
    assert expected == pod(status=given)["status"]


SHA = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("library/nginx", "Always"),
        ("localhost:5000/a/b", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        ("registry.example.com/a__b/c-d", "Always"),
        ("[::1]:5000/a", "Always"),
        (f"nginx@{SHA}", "IfNotPresent"),
        (f"nginx:latest@{SHA}", "Always"),
        ("Nginx", "IfNotPresent"),
        ("Registry/nginx", "Always"),
        ("", "IfNotPresent"),
        ("a b", "IfNotPresent"),
        ("0" * 64, "IfNotPresent"),
        ("0" * 63, "Always"),
        ("a" * 256, "IfNotPresent"),
        ("a" * 1001, "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, expected: str) -> None:
    """Only the tag `latest` is pulled always, given or implied."""
    assert expected == pull_policy(image)
