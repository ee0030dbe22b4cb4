"""Tests of what absent fields stand for."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.defaults import set_namespace_defaults, set_volume_defaults
from apfproxy.api.core.volume_schema import VOLUME
from apfproxy.api.schema.reading import read
from tests.api.core.pods import container, pod, pod_of

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
    """What is only limited is requested, in fine quantities rounded up."""
    given = {"limits": {"cpu": "1500u", "memory": "1"}, "requests": {"cpu": "1m"}}
    resources = pod_of({"resources": given})["spec"]["containers"][0]["resources"]

    assert {"cpu": "1m", "memory": "1"} == resources["requests"]
    assert {"cpu": "2m", "memory": "1"} == resources["limits"]


def test_claims_are_no_quantities() -> None:
    """Claims in resources are left as they are."""
    resources = {"claims": [{"name": "gpu"}]}

    assert resources == pod_of({"resources": resources})["spec"]["containers"][0]["resources"]
    assert resources == pod(resources=resources)["spec"]["resources"]


def test_overhead_is_rounded() -> None:
    """What running a pod costs is rounded up, too."""
    assert {"cpu": "1m"} == pod(overhead={"cpu": "1n"})["spec"]["overhead"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"containerPort": 80, "protocol": "TCP"}),
        ({"hostNetwork": True}, {"containerPort": 80, "protocol": "TCP", "hostPort": 80}),
    ],
)
def test_ports(spec: Spec, expected: Spec) -> None:
    """Ports are TCP's, and are the node's where its network is."""
    obj = pod(containers=[container(ports=[{"containerPort": 80}])], **spec)

    assert [expected] == obj["spec"]["containers"][0]["ports"]


def test_variables() -> None:
    """References from variables get their version, and whether they are optional."""
    env = [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "B", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        {"name": "C", "value": "c"},
    ]
    sources = [
        one.get("valueFrom", {}) for one in pod_of({"env": env})["spec"]["containers"][0]["env"]
    ]

    assert {"apiVersion": "v1", "fieldPath": "metadata.name"} == sources[0]["fieldRef"]
    assert sources[1]["fileKeyRef"]["optional"] is False


def test_probes_and_lifecycle() -> None:
    """Probes and requests over HTTP get these fields."""
    fields = {
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"grpc": {"port": 80}, "timeoutSeconds": 9},
        "startupProbe": {"grpc": {"port": 80, "service": "s"}},
        "lifecycle": {"preStop": {"httpGet": {"port": "http", "path": "/x"}}},
    }
    made = pod_of(fields)["spec"]["containers"][0]
    counts = {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }

    get = {"port": 80, "path": "/", "scheme": "HTTP"}
    assert {"httpGet": get, **counts} == made["livenessProbe"]
    assert {**counts, "grpc": {"port": 80, "service": ""}, "timeoutSeconds": 9} == made[
        "readinessProbe"
    ]
    assert {"port": 80, "service": "s"} == made["startupProbe"]["grpc"]
    assert {"port": "http", "path": "/x", "scheme": "HTTP"} == made["lifecycle"]["preStop"][
        "httpGet"
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"secret": {}}, {"secret": {"defaultMode": 420}}),
        ({"configMap": {"defaultMode": 0}}, {"configMap": {"defaultMode": 0}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "b"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "b"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"podCertificate": {"signerName": "s", "keyType": "k"}}]}},
            {
                "projected": {
                    "sources": [
                        {
                            "podCertificate": {
                                "signerName": "s",
                                "keyType": "k",
                                "maxExpirationSeconds": 86400,
                            }
                        }
                    ],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"downwardAPI": {"items": [{"path": "p"}]}}]}},
            {
                "projected": {
                    "sources": [{"downwardAPI": {"items": [{"path": "p"}]}}],
                    "defaultMode": 420,
                }
            },
        ),
        ({"projected": {}}, {"projected": {"sources": None, "defaultMode": 420}}),
        (
            {"image": {"reference": "a"}},
            {"image": {"reference": "a", "pullPolicy": "Always"}},
        ),
        (
            {"image": {"pullPolicy": "Never"}},
            {"image": {"pullPolicy": "Never"}},
        ),
        (
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"spec": {"resources": {"requests": {"a": "1n"}}}}
                }
            },
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {},
                        "spec": {
                            "resources": {"requests": {"a": "1m"}},
                            "volumeMode": "Filesystem",
                        },
                    }
                }
            },
        ),
    ],
)
def test_volumes(given: Spec, expected: Spec) -> None:
    """A volume without a source is an empty directory; sources get these fields."""
    volume = read(VOLUME, {"name": "v", **given}).obj
    set_volume_defaults(volume)

    assert {"name": "v", **expected} == volume


def test_volumes_of_pods() -> None:
    """A pod's volumes are completed with it."""
    assert [{"name": "v", "emptyDir": {}}] == pod(volumes=[{"name": "v"}])["spec"]["volumes"]


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


def test_namespaces() -> None:
    """A namespace has a phase, and its name as a label whatever the client says."""
    obj: Spec = {
        "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "b"}},
        "status": {},
    }
    set_namespace_defaults(obj)
    assert {"kubernetes.io/metadata.name": "a"} == obj["metadata"]["labels"]
    assert {"phase": "Active"} == obj["status"]

    obj = {"metadata": {"generateName": "a-"}, "status": {"phase": "Terminating"}}
    set_namespace_defaults(obj)
    assert {"generateName": "a-"} == obj["metadata"]
    assert {"phase": "Terminating"} == obj["status"]
