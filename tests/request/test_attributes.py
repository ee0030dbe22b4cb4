"""A request's user and its attributes."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.request.attributes import (
    ANONYMOUS,
    KNOWN_PARAMETERS,
    MAX_COLLECTION_CHARACTERS,
    MAX_COLLECTIONS,
    MAX_KNOWN_QUERIES,
    MAX_KNOWN_QUERY_BYTES,
    NO_OPTIONS,
    NOT_DECODABLE,
    AttributesError,
    DeadlineError,
    ListOptions,
    RequestAttributes,
    User,
    _collections,
    authenticated,
    decode_path,
    known_parameters,
    known_queries,
    list_options,
    parameter_pattern,
    parameter_values,
    parse_attributes,
    parse_duration_ns,
    parse_query,
    plain_attributes,
    request_timeout_ns,
    required_field,
    split_target,
    supposed_groups,
    unverified,
    watch_and_name,
)
from apfproxy.request.rules import KUBERNETES, PATTERN, PathPrefixes, RequestRules

if TYPE_CHECKING:
    from types import FrameType


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), ("system:authenticated",)),
        (("dev",), ("dev", "system:authenticated")),
        (("system:authenticated", "dev"), ("system:authenticated", "dev")),
        (("system:unauthenticated",), ("system:unauthenticated",)),
    ],
)
def test_authenticated(groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    extra = (("scopes", ("a",)),)
    assert User("alice", expected, "1", extra) == authenticated(User("alice", groups, "1", extra))
    assert ANONYMOUS is authenticated(ANONYMOUS)


def test_unverified() -> None:
    """Such a user is not authenticated, but is not the anonymous one either; its name tells it."""
    user = unverified("header:", "alice")
    assert User("header:alice", ("system:unauthenticated",)) == user
    assert authenticated(user) is user
    assert not user.is_anonymous
    assert user.groups == supposed_groups(user.name, ())
    assert [(), ("dev",)] == [supposed_groups("alice", ()), supposed_groups(user.name, ("dev",))]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        pytest.param(b"/a/b?c=d", "/a/b", b"c=d", id="origin-form"),
        pytest.param(b"/a?b?c", "/a", b"b?c", id="second-question-mark"),
        pytest.param(b"//api/v1?x", "//api/v1", b"x", id="leading-slashes-are-no-authority"),
        pytest.param(b"/a%2Fb%20c+d;e", "/a/b c+d;e", b"", id="escapes-and-nothing-else"),
        pytest.param(b"/a/../b/./c", "/a/../b/./c", b"", id="dot-segments"),
        pytest.param(b"/%c0%af\xe2\x82", "/" + 4 * "\ufffd", b"", id="each-byte-that-is-not-utf-8"),
        pytest.param(b"*", "*", b"", id="asterisk-form"),
        pytest.param(b"http://apf.test?a=b", "", b"a=b", id="absolute-form-query-only"),
        pytest.param(b"HTTP://u:p@apf.test:80/a?b", "/a", b"b", id="absolute-form"),
        pytest.param(b"http://[::1]:80/a", "/a", b"", id="ipv6"),
        pytest.param(b"http://[fe80::1%25en%20]/a", "/a", b"", id="ipv6-zone"),
        pytest.param(b"http://a%C3%A9:/a", "/a", b"", id="escapes-in-host"),
        pytest.param(b"ftp://a:b:1/a", "/a", b"", id="colons-in-hosts-of-other-schemes"),
        pytest.param(b"x:/a/b", "/a/b", b"", id="scheme-without-authority"),
        pytest.param(b"mailto:a@b?c", "", b"c", id="opaque"),
    ],
)
def test_split_target(target: bytes, path: str, query: bytes) -> None:
    raw_path, raw_query = split_target("GET", target)
    assert (path, query) == (decode_path(raw_path), raw_query)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param(b"", "neither a path nor", id="empty"),
        pytest.param(b"1http://a/", "neither a path nor", id="digit-before-scheme"),
        pytest.param(b"/a\x00", "control character", id="nul"),
        pytest.param(b"/a%zz", "percent escape", id="bad-escape"),
        pytest.param(b"/a%2", "percent escape", id="short-escape"),
        pytest.param(b"http://a b/", "authority", id="space-in-host"),
        pytest.param(b"http://a:b/", "authority", id="port-is-no-number"),
        pytest.param(b"http://a:1:2/", "authority", id="two-ports"),
        pytest.param(b"http://::1/", "authority", id="ipv6-without-brackets"),
        pytest.param(b"http://a[::1]/", "authority", id="text-before-bracket"),
        pytest.param(b"http://[::1/", "authority", id="no-closing-bracket"),
        pytest.param(b"http://[::1]x/", "authority", id="text-after-bracket"),
        pytest.param(b"http://[127.0.0.1]/", "authority", id="ipv4-in-brackets"),
        pytest.param(b"http://[::1%25]/", "authority", id="empty-zone"),
        pytest.param(b"http://[::1%25%7f]/", "authority", id="control-character-in-zone"),
        pytest.param(b"http://a{b@c/", "authority", id="bad-user"),
    ],
)
def test_split_target_refuses(target: bytes, message: str) -> None:
    with pytest.raises(AttributesError, match=message):
        decode_path(split_target("GET", target)[0])


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        pytest.param(b"", {}, id="empty"),
        pytest.param(b"a=b&a=c&d", {"a": ("b", "c"), "d": ("",)}, id="repeated-and-bare"),
        pytest.param(b"&&a=b=c&", {"a": ("b=c",)}, id="second-equals-sign"),
        pytest.param(b"%61=b+%2B%26", {"a": ("b +&",)}, id="escapes"),
        pytest.param(b"a;b=c&d=e;f", {}, id="semicolons"),
        pytest.param(b"a=%zz&b%=c&d=%41", {"d": ("A",)}, id="bad-escapes"),
        pytest.param(b"a=%ff", {"a": ("\ufffd",)}, id="not-utf-8"),
        pytest.param(b"=a", {"": ("a",)}, id="empty-key"),
    ],
)
def test_parse_query(query: bytes, parameters: dict[str, tuple[str, ...]]) -> None:
    assert parameters == dict(parse_query(query))


names = st.sampled_from(
    ["limit", "limi%zz", "%6cimi%74", "%6Cimit", "watch", "%57atch", "li", "x", ""]
)
parts = st.sampled_from(["=", "=5", "=%zz", "=%41+", "=a;b", "=\\x41", "=%5c%ff", "", "=a=b"])


@given(st.lists(st.tuples(names, parts).map("".join)).map("&".join))
def test_known_parameters(query: str) -> None:
    parsed = parse_query(query.encode())
    assert known_parameters(query.encode()) == {
        name: parsed[name][:1] for name in KNOWN_PARAMETERS if name in parsed
    }


@given(st.lists(st.tuples(names, parts).map("".join)).map("&".join))
def test_values_of_a_parameter_for_any_server(query: str) -> None:
    """Values that Go reads are among them, and it reads no others unless one may be missing."""
    pattern, read = parameter_pattern("limit"), parse_query(query.encode()).get("limit", ())
    values, may_be_missing = parameter_values(pattern, query.encode())

    assert may_be_missing or values == list(read)
    assert read or may_be_missing
    assert set(read) <= set(values)


def test_what_is_kept_of_queries_is_bounded() -> None:
    for number in [*range(2 * MAX_KNOWN_QUERIES), *range(10)]:
        assert known_parameters(b"limit=%d&a=b" % number) == {"limit": (str(number),)}
    before = len(known_queries)
    assert before <= MAX_KNOWN_QUERIES
    known_parameters(b"limit=7&a=" + b"b" * MAX_KNOWN_QUERY_BYTES)
    assert before == len(known_queries)


VERBS = ("GET", "PUT", "DELETE", "OPTIONS")
PIECES = st.sampled_from([
    b"/", b"//", b"api", b"apis", b"v1", b"watch", b"proxy", b"namespaces", b"pods", b"status",
    b"?", b"&", b"=", b";", b"%", b"%2F", b"%ff", b"watch=true", b"fieldSelector=metadata.name%3Da",
    b"labelSelector=a in (b)", b"limit=1", b"http://", b"[::1]", b"@", b":", b"*", b"..", b"#",
])  # fmt: skip


def members(attributes: RequestAttributes) -> dict[str, object]:
    return vars(attributes)


@pytest.mark.parametrize(
    ("method", "target", "verb", "long_running", "is_mutating"),
    [
        ("GET", b"/api/v1/pods?watch=1", "watch", True, False),
        ("GET", b"/api/v1/proxy/pods/p", "proxy", True, True),
        ("POST", b"/api/v1/namespaces/n/pods/p/exec", "create", True, True),
        ("GET", b"/api/v1/namespaces/n/pods/p/log", "get", True, False),
        ("DELETE", b"/api/v1/pods", "deletecollection", False, True),
        ("FOO", b"/api/v1/pods", "", False, True),
        ("GET", b"/debug/pprof/profile", "get", True, False),
        ("GET", b"/apis/apps/v1", "get", False, False),
    ],
)
def test_verb(method: str, target: bytes, verb: str, long_running: bool, is_mutating: bool) -> None:
    found = parse_attributes(method, target)
    assert (verb, long_running, is_mutating) == (found.verb, found.long_running, found.is_mutating)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (b"/api/v1/watch", "ends after the verb watch"),
        (b"/apis/apps/v1/proxy/", "ends after the verb proxy"),
        (b"/clusters/x/api/v1/watch", "ends after the verb watch"),
    ],
)
def test_targets_that_make_no_sense(target: bytes, message: str) -> None:
    with pytest.raises(AttributesError, match=message):
        parse_attributes("GET", target, BELOW)


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "CONNECT", "foo"]),
    target=st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=12).map(b"".join)),
)
@example(method="GET", target=b"/api/v1/pods?fieldSelector=metadata.name%3D%ff")
@settings(max_examples=300)
def test_any_target_has_attributes_or_is_refused(method: str, target: bytes) -> None:
    try:
        attributes = parse_attributes(method, target)
    except AttributesError:
        return
    assert repr(attributes).encode()
    assert (attributes.verb in {"list", "watch"}) == (attributes.list_options is not None)


def test_group_resource() -> None:
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
            "get apps scales status n s /clusters/x x",
            id="resource",
        ),
        (b"http://h/clusters/x/api/v1/pods?watch=1", "watch - pods - - - /clusters/x x"),
        (b"/clusters/x/api/v1/namespaces/../pods", "list - pods - .. - /clusters/x -"),
        pytest.param(b"/clusters/x", "get - - - - - /clusters/x x", id="the-prefix"),
        pytest.param(b"/y/version", "get - - - - - /y y", id="no-resource"),
        pytest.param(b"/api/v1/pods", "list - pods - - - - -", id="an-api-by-itself"),
        pytest.param(b"/apis/x/v1/y", "list x y - - - - -", id="a-group-by-itself"),
        pytest.param(b"/", "get - - - - - - -", id="no-prefix"),
    ],
)
def test_below_prefixes(target: bytes, expected: str) -> None:
    found = parse_attributes("GET", target, BELOW)
    shown = (
        found.verb,
        found.api_group,
        found.resource,
        found.subresource,
        found.namespace,
        found.name,
        found.path_prefix,
        found.prefix_value,
    )

    assert expected == " ".join(each or "-" for each in shown)
    assert decode_path(split_target("GET", target)[0]) == found.path


SEGMENTS = st.sampled_from(
    ["", "api", "apis", "v1", "apps", "watch", "proxy", "namespaces", "a", "pods", "status", "log"]
)


@given(segments=st.lists(SEGMENTS, min_size=1, max_size=9), method=st.sampled_from(VERBS))
@example(segments=["api", "v1", "namespaces", "a", "pods"], method="GET")
@example(segments=["api", "v1", "namespaces", "a", "status"], method="PUT")
@example(segments=["api", "v1", "", "pods"], method="GET")
@example(segments=["api", "v1", "pods", "", "log"], method="GET")
def test_known_collections_make_no_difference(segments: list[str], method: str) -> None:
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
    for number in range(MAX_COLLECTIONS + 1):
        for name in (str(number), str(number) * MAX_COLLECTION_CHARACTERS):
            parse_attributes("GET", f"/api/v1/namespaces/{name}/pods".encode())
    assert len(_collections) <= MAX_COLLECTIONS
    assert max(map(len, _collections)) <= MAX_COLLECTION_CHARACTERS


PODS = b"/api/v1/pods?"
LONG = 16_384
"""Bytes of a target that are taken by default."""


def calls_for(target: bytes) -> int:
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
        pytest.param(PODS, b"w%61tch=%zz&", b"", id="invalid-escapes"),
        pytest.param(PODS + b"watch=%31", b"%31", b"", id="escapes-of-a-value"),
        pytest.param(b"/api/v1", b"/a", b"", id="segments"),
        pytest.param(b"/", b"%2f", b"", id="escaped-slashes"),
        pytest.param(PODS + b"fieldSelector=", b"a=b,", b"metadata.name=c", id="fields"),
        pytest.param(PODS + b"fieldSelector=metadata.name=", rb"\\\,", b"", id="escaped-commas"),
        (PODS + b"fieldSelector=metadata.name=c&labelSelector=a", b",b=c", b""),
    ],
)
def test_long_targets_take_few_steps(start: bytes, part: bytes, end: bytes) -> None:
    """Thousands of parts of which nothing is made cost no call each."""
    target = start + part * ((LONG - len(start) - len(end)) // len(part)) + end
    assert calls_for(target) < 100


# APIs that are not Kubernetes'.


@pytest.mark.parametrize(
    ("method", "target", "path", "is_mutating"),
    [
        ("GET", b"/api/v1/namespaces/x/pods?watch=1&timeout=soon", "/api/v1/namespaces/x/pods", 0),
        ("OPTIONS", b"*", "*", 0),
        ("POST", b"/apis/apps/v1/deployments", "/apis/apps/v1/deployments", 1),
        ("WATCH", b"http://host/debug/pprof/profile", "/debug/pprof/profile", 1),
    ],
)
def test_plain_method_and_path(method: str, target: bytes, path: str, is_mutating: int) -> None:
    found = plain_attributes(method, target)
    assert (method.lower(), path, is_mutating) == (found.verb, found.path, found.is_mutating)
    assert found.is_plain
    assert not found.is_resource_request
    assert not found.long_running
    assert ("", {}, None) == (found.resource, dict(found.query), found.list_options)


def test_plain_prefixes() -> None:
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
    assert duration_ns == parse_duration_ns(text)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", ".s", "1m30", "1 s", "1d", "--1s", "9999999h", 65 * "0" + "s"]
)
def test_no_durations(text: str) -> None:
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


@pytest.mark.parametrize(
    ("query", "options"),
    [
        pytest.param(b"", NO_OPTIONS, id="none"),
        pytest.param(b"limit=a", NOT_DECODABLE, id="limit-is-no-number"),
        pytest.param(b"timeoutSeconds=", NOT_DECODABLE, id="timeout-is-no-number"),
        pytest.param(b"limit=5&continue=x", ListOptions(limit=5, is_continuation=True), id="page"),
        pytest.param(b"labelSelector=a", ListOptions(has_selector=True), id="labels"),
        pytest.param(b"resourceVersion=0", ListOptions(is_from_cache=True), id="any-version"),
        (b"resourceVersion=5", ListOptions(is_from_cache=True, sends_initial_events=False)),
        (b"resourceVersion=5&limit=1", ListOptions(limit=1, sends_initial_events=False)),
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
    assert options == list_options(parse_query(query))


@pytest.mark.parametrize(
    ("query", "is_watch", "name"),
    [
        pytest.param(b"watch", True, "", id="bare"),
        pytest.param(b"watch=false&watch=true", False, "", id="first-counts"),
        pytest.param(b"watch=1&limit=a&fieldSelector=metadata.name=b", True, "", id="bad-limit"),
        pytest.param(b"watch=fal%C5%BFe", False, "", id="long-s"),
        pytest.param(b"watch=fal%C5%BFe&limit=a", True, "", id="long-s-by-itself"),
        pytest.param(b"fieldSelector=metadata.name=a", False, "a", id="name"),
        (b"fieldSelector=metadata.name=a&labelSelector=b=-", False, ""),
        pytest.param(b"fieldSelector=metadata.name=a%2525", False, "", id="percent"),
    ],
)
def test_watch_and_name(query: bytes, is_watch: bool, name: str) -> None:
    assert (is_watch, name) == watch_and_name(parse_query(query))


def test_required_field() -> None:
    found = {
        query: required_field(parse_query(query), "a")
        for query in (b"", b"fieldSelector=a=b", b"fieldSelector=a=b&timeoutSeconds=x")
    }
    assert ["", "b", ""] == list(found.values())


PREFIXES = PathPrefixes(
    [
        "/clusters/{workspace}",
        "/k8s/clusters/{cluster}",
        "/k8s/clusters/{cluster}/api-proxy",
        "/k8s/clusters/local",
        "/services/v1.0/all",
    ]
)


@pytest.mark.parametrize(
    ("path", "prefix", "value"),
    [
        pytest.param(b"/clusters/root:a/api/v1/pods", b"/clusters/root:a", "root:a", id="below"),
        pytest.param(b"/clusters/a", b"/clusters/a", "a", id="the-prefix-alone"),
        pytest.param(b"/k8s/clusters/c-m-1/v3", b"/k8s/clusters/c-m-1", "c-m-1", id="constants"),
        (b"/k8s/clusters/c/api-proxy/api", b"/k8s/clusters/c/api-proxy", "c"),
        pytest.param(b"/k8s/clusters/c/api-prox", b"/k8s/clusters/c", "c", id="no-whole-segment"),
        pytest.param(b"/k8s/clusters/local/x", b"/k8s/clusters/local", "", id="all-constant"),
        pytest.param(b"/services/v1.0/all/api", b"/services/v1.0/all", "", id="with-a-dot"),
        pytest.param(b"/services/v1x0/all/api", b"", "", id="a-dot-is-no-pattern"),
        pytest.param(b"/c%6Custers/%61%3a/x", b"/c%6Custers/%61%3a", "a:", id="escaped"),
        pytest.param(b"/clusters", b"", "", id="no-variable-part"),
        pytest.param(b"/clusters/", b"", "", id="empty"),
        pytest.param(b"/clusters//api", b"", "", id="empty-before-others"),
        pytest.param(b"/clusters/../api", b"", "", id="dots"),
        pytest.param(b"/clusters/%2e%2E/api", b"", "", id="escaped-dots"),
        pytest.param(b"/clusters/a%2Fb/api", b"", "", id="escaped-slash"),
        pytest.param(b"/clusters%2fa/api", b"", "", id="escaped-slash-before"),
        pytest.param(b"/clusters/a%252e/api", b"", "", id="escaped-twice"),
        pytest.param(b"/clusters/a;b/api", b"", "", id="parameter"),
        pytest.param(b"/clusters/a\\b/api", b"", "", id="backslash"),
        pytest.param(b"/clusters/%c3%a9/api", b"", "", id="not-ascii"),
        pytest.param(b"/clusters/a%00/api", b"", "", id="control-character"),
        pytest.param(b"/x/clusters/a/api", b"", "", id="not-at-the-begin"),
        pytest.param(b"*", b"", "", id="star"),
    ],
)
def test_find(path: bytes, prefix: bytes, value: str) -> None:
    assert (decode_path(prefix), value) == PREFIXES.find(path, decode_path(path))


@pytest.mark.parametrize(
    ("pattern", "is_one"),
    [
        ("/clusters/{workspace}", True),
        ("/{a}", True),
        ("/a/{b1}/c", True),
        ("/a", True),
        ("/a:b/~x", True),
        ("", False),
        ("/", False),
        ("/a/", False),
        ("/a//{b}", False),
        ("/a/{b}/{c}", False),
        ("/a/x{b}", False),
        ("/a/{b", False),
        ("/a/..", False),
        ("/a/*", False),
        ("/a\n", False),
    ],
)
def test_patterns(pattern: str, is_one: bool) -> None:
    assert is_one == bool(PATTERN.fullmatch(pattern))


RULES = RequestRules(
    ("get",), ("console", "vnc"), ("/events", "/feeds/", "/apis/builds.io/v1", "/debug/pprof/")
)
VM = b"/apis/kubevirt.io/v1/namespaces/a/vms/v"


@pytest.mark.parametrize(
    ("method", "target", "why"),
    [
        pytest.param("GET", b"/a", "its verb is get (request.longRunning.verbs)", id="verb"),
        pytest.param("PUT", VM + b"/vnc", "its subresource is vnc", id="subresource"),
        pytest.param("PUT", b"/vnc", "", id="no-subresource"),
        pytest.param("PUT", b"/events", "its path begins with /events", id="path"),
        pytest.param("PUT", b"/events/a?b=c", "its path begins with /events", id="below"),
        pytest.param("PUT", b"/feeds/a", "its path begins with /feeds/", id="only-below"),
        pytest.param("PUT", b"/feeds", "", id="not-itself"),
        pytest.param("PUT", b"/ev%65nts/a", "its path begins with /events", id="escaped"),
        pytest.param("PUT", b"/events/../a", "", id="dots"),
        pytest.param("PUT", b"/events/..;/a", "", id="parameter-of-a-segment"),
        ("PUT", b"/apis/builds.io/v1/x", "its path begins with /apis/builds.io/v1"),
        pytest.param("PUT", b"/api/v1/events/a", "", id="another-resource"),
    ],
)
def test_why(method: str, target: bytes, why: str) -> None:
    found = parse_attributes(method, target, RULES)
    assert found.long_running_by.startswith(why)
    assert bool(why) is found.long_running is bool(found.long_running_by)


def test_what_kubernetes_has() -> None:
    """Its own, and a build of OpenShift, for which its client uploads what is built."""
    build = b"/apis/build.openshift.io/v1/namespaces/a/buildconfigs/b/instantiatebinary"
    assert parse_attributes("POST", build).long_running
    assert ["watch", "proxy"] == list(KUBERNETES.verbs)
    assert ["attach", "exec", "log", "portforward", "proxy", "instantiatebinary"] == list(
        KUBERNETES.subresources
    )
    assert ["/debug/pprof/"] == list(KUBERNETES.path_prefixes)
