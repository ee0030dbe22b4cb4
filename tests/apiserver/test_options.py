"""Tests of `apfproxy.apiserver.options`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.events import EVENT_OF_EVENTS
from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.options import (
    ListOptions,
    WriteParameters,
    asked_version,
    delete_options,
    is_watch,
    list_options,
    manager_of,
    patch_options,
    pretty,
    write_parameters,
)
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.apiserver.schema.types import Struct
from apfproxy.apiserver.selectors import parse_field_selector, parse_label_selector
from apfproxy.request.attributes import parse_query

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT = "kubectl/v1.36.0 (linux/amd64)"


def kind_of(group: str = "g.example.com", *selectable: str) -> Kind:
    """A kind of objects that can be selected by these fields."""
    return Kind(
        group,
        "Thing",
        (Version("v1", Struct("Thing", ())),),
        is_namespaced=False,
        selectable_fields=selectable,
    )


THING = kind_of()


def query_of(text: str) -> Mapping[str, tuple[str, ...]]:
    """The parameters in the text of a query."""
    return parse_query(text.encode())


def failure(error: StatusError) -> tuple[int, str, list[tuple[str, str]]]:
    """What programs see of an error."""
    causes = (error.details or {}).get("causes", [])
    return error.code, error.reason, [(cause["field"], cause["reason"]) for cause in causes]


GO_ON = "a"
INVALID = "FieldValueInvalid"
FORBIDDEN = "FieldValueForbidden"
NOT_SUPPORTED = "FieldValueNotSupported"
REQUIRED = "FieldValueRequired"
MATCH = "resourceVersionMatch"


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", ListOptions()),
        ("unknown=1&labelSelector=&shardSelector=a", ListOptions()),
        ("limit=-1&limit=5", ListOptions(limit=-1)),
        ("limit=2&continue=a", ListOptions(limit=2, continue_token=GO_ON)),
        ("continue=a&resourceVersion=0", ListOptions(continue_token=GO_ON, resource_version="0")),
        ("labelSelector=a", ListOptions(label_selector=parse_label_selector("a"))),
        (
            "fieldSelector=metadata.name%3Da",
            ListOptions(field_selector=parse_field_selector("metadata.name=a")),
        ),
        (
            f"resourceVersion=7&{MATCH}=Exact",
            ListOptions(resource_version="7", resource_version_match="Exact"),
        ),
        (
            f"resourceVersion=0&{MATCH}=NotOlderThan",
            ListOptions(resource_version="0", resource_version_match="NotOlderThan"),
        ),
        ("allowWatchBookmarks", ListOptions(allow_watch_bookmarks=True)),
        ("timeoutSeconds=7", ListOptions(timeout_s=7)),
    ],
)
def test_list_options(query: str, options: ListOptions) -> None:
    """The parameters of a LIST are decoded."""
    assert options == list_options(query_of(query), THING, is_watch=False)


DEFAULTS: dict[str, Any] = {"resource_version_match": "NotOlderThan", "send_initial_events": True}


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", ListOptions(**DEFAULTS)),
        ("resourceVersion=0", ListOptions(resource_version="0", **DEFAULTS)),
        ("resourceVersion=7", ListOptions(resource_version="7")),
        ("resourceVersion=7&continue=a", ListOptions(resource_version="7", continue_token=GO_ON)),
        (
            f"sendInitialEvents=false&{MATCH}=NotOlderThan",
            ListOptions(resource_version_match="NotOlderThan", send_initial_events=False),
        ),
    ],
)
def test_watch_options(query: str, options: ListOptions) -> None:
    """A WATCH from any version begins with all objects."""
    assert options == list_options(query_of(query), THING, is_watch=True)


@pytest.mark.parametrize(
    ("query", "is_watch", "expected"),
    [
        ("limit=a", False, (400, "BadRequest", [])),
        ("timeoutSeconds=", False, (400, "BadRequest", [])),
        ("labelSelector=a===b", False, (400, "BadRequest", [])),
        ("fieldSelector=a", False, (400, "BadRequest", [])),
        ("fieldSelector=spec.foo=a", False, (400, "BadRequest", [])),
        ("resourceVersion=abc", False, (400, "BadRequest", [])),
        ("resourceVersion=abc", True, (500, "", [])),
        (f"{MATCH}=Exact", False, (422, "Invalid", [(MATCH, FORBIDDEN)])),
        (f"resourceVersion=0&{MATCH}=Exact", False, (422, "Invalid", [(MATCH, FORBIDDEN)])),
        (f"resourceVersion=1&{MATCH}=Near", False, (422, "Invalid", [(MATCH, NOT_SUPPORTED)])),
        (
            f"{MATCH}=Exact&continue=a",
            False,
            (422, "Invalid", [(MATCH, FORBIDDEN), (MATCH, FORBIDDEN)]),
        ),
        ("sendInitialEvents=0", False, (422, "Invalid", [("sendInitialEvents", FORBIDDEN)])),
        ("sendInitialEvents=1", True, (422, "Invalid", [(MATCH, FORBIDDEN)])),
        (
            f"{MATCH}=NotOlderThan&resourceVersion=1",
            True,
            (422, "Invalid", [(MATCH, FORBIDDEN)]),
        ),
        (
            f"{MATCH}=Exact&resourceVersion=1",
            True,
            (422, "Invalid", [(MATCH, FORBIDDEN), (MATCH, NOT_SUPPORTED)]),
        ),
        ("continue=abc", True, (422, "Invalid", [(MATCH, FORBIDDEN)])),
    ],
)
def test_list_options_refused(
    query: str, is_watch: bool, expected: tuple[int, str, list[tuple[str, str]]]
) -> None:
    """What cannot be decoded or makes no sense is refused as by Kubernetes."""
    with pytest.raises(StatusError) as caught:
        list_options(query_of(query), THING, is_watch=is_watch)

    assert expected == failure(caught.value)


@pytest.mark.parametrize(
    ("query", "is_watch", "kind", "message"),
    [
        (
            "resourceVersion=abc",
            False,
            THING,
            (
                'invalid resource version: resourceVersion: Invalid value: "abc":'
                ' strconv.ParseUint: parsing "abc": invalid syntax'
            ),
        ),
        (
            "fieldSelector=spec.foo=a",
            False,
            THING,
            '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "fieldSelector=spec.foo=a",
            True,
            kind_of("g.example.com", "spec.a"),
            "field label not supported for g.example.com/v1, Kind=Thing: spec.foo",
        ),
        (
            "fieldSelector=spec.foo=a",
            True,
            kind_of("", "spec.a"),
            "field label not supported: spec.foo",
        ),
        (
            "fieldSelector=spec.foo=a",
            True,
            EVENT_OF_EVENTS,
            "field label not supported: spec.foo",
        ),
        (
            f"{MATCH}=Exact",
            False,
            THING,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden:'
                " resourceVersionMatch is forbidden unless resourceVersion is provided"
            ),
        ),
    ],
)
def test_list_options_messages(query: str, is_watch: bool, kind: Kind, message: str) -> None:
    """Messages are those of Kubernetes."""
    with pytest.raises(StatusError) as caught:
        list_options(query_of(query), kind, is_watch=is_watch)

    assert message == caught.value.message


@pytest.mark.parametrize(
    ("query", "version"), [("", 0), ("resourceVersion=0", 0), ("resourceVersion=7", 7)]
)
def test_asked_version(query: str, version: int) -> None:
    """The version that a GET wants is decoded."""
    assert version == asked_version(query_of(query))


def test_asked_version_refused() -> None:
    """A version that is none is answered with 500, as by Kubernetes."""
    with pytest.raises(StatusError) as caught:
        asked_version(query_of("resourceVersion=-1"))

    assert (500, "", []) == failure(caught.value)


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", False), ("watch", True), ("watch=1", True), ("watch=0", False), ("watch=False", False)],
)
def test_is_watch(query: str, expected: bool) -> None:
    """All but 0 and false is true."""
    assert expected == is_watch(query_of(query))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", None),
        ("pretty=", None),
        ("pretty=true", True),
        ("pretty=1", True),
        ("pretty=yes", False),
    ],
)
def test_pretty(query: str, expected: bool | None) -> None:
    """Only what Go takes for true is true."""
    assert expected == pretty(query_of(query))


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", WriteParameters("kubectl")),
        ("fieldManager=me&dryRun=All&dryRun=All", WriteParameters("me", is_dry_run=True)),
        ("fieldValidation=Strict", WriteParameters("kubectl", field_validation="Strict")),
        ("fieldValidation=", WriteParameters("kubectl")),
    ],
)
def test_write_options(query: str, options: WriteParameters) -> None:
    """The parameters of all writes are decoded."""
    parameters = query_of(query)

    assert options == write_parameters(parameters, AGENT, "CreateOptions")
    assert options == patch_options(parameters, AGENT, is_apply=False)


@pytest.mark.parametrize(
    ("query", "force"), [("", False), ("&force=true", True), ("&force=0", False), ("&force", True)]
)
def test_apply_options(query: str, force: bool) -> None:
    """Only an applied configuration can be forced."""
    options = patch_options(query_of(f"fieldManager=me{query}"), AGENT, is_apply=True)

    assert WriteParameters("me", force=force) == options


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        ("dryRun=Some", [("dryRun", NOT_SUPPORTED)]),
        ("dryRun=", [("dryRun", NOT_SUPPORTED)]),
        ("fieldValidation=Maybe", [("fieldValidation", NOT_SUPPORTED)]),
        (f"fieldManager={129 * 'a'}", [("fieldManager", "FieldValueTooLong")]),
        ("fieldManager=a%C3%A4%07b%0A", [("fieldManager", INVALID)] * 2),
        (
            "dryRun=All&dryRun=Some&fieldValidation=strict",
            [("dryRun", NOT_SUPPORTED), ("fieldValidation", NOT_SUPPORTED)],
        ),
    ],
)
def test_write_options_refused(query: str, causes: list[tuple[str, str]]) -> None:
    """Values that are not allowed are refused."""
    with pytest.raises(StatusError) as caught:
        write_parameters(query_of(query), AGENT, "CreateOptions")

    assert (422, "Invalid", causes) == failure(caught.value)
    assert caught.value.message.startswith('CreateOptions.meta.k8s.io "" is invalid: ')


@pytest.mark.parametrize(
    ("query", "is_apply", "causes"),
    [
        ("", True, [("fieldManager", REQUIRED)]),
        ("force=false", False, [("force", FORBIDDEN)]),
        ("force&dryRun=x", True, [("fieldManager", REQUIRED), ("dryRun", NOT_SUPPORTED)]),
    ],
)
def test_patch_options_refused(query: str, is_apply: bool, causes: list[tuple[str, str]]) -> None:
    """An applied configuration has an owner, and other patches no force."""
    with pytest.raises(StatusError) as caught:
        patch_options(query_of(query), AGENT, is_apply=is_apply)

    assert (422, "Invalid", causes) == failure(caught.value)


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        (AGENT, "kubectl"),
        ("curl", "curl"),
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
    ("query", "raw", "options"),
    [
        ("", None, {}),
        ("", {}, {}),
        ("dryRun=All", None, {"is_dry_run": True}),
        ("dryRun=All", {}, {}),
        ("gracePeriodSeconds=0", None, {"grace_period_s": 0}),
        ("gracePeriodSeconds=-5", None, {"grace_period_s": 1}),
        ("propagationPolicy=Foreground", None, {"propagation": "Foreground"}),
        ("orphanDependents=true", None, {"propagation": "Orphan"}),
        (
            "orphanDependents=false",
            None,
            {"propagation": "Background", "is_cascading": True},
        ),
        ("uid=a", None, {"uid": "a"}),
        (
            "",
            {"preconditions": {"uid": "", "resourceVersion": ""}},
            {"uid": "", "resource_version": ""},
        ),
        ("ignoreStoreReadErrorWithClusterBreakingPotential=true", None, {}),
        (
            "",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {"uid": "a", "resourceVersion": "7"},
                "gracePeriodSeconds": 5,
                "propagationPolicy": "Orphan",
                "dryRun": ["All"],
                "unknown": 1,
            },
            {
                "uid": "a",
                "resource_version": "7",
                "grace_period_s": 5,
                "propagation": "Orphan",
                "is_dry_run": True,
            },
        ),
    ],
)
def test_delete_options(query: str, raw: object, options: dict[str, Any]) -> None:
    """The body counts; the parameters count where there is none."""
    expected = DeleteOptions(manager="kubectl", **options)

    assert expected == delete_options(query_of(query), raw, AGENT)


IGNORE = "ignoreStoreReadErrorWithClusterBreakingPotential"


@pytest.mark.parametrize(
    ("query", "raw", "code", "causes"),
    [
        (
            "orphanDependents=true&propagationPolicy=Foreground",
            None,
            422,
            [("propagationPolicy", INVALID)],
        ),
        ("propagationPolicy=Sideways", None, 422, [("propagationPolicy", NOT_SUPPORTED)]),
        ("propagationPolicy=", None, 422, [("propagationPolicy", NOT_SUPPORTED)]),
        (
            "orphanDependents&propagationPolicy=x&dryRun=y",
            None,
            422,
            [
                ("propagationPolicy", INVALID),
                ("propagationPolicy", NOT_SUPPORTED),
                ("dryRun", NOT_SUPPORTED),
            ],
        ),
        ("", {IGNORE: True, "dryRun": ["Some"]}, 422, [("dryRun", NOT_SUPPORTED)]),
        ("gracePeriodSeconds=a", None, 400, []),
        ("", [], 400, []),
        ("", {"gracePeriodSeconds": "a"}, 400, []),
        ("", {"kind": "Pod", "apiVersion": "v1"}, 400, []),
    ],
)
def test_delete_options_refused(
    query: str, raw: object, code: int, causes: list[tuple[str, str]]
) -> None:
    """What cannot be decoded or makes no sense is refused as by Kubernetes."""
    with pytest.raises(StatusError) as caught:
        delete_options(query_of(query), raw, AGENT)

    assert (code, causes) == (failure(caught.value)[0], failure(caught.value)[2])
