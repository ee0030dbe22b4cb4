"""Tests of `apfproxy.request.attributes`."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import (
    NO_OPTIONS,
    NOT_DECODABLE,
    ListOptions,
    list_options,
    parse_bool,
    parse_query,
    required_field,
    watch_and_name,
)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        pytest.param(b"", NO_OPTIONS, id="none"),
        pytest.param(b"limit=a", NOT_DECODABLE, id="limit-is-no-number"),
        pytest.param(b"timeoutSeconds=", NOT_DECODABLE, id="timeout-is-no-number"),
        pytest.param(b"limit=5", ListOptions(limit=5), id="limit"),
        pytest.param(b"limit=5&continue=x", ListOptions(limit=5, is_continuation=True), id="page"),
        pytest.param(b"labelSelector=a", ListOptions(has_selector=True), id="labels"),
        pytest.param(b"fieldSelector=a", ListOptions(has_selector=True), id="fields"),
        pytest.param(b"resourceVersion=0", ListOptions(is_from_cache=True), id="any-version"),
        pytest.param(
            b"resourceVersion=0&limit=5", ListOptions(limit=5, is_from_cache=True), id="any-limited"
        ),
        pytest.param(
            b"resourceVersion=5",
            ListOptions(is_from_cache=True, sends_initial_events=False),
            id="not-older",
        ),
        pytest.param(
            b"resourceVersion=5&limit=1",
            ListOptions(limit=1, sends_initial_events=False),
            id="exact-as-it-was-of-old",
        ),
        pytest.param(
            b"resourceVersion=5&resourceVersionMatch=Exact",
            ListOptions(sends_initial_events=False),
            id="exact",
        ),
        pytest.param(
            b"resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=1",
            ListOptions(limit=1, is_from_cache=True, sends_initial_events=False),
            id="not-older-than",
        ),
        pytest.param(
            b"resourceVersion=5&sendInitialEvents=1",
            ListOptions(is_from_cache=True, sends_initial_events=True),
            id="initial-events",
        ),
        pytest.param(
            b"resourceVersion=5&sendInitialEvents=False",
            ListOptions(is_from_cache=True, sends_initial_events=False),
            id="no-initial-events",
        ),
    ],
)
def test_list_options(query: bytes, options: ListOptions) -> None:
    """What a LIST costs is read from its query."""
    found = list_options(parse_query(query))

    assert repr(options) == repr(found)


@pytest.mark.parametrize(
    ("query", "is_watch", "name"),
    [
        pytest.param(b"", False, "", id="none"),
        pytest.param(b"watch", True, "", id="bare"),
        pytest.param(b"watch=false&watch=true", False, "", id="first-counts"),
        pytest.param(b"watch=1&limit=a&fieldSelector=metadata.name=b", True, "", id="bad-limit"),
        pytest.param(b"watch=fal%C5%BFe", False, "", id="long-s"),
        pytest.param(b"watch=fal%C5%BFe&limit=a", True, "", id="long-s-by-itself"),
        pytest.param(b"fieldSelector=metadata.name=a", False, "a", id="name"),
        pytest.param(
            b"fieldSelector=metadata.name=a&labelSelector=b=-", False, "", id="bad-labels"
        ),
        pytest.param(b"fieldSelector=metadata.name=a,b", False, "", id="bad-fields"),
        pytest.param(b"fieldSelector=metadata.name=a/b", False, "", id="slash"),
        pytest.param(b"fieldSelector=metadata.name=a%2525", False, "", id="percent"),
        pytest.param(b"fieldSelector=metadata.name=..", False, "", id="dots"),
    ],
)
def test_watch_and_name(query: bytes, is_watch: bool, name: str) -> None:
    """A GET of a collection is told from a WATCH as Kubernetes does it."""
    assert (is_watch, name) == watch_and_name(parse_query(query))


@pytest.mark.parametrize(
    ("query", "value"),
    [
        pytest.param(b"", "", id="no-selector"),
        pytest.param(b"fieldSelector=a=b", "b", id="required"),
        pytest.param(b"fieldSelector=a!=b", "", id="excluded"),
        pytest.param(b"fieldSelector=a=b&timeoutSeconds=x", "", id="not-decodable"),
    ],
)
def test_required_field(query: bytes, value: str) -> None:
    """The value of a field counts if all can be decoded."""
    assert value == required_field(parse_query(query), "a")


@pytest.mark.parametrize(
    ("text", "value"),
    [("", True), ("no", True), ("00", True), ("0", False), ("FALSE", False), ("fal\u017fe", False)],
)
def test_parse_bool(text: str, value: bool) -> None:
    """Only 0 and false are false."""
    assert value == parse_bool(text)
