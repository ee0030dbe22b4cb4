"""Tests of `apfproxy.apiserver.reviews`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.responses import PROTOBUF
from tests.apiserver.schema.protobuf_writer import document

if TYPE_CHECKING:
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
SELF = f"{AUTHORIZATION}/selfsubjectaccessreviews"
OTHER = f"{AUTHORIZATION}/subjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/a/localsubjectaccessreviews"
VERB = {"verb": "get"}
TOKEN = {"user": {}, "error": "invalid bearer token"}
AUTHENTICATED = "system:authenticated"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
        (
            {"X-Remote-User": "ann", "X-Remote-Group": "a", "X-Remote-Extra-B%2fc": "d"},
            {"username": "ann", "groups": ["a", AUTHENTICATED], "extra": {"b/c": ["d"]}},
        ),
        (
            {"X-Remote-User": "ann", "Impersonate-User": "bob", "Impersonate-Uid": "7"},
            {"username": "bob", "groups": [AUTHENTICATED], "uid": "7"},
        ),
        ({"Impersonate-Group": "a"}, None),
    ],
    ids=["nobody", "front-proxy", "impersonated", "group-of-nobody"],
)
async def test_who_asks(site: Site, headers: dict[str, str], expected: Object | None) -> None:
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    found = await site.send("POST", path, {}, headers=headers)

    if expected is None:
        assert (400, "BadRequest") == found.summary
    else:
        assert (201, expected) == (found.status, found.body["status"]["userInfo"])
        assert ["creationTimestamp"] == list(found.body["metadata"])


@pytest.mark.parametrize(
    ("path", "spec", "status"),
    [
        (SELF, {"nonResourceAttributes": {"path": "/x"}}, {"allowed": True}),
        (OTHER, {"user": "a", "resourceAttributes": VERB}, {"allowed": True}),
        (LOCAL, {"groups": ["a"], "resourceAttributes": {"namespace": "a"}}, {"allowed": True}),
        (f"{AUTHENTICATION}/tokenreviews", {"token": "x"}, TOKEN),
    ],
)
@pytest.mark.parametrize("is_protobuf", [False, True])
async def test_allowed(
    site: Site, path: str, spec: Object, status: Object, is_protobuf: bool
) -> None:
    """Everything is allowed, and nobody's token is known; the request's fields come back."""
    body: Any = {
        "spec": spec,
        "metadata": {"uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z"},
    }
    if is_protobuf:
        kind = next(kind for kind in KINDS if kind.plural == path.rpartition("/")[2])
        body = document(kind.storage.schema, kind.api_version("v1"), kind.name, body)
    found = await site.send("POST", path, body, content_type=PROTOBUF if is_protobuf else "")

    assert (201, spec, status) == (found.status, found.body["spec"], found.body["status"])
    assert {"managedFields"} == found.body["metadata"].keys() - {"namespace"}


async def test_clients_own_the_status_that_they_send(site: Site) -> None:
    body = {"spec": {"resourceAttributes": VERB}, "status": {"reason": "x"}}
    found = await site.send("POST", SELF, body)
    (owned,) = found.body["metadata"]["managedFields"]

    assert {"f:reason": {}} == owned["fieldsV1"]["f:status"]


async def test_rules(site: Site) -> None:
    found = await site.send(
        "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}
    )

    assert {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    } == found.body["status"]


def limited(field: str, **selector: object) -> Object:
    return {"resourceAttributes": {**VERB, field: selector}}


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        (SELF, {}, ["spec.resourceAttributes"]),
        (
            SELF,
            {
                "metadata": {"name": "x"},
                "spec": {"resourceAttributes": VERB, "nonResourceAttributes": VERB},
            },
            ["spec.nonResourceAttributes", "metadata"],
        ),
        (OTHER, {"spec": {"resourceAttributes": VERB}}, ["spec.user"]),
        (
            LOCAL,
            {"spec": {"user": "a", "resourceAttributes": VERB}},
            ["spec.resourceAttributes.namespace"],
        ),
        (
            LOCAL,
            {"spec": {"user": "a", "nonResourceAttributes": VERB}},
            ["spec.nonResourceAttributes"],
        ),
        (
            SELF,
            {"spec": limited("fieldSelector")},
            ["spec.resourceAttributes.fieldSelector.requirements"],
        ),
        (
            SELF,
            {"spec": limited("labelSelector", rawSelector="a", requirements=[{"operator": "New"}])},
            [
                "spec.resourceAttributes.labelSelector.rawSelector",
                *["spec.resourceAttributes.labelSelector.requirements[0].key"] * 2,
            ],
        ),
        (
            SELF,
            {"spec": limited("fieldSelector", requirements=[{"operator": "In"}])},
            [
                "spec.resourceAttributes.fieldSelector.requirements[0].key",
                "spec.resourceAttributes.fieldSelector.requirements[0].values",
            ],
        ),
    ],
)
async def test_invalid(site: Site, path: str, body: Object, fields: list[str]) -> None:
    found = await site.send("POST", path, body)

    assert fields == [field for field, _ in found.causes]
    assert found.body["message"].startswith('.authorization.k8s.io "" is invalid: ')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", 400),
        ("POST", f"{AUTHENTICATION}/tokenreviews", 400),
        ("GET", SELF, 405),
        ("GET", f"{SELF}/x", 404),
        ("GET", SELF.replace("/v1/", "/v1/watch/"), 404),
        ("POST", LOCAL.replace("/namespaces/a", ""), 404),
    ],
)
async def test_nothing_else(site: Site, method: str, path: str, status: int) -> None:
    """Reviews are created, and neither read nor stored."""
    found = await site.send(method, path, {} if method == "POST" else None)

    assert status == found.status
