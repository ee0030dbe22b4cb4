"""Tests of what is wrong with volumes."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import validate_pod
from apfproxy.api.core.volume_validation import (
    VARIABLE_FIELDS,
    validate_field_ref,
    validate_resource_ref,
)
from tests.api.core.pods import causes, pod

Spec = dict[str, Any]
Causes = list[tuple[str, str]]

ITEM = {"key": "k", "path": "p"}
FIELD = {"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, []),
        ({"emptyDir": {"sizeLimit": "-1"}}, [("emptyDir.sizeLimit", "forbidden")]),
        ({"emptyDir": {}, "hostPath": {"path": "/"}}, [("hostPath", "forbidden")]),
        ({"emptyDir": {}, "cephfs": {}}, [("cephFS", "forbidden")]),
        ({"hostPath": {}}, [("hostPath.path", "required")]),
        ({"hostPath": {"path": "/.."}}, [("hostPath.path", "invalid")]),
        ({"hostPath": {"path": "/", "type": "x"}}, [("hostPath.type", "unsupported")]),
        ({"gitRepo": {"directory": "/a"}}, [
            ("gitRepo.repository", "required"),
            ("gitRepo.directory", "invalid"),
        ]),
        ({"gcePersistentDisk": {"partition": 256}}, [
            ("persistentDisk.pdName", "required"),
            ("persistentDisk.partition", "invalid"),
        ]),
        ({"awsElasticBlockStore": {"volumeID": "a"}}, []),
        ({"secret": {"secretName": "s", "items": [ITEM]}}, []),
        ({"secret": {"defaultMode": 0o1000, "items": [{"mode": -1, "path": "../x"}]}}, [
            ("secret.secretName", "required"),
            ("secret.defaultMode", "invalid"),
            ("secret.items[0].key", "required"),
            ("secret.items[0].path", "invalid"),
            ("secret.items[0].mode", "invalid"),
        ]),
        ({"configMap": {}}, [("configMap.name", "required")]),
        ({"nfs": {"server": "s", "path": "/p"}}, []),
        ({"nfs": {"server": "s", "path": "p"}}, [("nfs.path", "invalid")]),
        ({"iscsi": {"targetPortal": "p", "iqn": "iqn.x"}}, []),
        ({"iscsi": {"iqn": "x", "lun": 256, "targetPortal": "p", "chapAuthSession": True}}, [
            ("iscsi.iqn", "invalid"),
            ("iscsi.lun", "invalid"),
            ("iscsi.secretRef", "required"),
        ]),
        ({"fc": {}}, [("fc.targetWWNs", "required")]),
        ({"fc": {"wwids": ["a"]}}, []),
        ({"fc": {"targetWWNs": ["a"], "wwids": ["a"]}}, [
            ("fc.targetWWNs", "invalid"),
            ("fc.lun", "required"),
        ]),
        ({"fc": {"targetWWNs": ["a"], "lun": -1}}, [("fc.lun", "invalid")]),
        ({"flocker": {}}, [("flocker", "required")]),
        ({"flocker": {"datasetName": "a/b", "datasetUUID": "c"}}, [
            ("flocker", "invalid"),
            ("flocker.datasetName", "invalid"),
        ]),
        ({"cinder": {"volumeID": "a"}}, []),
        ({"cinder": {"volumeID": "a", "secretRef": {}}}, [("cinder.secretRef.name", "required")]),
        ({"azureDisk": {"diskName": "a", "diskURI": "https://a"}}, []),
        ({"azureDisk": {"diskName": "a", "diskURI": "b", "kind": "Managed", "cachingMode": "x"}}, [
            ("azureDisk.cachingMode", "unsupported"),
            ("azureDisk.diskURI", "unsupported"),
        ]),
        ({"csi": {"driver": "a.b"}}, []),
        ({"csi": {}}, [("csi.driver", "required")]),
        ({"csi": {"driver": "a" * 64}}, [("csi.driver", "invalid")]),
        ({"csi": {"driver": "a_b", "nodePublishSecretRef": {}}}, [
            ("csi.driver", "invalid"),
            ("csi.nodePublishSecretRef.name", "required"),
        ]),
        ({"image": {"reference": "a"}}, []),
        ({"image": {"pullPolicy": "x"}}, [
            ("image.reference", "required"),
            ("image.pullPolicy", "unsupported"),
        ]),
        ({"ephemeral": {}}, [("ephemeral.volumeClaimTemplate", "required")]),
        ({"downwardAPI": {"items": [FIELD]}}, []),
        ({"downwardAPI": {"items": [{}]}}, [
            ("downwardAPI.path", "required"),
            ("downwardAPI", "required"),
        ]),
        (
            {"downwardAPI": {"items": [{**FIELD, "resourceFieldRef": {}}]}},
            [("downwardAPI", "invalid")],
        ),
        ({"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {}}]}}, [
            ("downwardAPI.resourceFieldRef.containerName", "required"),
        ]),
        ({"projected": {}}, []),
        ({"projected": {"defaultMode": -1, "sources": [{"secret": {"items": [ITEM]}}]}}, [
            ("projected.defaultMode", "invalid"),
            ("projected.sources[0].secret.name", "required"),
        ]),
        ({"projected": {"sources": [{
            "secret": {"name": "a", "items": [ITEM]},
            "configMap": {"name": "b", "items": [ITEM, {"key": "k"}]},
        }]}}, [
            ("projected", "invalid"),
            ("projected.sources[0].configMap.items[1].path", "required"),
            ("projected.sources[0]", "forbidden"),
        ]),
        ({"projected": {"sources": [{"downwardAPI": {"items": [FIELD, FIELD]}}]}}, [
            ("projected", "invalid"),
        ]),
        ({"projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 1}}]}}, [
            ("projected.sources[0].serviceAccountToken.expirationSeconds", "invalid"),
            ("projected.path", "required"),
            ("projected.sources[0].serviceAccountToken", "forbidden"),
        ]),
        ({"projected": {"sources": [
            {"serviceAccountToken": {"path": "p", "expirationSeconds": 2**33}}
        ]}}, [
            ("projected.sources[0].serviceAccountToken.expirationSeconds", "invalid"),
            ("projected.sources[0].serviceAccountToken", "forbidden"),
        ]),
        ({"projected": {"sources": [{"clusterTrustBundle": {"name": "a", "path": "p"}}]}}, []),
        ({"projected": {"sources": [{"clusterTrustBundle": {"name": "", "labelSelector": {}}}]}}, [
            ("projected.sources[0].clusterTrustBundle.name", "required"),
            ("projected.sources[0].clusterTrustBundle.labelSelector", "invalid"),
            ("projected.sources[0].clusterTrustBundle.path", "required"),
        ]),
        ({"projected": {"sources": [
            {"clusterTrustBundle": {"name": "a", "signerName": "b", "path": "p"}}
        ]}}, [("projected.sources[0].clusterTrustBundle", "invalid")]),
        ({"projected": {"sources": [{"clusterTrustBundle": {"signerName": "", "path": "p"}}]}}, [
            ("projected.sources[0].clusterTrustBundle.signerName", "required"),
        ]),
        ({"projected": {"sources": [
            {"clusterTrustBundle": {"signerName": "a", "path": "p"}}
        ]}}, []),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "p"}}]}}, [
            ("projected.sources[0].clusterTrustBundle", "required"),
        ]),
    ],
)  # fmt: skip
def test_sources(source: Spec, expected: Causes) -> None:
    """A volume has one source, with the fields that it needs."""
    errors = validate_pod(pod(volumes=[{"name": "v", **source}]))

    assert sorted(expected) == sorted(causes(errors))


def test_names() -> None:
    """Volumes have names, and different ones."""
    obj = pod(volumes=[{}, {"name": "a"}, {"name": "a"}, {"name": "B"}])

    assert [
        ("name", "required"),
        ("volumes[2].name", "duplicate"),
        ("volumes[3].name", "invalid"),
    ] == causes(validate_pod(obj))


def test_no_source() -> None:
    """A volume whose source was taken away is refused."""
    obj = pod(volumes=[{"name": "a"}])
    del obj["spec"]["volumes"][0]["emptyDir"]

    assert [("volumes[0]", "required")] == causes(validate_pod(obj))


def test_ephemeral_volumes() -> None:
    """The claim of an ephemeral volume is named after pod and volume, and is its own."""
    template: Spec = {"volumeClaimTemplate": {"spec": {}}}
    volumes = [
        {"name": "v", "ephemeral": template},
        {"name": "w", "persistentVolumeClaim": {"claimName": "web-v"}},
    ]
    expected = [("volumes[1].persistentVolumeClaim.claimName", "invalid")]
    assert expected == causes(validate_pod(pod(volumes=volumes)))

    obj = pod(metadata={"name": "a" * 253}, volumes=volumes[:1])
    assert [("name", "invalid")] == causes(validate_pod(obj))

    obj = pod(volumes=[{"ephemeral": template}])
    assert [("name", "required")] == causes(validate_pod(obj))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", []),
        ("metadata.labels['a.b/c']", []),
        ("metadata.annotations['A']", []),
        ("metadata.labels['a b']", [("f", "invalid")]),
        ("metadata.annotations['']", [("f", "invalid")] * 2),
        ("metadata.name['a']", [("f.fieldPath", "invalid")]),
        ("metadata.labels", [("f.fieldPath", "unsupported")]),
        ("spec.x", [("f.fieldPath", "invalid")]),
        ("", [("f.fieldPath", "required")]),
    ],
)
def test_fields(path: str, expected: Causes) -> None:
    """Some fields can be shown in variables, labels and annotations one at a time."""
    reference = {"apiVersion": "v1", "fieldPath": path}

    assert expected == causes(validate_field_ref(reference, VARIABLE_FIELDS, "f"))


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "0", []),
        ("limits.cpu", "1m", []),
        ("limits.cpu", "1k", [("f.divisor", "invalid")]),
        ("requests.memory", "1Mi", []),
        ("requests.memory", "1m", [("f.divisor", "invalid")]),
        ("limits.ephemeral-storage", "2", [("f.divisor", "invalid")]),
        ("limits.hugepages-2Mi", "1", []),
        ("limits.gpu", "0", [("f.resource", "unsupported")]),
        ("", "0", [("f.resource", "required")]),
    ],
)
def test_resources(resource: str, divisor: str, expected: Causes) -> None:
    """Requests and limits can be shown in units that fit."""
    reference = {"resource": resource, "divisor": divisor}

    assert expected == causes(validate_resource_ref(reference, "f", is_in_volume=False))
