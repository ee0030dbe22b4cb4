"""What targets say, and the requests that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.base.bounded_cache import MemoryBudget
from apfproxy.http.head_error import HeadError
from apfproxy.http.request_fields import FieldRules, UpstreamHosts
from apfproxy.http.request_head import HeadLimits, HeadParser, RequestHead
from apfproxy.settings import AuthenticationSettings

if TYPE_CHECKING:
    from apfproxy.proxy.request import Request
    from tests.proxy.fakes import Bench


def parse(line: bytes) -> RequestHead:
    """The head with a line."""
    names = CredentialRules.of(AuthenticationSettings())
    parser = HeadParser(
        HeadLimits(9, 9999), FieldRules(UpstreamHosts(b"o", b""), names), MemoryBudget(0)
    )
    return parser.parse(line + b" HTTP/1.1\r\nHost: h\r\n\r\n", [])


def prepare(bench: Bench, line: bytes) -> Request:
    """The request that a line makes."""
    return bench.targets.request_of(parse(line))


@pytest.mark.parametrize(
    ("line", "verb", "is_watch", "takes_seats", "is_fixed"),
    [
        pytest.param(b"GET /api/v1/pods/a", "get", False, True, True, id="get"),
        pytest.param(b"GET /api/v1/pods", "list", False, True, False, id="list"),
        pytest.param(b"POST /api/v1/namespaces/a/pods", "create", False, True, False, id="create"),
        pytest.param(
            b"GET /api/v1/pods?watch=1&resourceVersion=5", "watch", True, True, True, id="watch"
        ),
        pytest.param(
            b"GET /api/v1/pods?watch=1&sendInitialEvents=1", "watch", True, True, False, id="stream"
        ),
        pytest.param(b"GET /api/v1/watch/pods", "watch", True, True, False, id="deprecated-watch"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/log", "get", False, False, True, id="log"),
        pytest.param(
            b"POST /api/v1/namespaces/a/pods/b/exec", "create", False, False, False, id="exec"
        ),
        pytest.param(b"GET /healthz", "get", False, True, True, id="other-path"),
        pytest.param(b"GET /debug/pprof/profile", "get", False, False, True, id="profile"),
    ],
)
def test_prepares(
    bench: Bench, line: bytes, verb: str, is_watch: bool, takes_seats: bool, is_fixed: bool
) -> None:
    """The target says what is asked, and whether it takes seats and how many."""
    request = prepare(bench, line)

    assert verb == request.attributes.verb
    assert (is_watch, takes_seats) == (request.is_watch, request.takes_seats)
    assert is_fixed == (request.fixed_estimate is not None)


@pytest.mark.parametrize(
    ("line", "timeout_s", "wait_limit_s"),
    [
        pytest.param(b"GET /", 60, 15, id="default"),
        pytest.param(b"GET /api/v1/pods?timeout=20s", 20, 5, id="shorter"),
        pytest.param(b"GET /api/v1/pods?timeout=20m", 60, 15, id="longer-than-allowed"),
    ],
)
def test_times(bench: Bench, line: bytes, timeout_s: int, wait_limit_s: int) -> None:
    """A request may wait for a quarter of its time."""
    request = prepare(bench, line)

    assert (timeout_s * 10**9, wait_limit_s * 10**9) == (
        request.timeout_ns,
        bench.flow_control.classify(request).level.longest_wait_ns(request.timeout_ns),
    )


def test_wait_limit_is_a_minute_at_most(bench: Bench) -> None:
    """However long the request may take."""
    level = bench.flow_control.classify(prepare(bench, b"GET /")).level

    assert 60 * 10**9 == level.longest_wait_ns(3600 * 10**9)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"GET /%zz", id="escape"),
        pytest.param(b"GET /api/v1/watch", id="nothing-to-watch"),
        pytest.param(b"GET /api/v1/watch/", id="nothing-to-watch-before-a-slash"),
        pytest.param(b"DELETE /apis/apps/v1/proxy", id="nothing-to-proxy"),
        pytest.param(b"GET /api/v1/pods?timeout=x", id="timeout"),
    ],
)
def test_refuses(bench: Bench, line: bytes) -> None:
    """What Kubernetes would not understand is refused as it refuses it, each time."""
    for _ in range(2):
        with pytest.raises(HeadError) as refused:
            bench.targets.request_of(parse(line))
        assert 400 == refused.value.code


@pytest.mark.parametrize(
    ("line", "has_headers"),
    [
        pytest.param(b"GET /api/v1/namespaces/a/pods/b", True, id="get"),
        pytest.param(b"GET /api/v1/pods?watch=1", True, id="watch"),
        pytest.param(b"POST /api/v1/namespaces/a/pods/b/exec", False, id="exec"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/attach", False, id="attach"),
        pytest.param(b"POST /api/v1/namespaces/a/pods/b/portforward", False, id="port-forward"),
        pytest.param(b"GET /api/v1/nodes/a/proxy/metrics", False, id="proxy"),
        pytest.param(b"GET /api/v1/namespaces/a/pods/b/log?follow=1", False, id="log"),
    ],
)
def test_long_running_requests_name_no_class(bench: Bench, line: bytes, has_headers: bool) -> None:
    """Those that take no seats are none of flow control's, as in kube-apiserver."""
    request = prepare(bench, line)
    lines = request.class_lines(bench.flow_control.classify(request))

    assert has_headers == (b"X-Kubernetes-PF-" in lines)


def test_classifies_once_per_configuration(bench: Bench) -> None:
    """A class is kept with its head until the configuration changes."""
    request = prepare(bench, b"GET /refusing")
    found = bench.flow_control.classify(request)
    assert found is bench.flow_control.classify(request)
    assert "refusing" == found.level.name
    uid = found.priority_level_uid.encode()
    expected = (
        b"X-Kubernetes-PF-FlowSchema-UID: schema-uid\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: " + uid + b"\r\n"
    )
    assert expected == request.class_lines(found)
    bench.controller.commit(bench.controller.digest([]))

    other = bench.flow_control.classify(request)
    assert "catch-all" == other.level.name
    assert other.priority_level_uid.encode() in request.class_lines(other)


def test_no_uid_ends_a_header_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a uid is from, it stays within its line, as visible ASCII."""
    request = prepare(bench, b"GET /refusing")
    found = bench.controller.classify(request.user, request.attributes, request.header)
    found.flow_schema_uid, found.priority_level_uid = "a\r\nX-Evil: 1", "\ud800\0\u00fc \x85z"
    monkeypatch.setattr(type(bench.controller), "classify", lambda *_: found)
    assert request.class_lines(bench.flow_control.classify(request)) == (
        b"X-Kubernetes-PF-FlowSchema-UID: a__X-Evil:_1\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: _____z\r\n"
    )


def test_estimates_by_what_is_known_now(bench: Bench) -> None:
    """More objects, more seats, up to what the level allows."""
    request = prepare(bench, b"GET /api/v1/pods")
    found = bench.flow_control.classify(request)
    first = bench.flow_control.foreseen_estimate(request, found)
    bench.costs.set_object_counts({"pods": 10_000_000}, bench.clock.now_ns())

    second = bench.flow_control.foreseen_estimate(request, found)
    assert (1, found.level.max_seats) == (first.initial_seats, second.initial_seats)


def test_shows_itself(bench: Bench) -> None:
    """A log can read what makes requests."""
    assert "<Targets of <FlowControl enforced>>" == repr(bench.targets)
