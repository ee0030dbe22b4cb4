"""Tests of `apfproxy.request.attributes`."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.request.attributes import (
    MAX_COLLECTION_CHARACTERS,
    MAX_COLLECTIONS,
    AttributesError,
    DeadlineError,
    ListOptions,
    RequestAttributes,
    _collections,
    decode_path,
    parse_attributes,
    parse_duration_ns,
    plain_attributes,
    request_timeout_ns,
    split_target,
)
from apfproxy.request.rules import RequestRules

if TYPE_CHECKING:
    from types import FrameType

VERBS = ("GET", "PUT", "DELETE", "OPTIONS")
PIECES = st.sampled_from([
    b"/", b"//", b"api", b"apis", b"v1", b"watch", b"proxy", b"namespaces", b"pods", b"status",
    b"?", b"&", b"=", b";", b"%", b"%2F", b"%ff", b"watch=true", b"fieldSelector=metadata.name%3Da",
    b"labelSelector=a in (b)", b"limit=1", b"http://", b"[::1]", b"@", b":", b"*", b"..", b"#",
])  # fmt: skip


def members(attributes: RequestAttributes) -> dict[str, str]:
    """All that the attributes have, by its name."""
    return {name: repr(value) for name, value in vars(attributes).items()}


def test_resource_request() -> None:
    """All fields of a resource request are set."""
    found = parse_attributes("GET", b"/apis/apps/v1/namespaces/n/deployments?limit=5")
    assert members(found) == members(
        RequestAttributes(
            is_resource_request=True,
            path="/apis/apps/v1/namespaces/n/deployments",
            verb="list",
            api_prefix="apis",
            api_group="apps",
            api_version="v1",
            namespace="n",
            resource="deployments",
            is_mutating=False,
            query={"limit": ("5",)},
            list_options=ListOptions(limit=5),
        )
    )


def test_non_resource_request() -> None:
    """A request for another URL has its method for a verb."""
    found = parse_attributes("POST", b"/metrics?a=b&limit=5&limit=6")
    assert members(found) == members(
        RequestAttributes(
            is_resource_request=False, path="/metrics", verb="post", query={"limit": ("5",)}
        )
    )


@pytest.mark.parametrize(
    ("method", "target", "verb", "long_running", "is_mutating"),
    [
        ("GET", b"/api/v1/pods/p", "get", False, False),
        ("HEAD", b"/api/v1/pods", "list", False, False),
        ("GET", b"/api/v1/pods?watch=1", "watch", True, False),
        ("PUT", b"/api/v1/watch/pods", "watch", True, False),
        ("GET", b"/api/v1/proxy/pods/p", "proxy", True, True),
        ("POST", b"/api/v1/namespaces/n/pods/p/exec", "create", True, True),
        ("GET", b"/api/v1/namespaces/n/pods/p/log", "get", True, False),
        ("DELETE", b"/api/v1/pods", "deletecollection", False, True),
        ("DELETE", b"/api/v1/pods/p", "delete", False, True),
        ("FOO", b"/api/v1/pods", "", False, True),
        ("GET", b"/debug/pprof/profile", "get", True, False),
        ("GET", b"/debug/pprof", "get", False, False),
        ("GET", b"/apis/apps/v1", "get", False, False),
    ],
)
def test_verb(method: str, target: bytes, verb: str, long_running: bool, is_mutating: bool) -> None:
    """Method and target make the verb; verb, subresource or path say how long it may last."""
    attributes = parse_attributes(method, target)

    assert verb == attributes.verb
    assert long_running == attributes.long_running
    assert is_mutating == attributes.is_mutating


@pytest.mark.parametrize(
    ("target", "namespace", "resource", "subresource", "name"),
    [
        (b"/api/v1/namespaces", "", "namespaces", "", ""),
        (b"/api/v1/namespaces/n", "n", "namespaces", "", "n"),
        (b"/api/v1/namespaces/n/status", "n", "namespaces", "status", "n"),
        (b"/api/v1/namespaces/n/pods", "n", "pods", "", ""),
        (b"/api/v1/namespaces/n/pods/p/log/x", "n", "pods", "log", "p"),
        (b"/api/v1/proxy/namespaces/n/pods/p/x", "n", "pods", "", "p"),
        (b"/api/v1/pods?fieldSelector=metadata.name%3Dp", "", "pods", "", "p"),
    ],
)
def test_names(target: bytes, namespace: str, resource: str, subresource: str, name: str) -> None:
    """Namespace, resource, subresource and name are found in the path."""
    attributes = parse_attributes("GET", target)

    assert namespace == attributes.namespace
    assert resource == attributes.resource
    assert subresource == attributes.subresource
    assert name == attributes.name


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (b"/api/v1/watch", "ends after the verb watch"),
        (b"/apis/apps/v1/proxy/", "ends after the verb proxy"),
        (b"/a%", "invalid percent escape"),
    ],
)
def test_errors(target: bytes, message: str) -> None:
    """A target that makes no sense is refused in one line."""
    with pytest.raises(AttributesError, match=message):
        parse_attributes("GET", target)


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "CONNECT", "foo"]),
    target=st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=12).map(b"".join)),
)
@example(method="GET", target=b"/api/v1/pods?fieldSelector=metadata.name%3D%ff")
@settings(max_examples=300)
def test_any_target_has_attributes_or_is_refused(method: str, target: bytes) -> None:
    """Whatever the bytes are, the answer is attributes that can be printed, or our own error."""
    try:
        attributes = parse_attributes(method, target)
    except AttributesError:
        return

    assert repr(attributes).encode()
    assert (attributes.verb in {"list", "watch"}) == (attributes.list_options is not None)


def test_group_resource() -> None:
    """Resources are named as in Kubernetes' metrics."""
    assert parse_attributes("GET", b"/api/v1/pods").group_resource == "pods"
    assert parse_attributes("GET", b"/apis/apps/v1/x").group_resource == "x.apps"
    assert parse_attributes("GET", b"/apis/apps/v1/x").stored_as == "x.apps"
    assert parse_attributes("GET", b"/y/api/v1/x", BELOW).stored_as == "/y x"


BELOW = RequestRules(("watch",), ("log",), ["/feeds", "/api/v1/pods"], ["/clusters/{a}", "/{b}"])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(
            b"/clusters/x/apis/apps/v1/namespaces/n/scales/s/status?limit=5",
            ("get", "apps", "scales", "status", "n", "s", "/clusters/x", "x"),
            id="resource",
        ),
        pytest.param(
            b"http://h/clusters/x/api/v1/pods?watch=1",
            ("watch", "", "pods", "", "", "", "/clusters/x", "x"),
            id="absolute",
        ),
        pytest.param(
            b"/clusters/x//api/v1/pods",
            ("list", "", "pods", "", "", "", "/clusters/x", "x"),
            id="two-slashes",
        ),
        pytest.param(
            b"/clusters/x/api/v1/namespaces/../pods",
            ("list", "", "pods", "", "..", "", "/clusters/x", ""),
            id="may-lead-elsewhere",
        ),
        pytest.param(b"/clusters/x", ("get", *[""] * 5, "/clusters/x", "x"), id="the-prefix"),
        pytest.param(b"/y/version", ("get", *[""] * 5, "/y", "y"), id="no-resource"),
        pytest.param(b"/api/v1/pods", ("list", "", "pods", *[""] * 5), id="an-api-by-itself"),
        pytest.param(b"/apis/x/v1/y", ("list", "x", "y", *[""] * 5), id="a-group-by-itself"),
        pytest.param(b"/", ("get", *[""] * 7), id="no-prefix"),
    ],
)
def test_below_prefixes(target: bytes, expected: tuple[str, ...]) -> None:
    """What follows a prefix counts, but the path stays what it is."""
    found = parse_attributes("GET", target, BELOW)

    assert expected == (
        found.verb,
        found.api_group,
        found.resource,
        found.subresource,
        found.namespace,
        found.name,
        found.path_prefix,
        found.prefix_value,
    )
    path, _ = split_target("GET", target)
    assert decode_path(path) == found.path


@pytest.mark.parametrize(
    ("path", "is_long"),
    [
        (b"/clusters/x/feeds/a", True),
        (b"/clusters/x/api/v1/pods/a", True),
        (b"/clusters/x/api/v1/namespaces/n/jobs/j/log", True),
        (b"/clusters/feeds/a", False),
        (b"/clusters/x/api/v1/nodes", False),
    ],
)
def test_long_running_below_prefixes(path: bytes, is_long: bool) -> None:
    """What is long-running is named by what follows the prefix."""
    assert is_long == parse_attributes("GET", path, BELOW).long_running


def test_errors_below_prefixes() -> None:
    """What makes no sense by itself makes none there."""
    with pytest.raises(AttributesError, match="ends after the verb watch"):
        parse_attributes("GET", b"/clusters/x/api/v1/watch", BELOW)


SEGMENTS = st.sampled_from(
    ["", "api", "apis", "v1", "apps", "watch", "proxy", "namespaces", "a", "pods", "status", "log"]
)


@given(segments=st.lists(SEGMENTS, min_size=1, max_size=9), method=st.sampled_from(VERBS))
@example(segments=["api", "v1", "namespaces", "a", "pods"], method="GET")
@example(segments=["api", "v1", "namespaces", "a", "status"], method="PUT")
@example(segments=["api", "v1", "", "pods"], method="GET")
@example(segments=["api", "v1", "pods", "", "log"], method="GET")
def test_known_collections_make_no_difference(segments: list[str], method: str) -> None:
    """A path means the same whatever paths were read before."""

    def read(path: str) -> object:
        try:
            return members(parse_attributes(method, path.encode(), BELOW))
        except AttributesError as error:
            return str(error)

    for start in ("/", "//", "/clusters/x/"):
        path = start + "/".join(segments)
        _collections.clear()
        cold = read(path)
        for other in (*itertools.accumulate(path.split("/"), "{}/{}".format), path):
            read(other)
            read(other + "/pods")
            assert cold == read(path)


def test_known_collections_are_few() -> None:
    """Ever new namespaces, or long ones, do not fill the memory."""
    for number in range(MAX_COLLECTIONS + 1):
        for name in (str(number), str(number) * MAX_COLLECTION_CHARACTERS):
            parse_attributes("GET", f"/api/v1/namespaces/{name}/pods".encode())

    assert len(_collections) <= MAX_COLLECTIONS
    assert max(map(len, _collections)) <= MAX_COLLECTION_CHARACTERS


PODS = b"/api/v1/pods?"
LONG = 16_384
"""Bytes of a target that are taken by default."""


def calls_for(target: bytes) -> int:
    """How many functions are called for the attributes of a GET."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        parse_attributes("GET", target)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        pytest.param(PODS, b"a&", b"", id="parameters"),
        pytest.param(PODS, b"%61&", b"", id="escaped-names"),
        pytest.param(PODS, b"w%61tch=%zz&", b"", id="invalid-escapes"),
        pytest.param(PODS, b"limit=;&", b"", id="semicolons"),
        pytest.param(PODS + b"watch=%31", b"%31", b"", id="escapes-of-a-value"),
        pytest.param(b"/api/v1", b"/a", b"", id="segments"),
        pytest.param(b"/", b"%2f", b"", id="escaped-slashes"),
        pytest.param(PODS + b"fieldSelector=", b"a=b,", b"metadata.name=c", id="fields"),
        pytest.param(PODS + b"fieldSelector=", b",", b"metadata.name=c", id="empty-terms"),
        pytest.param(PODS + b"fieldSelector=metadata.name=", rb"\\\,", b"", id="escaped-commas"),
        pytest.param(
            PODS + b"fieldSelector=metadata.name=c&labelSelector=a", b",b=c", b"", id="labels"
        ),
    ],
)
def test_long_targets_take_few_steps(start: bytes, part: bytes, end: bytes) -> None:
    """Thousands of parts of which nothing is made cost no call each: a target is anybody's."""
    target = start + part * ((LONG - len(start) - len(end)) // len(part)) + end

    assert calls_for(target) < 100


# APIs that are not Kubernetes'.


@pytest.mark.parametrize(
    ("method", "target", "path", "is_mutating"),
    [
        (
            "GET",
            b"/api/v1/namespaces/x/pods?watch=1&timeout=soon",
            "/api/v1/namespaces/x/pods",
            False,
        ),
        ("HEAD", b"/", "/", False),
        ("OPTIONS", b"*", "*", False),
        ("POST", b"/apis/apps/v1/deployments", "/apis/apps/v1/deployments", True),
        ("LIST", b"/a%20b", "/a b", True),
        ("WATCH", b"http://host/debug/pprof/profile", "/debug/pprof/profile", True),
    ],
)
def test_plain_method_and_path(method: str, target: bytes, path: str, *, is_mutating: bool) -> None:
    """Nothing else has a meaning."""
    found = plain_attributes(method, target)

    assert (method.lower(), path, is_mutating) == (found.verb, found.path, found.is_mutating)
    assert (True, False, False) == (
        found.is_plain,
        found.is_resource_request,
        found.long_running,
    )
    assert ("", {}, None) == (found.resource, dict(found.query), found.list_options)


def test_no_plain_target() -> None:
    """What is no target is none here either."""
    with pytest.raises(AttributesError, match="target"):
        plain_attributes("GET", b"/%zz")


def test_plain_prefixes() -> None:
    """Of a path below a prefix only its variable part is told."""
    rules = RequestRules(api_prefixes=["/tenants/{tenant}"])
    found = plain_attributes("GET", b"/tenants/a/api/v1/pods", rules)

    assert ("/tenants/a/api/v1/pods", False) == (found.path, found.is_resource_request)
    assert ("/tenants/a", "a") == (found.path_prefix, found.prefix_value)
    assert "" == plain_attributes("GET", b"/x/a", rules).prefix_value


# Time-outs.

MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("30s", 30_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5ms1.us", 501_000),
        ("2\u00b5s3\u03bcs4ns", 5004),
        ("+1s", 1_000_000_000),
        ("-1s", -1_000_000_000),
    ],
)
def test_durations(text: str, duration_ns: int) -> None:
    """Durations are read in Go's notation."""
    assert duration_ns == parse_duration_ns(text)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", ".s", "1m30", "1 s", "1d", "--1s", "9999999h", 65 * "0" + "s"]
)
def test_no_durations(text: str) -> None:
    """All else is refused."""
    with pytest.raises(DeadlineError, match="is not a duration"):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("query", "timeout_ns"),
    [
        (b"", MINUTE_NS),
        (b"?timeout=", MINUTE_NS),
        (b"?timeout=0s", MINUTE_NS),
        (b"?timeout=-1s", MINUTE_NS),
        (b"?timeout=-9000h", MINUTE_NS),
        (b"?timeout=10s&timeout=x", MINUTE_NS // 6),
        (b"?timeout=1h", MINUTE_NS),
        (b"?watch=1&timeout=10s", MINUTE_NS),
        (b"?watch=1&timeout=30", MINUTE_NS),
    ],
)
def test_request_timeout(query: bytes, timeout_ns: int) -> None:
    """The first parameter shortens the server's own limit, unless the request is long-running."""
    attributes = parse_attributes("GET", b"/api/v1/pods" + query)

    assert timeout_ns == request_timeout_ns(attributes, MINUTE_NS)
