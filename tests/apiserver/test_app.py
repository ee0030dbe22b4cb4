"""Tests of `apfproxy.apiserver.app`."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.responses import Renderer
from apfproxy.apiserver.store.entries import StoreError
from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery(site: Site, path: str) -> None:
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
    await site.store.close()

    assert (500, "InternalError") == (await site.send("POST", SCHEMAS, flow_schema())).summary


async def test_no_custom_resources(site: Site) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    assert [] == (await site.get(path)).body["items"]
    assert 404 == (await site.send("POST", path, {})).status
