"""What tells flows apart by additions."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import LONGEST_VALUE, added_distinguisher, no_header
from apfproxy.objects.additions import Distinguisher, DistinguisherKind
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.rules import RequestRules
from apfproxy.request.user import User

BELOW_CLUSTERS = RequestRules(api_prefixes=["/clusters/{workspace}"])
PODS = parse_attributes("GET", b"/api/v1/pods")
GROUP = Distinguisher(DistinguisherKind.GROUP)
TENANT = Distinguisher(DistinguisherKind.HEADER, "x-tenant")
PATH_PREFIX = Distinguisher(DistinguisherKind.PATH_PREFIX)
USER_AGENT = Distinguisher(DistinguisherKind.USER_AGENT)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param(("system:authenticated", "team-b", "team-a"), "team-b", id="first"),
        pytest.param(("system:unauthenticated",), "", id="nobody"),
        pytest.param((), "", id="none"),
        pytest.param(
            ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"),
            "system:serviceaccounts:ci",
            id="service-account",
        ),
        pytest.param(("system:masters", "system:authenticated"), "system:masters", id="system"),
    ],
)
def test_group(groups: tuple[str, ...], expected: str) -> None:
    """The first group that not everybody has."""
    assert expected == added_distinguisher(GROUP, User("u", groups), PODS, no_header)


@pytest.mark.parametrize(
    ("distinguisher", "headers", "expected"),
    [
        pytest.param(TENANT, {"x-tenant": "blue"}, "blue", id="header"),
        pytest.param(TENANT, {}, "", id="no-header"),
        pytest.param(TENANT, {"x-tenant": "b" * 1000}, "b" * LONGEST_VALUE, id="long-header"),
        pytest.param(TENANT, {"x-tenant": "10.0.0.1, "}, "10.0.0.1", id="unfinished-list"),
        pytest.param(TENANT, {"x-tenant": "\udcff\u00e9"}, "\ufffd\u00e9", id="no-unicode"),
        pytest.param(USER_AGENT, {"user-agent": "\udcff/1"}, "\ufffd", id="no-unicode-either"),
        pytest.param(
            USER_AGENT,
            {"user-agent": "kubectl/v1.36.0 (linux/amd64) kubernetes/abc"},
            "kubectl",
            id="program",
        ),
        pytest.param(USER_AGENT, {"user-agent": "Go-http-client"}, "Go-http-client", id="bare"),
        pytest.param(USER_AGENT, {"user-agent": "/"}, "", id="no-program"),
        pytest.param(USER_AGENT, {}, "", id="no-user-agent"),
        pytest.param(USER_AGENT, {"user-agent": "a" * 200}, "a" * LONGEST_VALUE, id="long-name"),
    ],
)
def test_headers(distinguisher: Distinguisher, headers: dict[str, str], expected: str) -> None:
    """The value of a header, or the program that User-Agent names; both bounded."""
    user = User("u", ())

    assert expected == added_distinguisher(
        distinguisher, user, PODS, lambda name: headers.get(name, "")
    )


def test_whoever_knows_no_headers() -> None:
    """All requests are of one flow then."""
    assert "" == added_distinguisher(TENANT, User("u", ()), PODS, no_header)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(b"/clusters/root:a/api/v1/pods", "root:a", id="below"),
        pytest.param(b"/clusters/root:a/version", "root:a", id="no-resource"),
        pytest.param(b"/clusters/a/api/v1/namespaces/../../b/x", "", id="may-lead-elsewhere"),
        pytest.param(b"/api/v1/pods", "", id="elsewhere"),
        pytest.param(b"/clusters/" + b"a" * 1000 + b"/api", "a" * LONGEST_VALUE, id="long"),
    ],
)
def test_path_prefix(path: bytes, expected: str) -> None:
    """The variable part of the prefix that a path has, bounded."""
    attributes = parse_attributes("GET", path, BELOW_CLUSTERS)

    assert expected == added_distinguisher(PATH_PREFIX, User("u", ()), attributes, no_header)
