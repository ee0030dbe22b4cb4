"""Which sets of requests hold which, and which meet, judged by rules tried one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.classifier import Subjects
from apfproxy.flowcontrol.mismatch import match_url
from apfproxy.lint.reachability import (
    ALL_USERS,
    AUTHENTICATED,
    MOST_PARTS,
    UNAUTHENTICATED,
    Identity,
    Kind,
    RequestSet,
    Who,
    can_meet,
    holders,
    identities,
    resource_requests,
    url_holds,
    url_requests,
    urls_meet,
)
from apfproxy.objects.types import (
    NonResourcePolicyRule,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from loadtest.objects import group_subject, user_subject
from tests.flowcontrol.plain_walk import resource_rule_matches, url_rule_matches
from tests.lint.configurations import REQUESTS, resource_rules, url_rules

URLS = ("*", "/", "/*", "/a", "/a/", "/a/*", "/a/b", "/a/b/*", "/ab", "/a/..", "/a/../b/*", "/a/.b")
PATHS = (
    *(url for url in URLS if url != "*"),
    "",
    "*",
    "/a/b/c",
    "/a/../b",
    "/a/../b/c",
    "/a/./b",
    "/a/../*",
    "/a/b/..",
    "/abc",
    "/b",
)


def paths_of(url: str) -> set[str]:
    """The paths that a URL of a rule matches."""
    return {path for path in PATHS if match_url((url,), path)}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("other", URLS)
def test_urls(url: str, other: str) -> None:
    """Of URLs what is told is so for every path, and what holds another meets it."""
    if url_holds(url, other):
        assert paths_of(other) - paths_of(url) == set()
        assert urls_meet(url, other)
    if paths_of(url) & paths_of(other):
        assert urls_meet(url, other)


@pytest.mark.parametrize(
    ("url", "other", "expected"),
    [
        pytest.param("*", "/a", True, id="all"),
        pytest.param("/a", "/a/*", True, id="below"),
        pytest.param("/a/*", "/a", False, id="not-the-path-itself"),
        pytest.param("/", "*", False, id="what-is-no-path"),
        pytest.param("/", "/a/../b", True, id="dots-below-the-root"),
        pytest.param("/a", "/a/../b", False, id="dots-elsewhere"),
    ],
)
def test_url_holds(*, url: str, other: str, expected: bool) -> None:
    """It is told where it is so."""
    assert expected == url_holds(url, other)


def sets_of(rule: ResourcePolicyRule | NonResourcePolicyRule) -> list[RequestSet]:
    """What a rule matches."""
    if isinstance(rule, ResourcePolicyRule):
        return list(resource_requests(rule))
    return [url_requests(rule)]


def matched(rule: ResourcePolicyRule | NonResourcePolicyRule) -> set[int]:
    """Numbers of the requests that a rule matches."""
    found = set()
    for number, request in enumerate(REQUESTS):
        if isinstance(rule, ResourcePolicyRule):
            is_matched = request.is_resource_request and resource_rule_matches(rule, request)
        else:
            is_matched = not request.is_resource_request and url_rule_matches(rule, request)
        if is_matched:
            found.add(number)
    return found


any_rule = st.one_of(resource_rules, url_rules)


@given(rule=any_rule, other=any_rule)
def test_sets(
    rule: ResourcePolicyRule | NonResourcePolicyRule,
    other: ResourcePolicyRule | NonResourcePolicyRule,
) -> None:
    """What is held is matched, and what has a request in common meets."""
    holds = all(
        any(larger.kind is each.kind and larger.holds(part) for larger in sets_of(rule))
        for each in sets_of(other)
        for part in each.parts() or ()
    )
    meets = any(one.can_meet(each) for one in sets_of(rule) for each in sets_of(other))

    assert not holds or matched(other) <= matched(rule)
    assert meets or not matched(rule) & matched(other)


@given(rule=any_rule, other=any_rule)
def test_holds_all(
    rule: ResourcePolicyRule | NonResourcePolicyRule,
    other: ResourcePolicyRule | NonResourcePolicyRule,
) -> None:
    """A set holds another as a whole if it holds each of its parts."""
    pairs = [
        (one, each) for one in sets_of(rule) for each in sets_of(other) if one.kind is each.kind
    ]

    assert [all(map(one.holds, each.parts() or ())) for one, each in pairs] == [
        one.holds(each) for one, each in pairs
    ]


def test_most_parts() -> None:
    """A set of too many parts is not cut into them."""
    many = frozenset(f"v{number}" for number in range(MOST_PARTS))
    requests = RequestSet(Kind.URL, (many, frozenset(("/a",))))

    assert (MOST_PARTS, None) == (
        len(requests.parts() or ()),
        RequestSet(Kind.URL, (many, frozenset(("/a", "/b")))).parts(),
    )


ALICE = Identity(Who.USER, "alice")
BOB = Identity(Who.USER, "bob")
DEVS = Identity(Who.GROUP, "devs")
OPS = Identity(Who.GROUP, "ops")
BUILDER = Identity(Who.USER, "system:serviceaccount:ci:builder")
CI = Identity(Who.USER_PREFIX, "system:serviceaccount:ci:")
OTHERS = Identity(Who.USER_PREFIX, "system:serviceaccount:other:")
ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts")
CI_ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts:ci")


def test_identities() -> None:
    """Each subject of a rule is one set, and everybody is one alone."""
    accounts = ServiceAccountSubject(namespace="ci", name="*")
    subjects = [
        group_subject("devs"),
        user_subject("bob"),
        user_subject("alice"),
        Subject(kind="ServiceAccount", service_account=accounts),
    ]

    assert identities(Subjects(subjects)) == [ALICE, BOB, DEVS, CI]
    assert identities(Subjects([*subjects, user_subject("*")])) == [ALL_USERS]


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        pytest.param(ALICE, {AUTHENTICATED}, id="user"),
        pytest.param(DEVS, {AUTHENTICATED}, id="group"),
        pytest.param(Identity(Who.USER, "system:anonymous"), {UNAUTHENTICATED}, id="anonymous"),
        pytest.param(Identity(Who.USER, "header:al"), {UNAUTHENTICATED}, id="unverified-name"),
        pytest.param(UNAUTHENTICATED, set(), id="unauthenticated"),
        pytest.param(AUTHENTICATED, set(), id="authenticated"),
        pytest.param(ALL_USERS, set(), id="everybody"),
        pytest.param(BUILDER, {CI, CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="account"),
        pytest.param(CI, {CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="accounts"),
        pytest.param(CI_ACCOUNTS, {ACCOUNTS, AUTHENTICATED}, id="group-of-accounts"),
        pytest.param(Identity(Who.USER, "system:serviceaccount:ci"), {AUTHENTICATED}, id="half"),
    ],
)
def test_holders(identity: Identity, expected: set[Identity]) -> None:
    """Sets that hold another, by the groups that authentication gives."""
    assert set(holders(identity)) == {identity, ALL_USERS} | expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(ALICE, ALICE, True, id="one-user"),
        pytest.param(ALICE, BOB, False, id="two-users"),
        pytest.param(ALICE, DEVS, True, id="user-and-group"),
        pytest.param(DEVS, OPS, True, id="two-groups"),
        pytest.param(AUTHENTICATED, UNAUTHENTICATED, False, id="known-and-not"),
        pytest.param(BUILDER, CI, True, id="account-of-the-namespace"),
        pytest.param(BUILDER, OTHERS, False, id="account-of-another-namespace"),
        pytest.param(CI, CI, True, id="one-namespace"),
        pytest.param(CI, OTHERS, False, id="two-namespaces"),
        pytest.param(ALICE, ALL_USERS, True, id="everybody"),
        pytest.param(CI, DEVS, True, id="accounts-and-group"),
    ],
)
def test_can_meet(*, one: Identity, other: Identity, expected: bool) -> None:
    """Everybody has one name and any groups, and the answer does not depend on the order."""
    assert (expected, expected) == (can_meet(one, other), can_meet(other, one))
