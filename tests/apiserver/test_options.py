"""Tests of `apfproxy.apiserver.options`, beside the recorded requests."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.events import EVENT_OF_EVENTS
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.options import (
    asked_version,
    delete_options,
    list_options,
    manager_of,
    pretty,
)
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.request.attributes import parse_query

AGENT = "kubectl/v1.36.0 (linux/amd64)"


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        (AGENT, "kubectl"),
        ("", "unknown"),
        ("/1", "unknown"),
        ("a\tb\u00ad c/1", "ab c"),
        (200 * "a", 128 * "a"),
        (127 * "a" + "\u00e4" + "b", 127 * "a"),
    ],
)
def test_manager_of(user_agent: str, manager: str) -> None:
    """The manager is what comes before the slash, as far as it can be shown, in 128 bytes."""
    assert manager == manager_of(user_agent)


@pytest.mark.parametrize(
    ("query", "expected"),
    [(b"", None), (b"pretty=", None), (b"pretty=true", True), (b"pretty=yes", False)],
)
def test_pretty(query: bytes, expected: bool | None) -> None:
    """Only what Go takes for true is true."""
    assert expected == pretty(parse_query(query))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (EVENT_OF_EVENTS, "field label not supported: spec.foo"),
        (FLOW_SCHEMA, '"spec.foo" is not a known field selector: only "metadata.name",'),
    ],
    ids=["events", "others"],
)
def test_unknown_fields(kind: Any, message: str) -> None:  # noqa: ANN401  a kind
    """Events have Kubernetes' older, shorter text in either group."""
    query = parse_query(b"fieldSelector=spec.foo%3Da")
    with pytest.raises(StatusError, match=message):
        list_options(query, kind, kind.storage, is_watch=False)


@pytest.mark.parametrize("query", [b"export", b"export=1"])
def test_exports_are_refused(query: bytes) -> None:
    with pytest.raises(StatusError, match="export") as caught:
        asked_version(parse_query(query))

    assert 400 == caught.value.code


@pytest.mark.parametrize(
    ("query", "raw", "options"),
    [
        (b"dryRun=All", {}, {}),
        (b"gracePeriodSeconds=-5", None, {"grace_period_s": 1}),
        (b"orphanDependents=true", None, {"propagation": "Orphan"}),
        (
            b"orphanDependents=false",
            None,
            {"propagation": "Background", "is_cascading": True},
        ),
        (b"uid=a", None, {"uid": "a"}),
        (
            b"",
            {"preconditions": {"uid": "", "resourceVersion": ""}},
            {"uid": "", "resource_version": ""},
        ),
    ],
)
def test_delete_options(query: bytes, raw: object, options: dict[str, Any]) -> None:
    """The body counts; the parameters count where there is none."""
    expected = DeleteOptions(**options)

    assert expected == delete_options(parse_query(query), raw)
