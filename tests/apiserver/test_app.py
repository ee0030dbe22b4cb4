"""Tests of `apfproxy.apiserver.app`."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.rendering import Renderer
from apfproxy.apiserver.store.entries import StoreError
from tests.apiserver.site import NAMESPACES, PODS, SCHEMAS, YAML, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_version(site: Site) -> None:
    """The version says which Kubernetes this speaks like."""
    answer = await site.get("/version")

    assert (200, "1") == (answer.status, answer.body["major"])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/api/", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/api/v1", "APIResourceList"),
        ("/apis/policy", "APIGroup"),
        ("/apis/policy/", "APIGroup"),
        ("/apis/policy/v1", "APIResourceList"),
        ("/api/v1/namespaces/", "NamespaceList"),
        ("/api/v1/%6eamespaces", "NamespaceList"),
        ("/api/v1/namespaces/default%2Fpods", "PodList"),
    ],
)
async def test_paths(site: Site, path: str, kind: str) -> None:
    """Paths are read decoded, as Kubernetes reads them; a slash more at the end is nothing."""
    answer = await site.get(path)

    assert (200, kind) == (answer.status, answer.body["kind"])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v2", 404),
        ("/api/v1/bogus", 404),
        ("/apis/policy/v9/x", 404),
        ("/version/x", 404),
        ("/api//v1/namespaces", 404),
        ("/api/v1//namespaces", 404),
        (f"{NAMESPACES}/a%00b", 404),
        (f"{NAMESPACES}/%FF%FE", 404),
        (f"{NAMESPACES}/%C3%A9", 404),
        (f"{NAMESPACES}/a%2Fb", 404),
        (f"{NAMESPACES}/a%2525b", 400),
        (f"{NAMESPACES}/a%25b", 400),
        (f"{NAMESPACES}/%2e%2e", 400),
    ],
)
async def test_paths_of_nothing(site: Site, path: str, expected: int) -> None:
    """They are answered with a Status."""
    answer = await site.get(path)

    assert expected == answer.summary[0]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/openapi", b"404 page not found\n"),
        ("/openapi/v2/", b"404 page not found\n"),
        ("/openapi/v3/", b""),
        ("/openapi/v9", b"404 page not found\n"),
        ("/openapi/v3/bogus", b""),
        ("/apis/bogus", b"404 page not found\n"),
        ("/apis/bogus/v1", b"404 page not found\n"),
    ],
)
async def test_paths_that_are_not_routed(site: Site, path: str, expected: bytes) -> None:
    """Where there is not even a group, there is nobody to make a Status."""
    answer = await site.get(path)

    assert (404, expected) == (answer.status, answer.data)


@pytest.mark.parametrize("path", ["/apis", "/apis/policy", "/openapi/v3"])
async def test_documents_for_any_method(site: Site, path: str) -> None:
    """These are answered whatever is asked."""
    assert 200 == (await site.send("POST", path, {})).status


@pytest.mark.parametrize("path", ["/version", "/api", "/apis/policy/v1"])
async def test_documents_are_only_read(site: Site, path: str) -> None:
    """Nothing else can be done to a document."""
    assert (405, "MethodNotAllowed") == (await site.send("POST", path, {})).summary
    head = await site.send("HEAD", path)
    assert (405, b"") == (head.status, head.data)


async def test_forms_of_documents(site: Site) -> None:
    """Documents of discovery are JSON or YAML, laid out as it is wanted."""
    as_yaml = await site.get("/apis", accept=YAML)
    laid_out = await site.get("/apis?pretty=true")
    refused = await site.get("/openapi/v3/apis/policy/v1", accept="text/html")

    assert as_yaml.data.startswith(b"apiVersion: v1\n")
    assert laid_out.data.startswith(b"{\n")
    assert (406, "NotAcceptable") == (await site.get("/apis", accept="text/html")).summary
    assert (406, b"") == (refused.status, refused.data)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery(site: Site, path: str) -> None:
    """All in one, and not again for who has it."""
    answer = await site.get(path, accept=f"{AGGREGATED},application/json")
    tag = answer.headers["ETag"]
    again = await site.get(path, accept=AGGREGATED, headers={"If-None-Match": tag})
    unknown = await site.get(path, accept=AGGREGATED.replace("v2", "v9") + ",application/json")

    assert "APIGroupDiscoveryList" == answer.body["kind"]
    assert AGGREGATED == answer.headers["Content-Type"]
    assert (304, b"") == (again.status, again.data)
    assert "APIGroupDiscoveryList" != unknown.body["kind"]


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/openapi/v2", "application/json"),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/apis/policy/v1", "application/json"),
    ],
)
async def test_openapi(site: Site, path: str, accept: str) -> None:
    """Documents of OpenAPI come packed for who takes it, and not again for who has them."""
    plain = await site.get(path, accept=accept)
    packed = await site.get(path, accept=accept, headers={"Accept-Encoding": "gzip"})
    known = {"If-None-Match": plain.headers["ETag"]}
    again = await site.get(path, accept=accept, headers=known)

    assert 200 == plain.status
    assert plain.data == gzip.decompress(packed.data)
    assert (304, b"") == (again.status, again.data)


async def test_unforeseen_failures(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client hears that it is the server's fault, and the log hears what it was."""

    def fail(*_: Any) -> bytes:  # noqa: ANN401  whatever is asked
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Renderer, "document", fail)
    await site.send("POST", SCHEMAS, flow_schema())
    answer = await site.get(f"{SCHEMAS}/f")

    assert (500, "InternalError") == answer.summary
    assert b"secret" not in answer.data
    assert "secret" in caplog.text


async def test_failures_of_the_disk(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They say what it is, since who runs the server can do something about it."""

    def fail(*_: Any, **__: Any) -> Any:  # noqa: ANN401  whatever is asked
        raise StoreError("the disk is full")

    monkeypatch.setattr(site.store, "put", fail)
    answer = await site.send("POST", SCHEMAS, flow_schema())

    assert (500, "InternalError") == answer.summary
    assert b"the disk is full" in answer.data
    assert [logging.ERROR] == [
        record.levelno for record in caplog.records if record.name.startswith("apfproxy")
    ]


async def test_closed_stores(site: Site) -> None:
    """What is written while the server stops is refused."""
    await site.store.close()

    assert (500, "InternalError") == (await site.send("POST", SCHEMAS, flow_schema())).summary


async def test_details(site: Site) -> None:
    """A Status names the object: by its resource, or by its kind where its content is wrong."""
    missing = await site.get(f"{PODS}/p")
    wrong = await site.send("POST", SCHEMAS, flow_schema(precedence=-1))

    assert {"name": "p", "kind": "pods"} == missing.body["details"]
    group = "flowcontrol.apiserver.k8s.io"
    details = wrong.body["details"]
    assert ("f", group, "FlowSchema") == (details["name"], details["group"], details["kind"])
    assert {"reason", "message", "field"} == set(details["causes"][0])
    assert "selfLink" not in str(missing.body)
