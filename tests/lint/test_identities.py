"""Which sets of users hold which, and which meet."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import Subjects
from apfproxy.lint.identities import (
    AUTHENTICATED,
    EVERYBODY,
    UNAUTHENTICATED,
    Identity,
    Who,
    account_namespace,
    can_meet,
    holders,
    identities,
)
from apfproxy.objects.types import ServiceAccountSubject, Subject
from loadtest.objects import group_subject, user_subject

ALICE = Identity(Who.USER, "alice")
BOB = Identity(Who.USER, "bob")
DEVS = Identity(Who.GROUP, "devs")
OPS = Identity(Who.GROUP, "ops")
BUILDER = Identity(Who.USER, "system:serviceaccount:ci:builder")
CI = Identity(Who.USER_PREFIX, "system:serviceaccount:ci:")
OTHERS = Identity(Who.USER_PREFIX, "system:serviceaccount:other:")
ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts")
CI_ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts:ci")
ANONYMOUS = Identity(Who.USER, "system:anonymous")


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
    assert identities(Subjects([*subjects, user_subject("*")])) == [EVERYBODY]


@pytest.mark.parametrize(
    ("identity", "always", "with_groups"),
    [
        pytest.param(ALICE, set(), {AUTHENTICATED}, id="user"),
        pytest.param(DEVS, set(), {AUTHENTICATED}, id="group"),
        pytest.param(ANONYMOUS, set(), {UNAUTHENTICATED}, id="anonymous"),
        pytest.param(
            Identity(Who.USER, "header:al"), set(), {UNAUTHENTICATED}, id="unverified-name"
        ),
        pytest.param(UNAUTHENTICATED, set(), set(), id="unauthenticated"),
        pytest.param(AUTHENTICATED, set(), set(), id="authenticated"),
        pytest.param(EVERYBODY, set(), set(), id="everybody"),
        pytest.param(BUILDER, {CI}, {CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="account"),
        pytest.param(CI, set(), {CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="accounts"),
        pytest.param(CI_ACCOUNTS, set(), {ACCOUNTS, AUTHENTICATED}, id="group-of-accounts"),
    ],
)
def test_holders(identity: Identity, always: set[Identity], with_groups: set[Identity]) -> None:
    """What holds a set in any case, and what if everybody has the usual groups."""
    always = {identity, EVERYBODY} | always

    assert set(holders(identity, with_groups=False)) == always
    assert set(holders(identity, with_groups=True)) == always | with_groups


@pytest.mark.parametrize(
    ("identity", "namespace"),
    [
        pytest.param(BUILDER, "ci", id="account"),
        pytest.param(CI, "ci", id="accounts"),
        pytest.param(ALICE, "", id="user"),
        pytest.param(CI_ACCOUNTS, "", id="group"),
        pytest.param(Identity(Who.USER, "system:serviceaccount:ci"), "", id="half-a-name"),
    ],
)
def test_account_namespace(identity: Identity, namespace: str) -> None:
    """Only users can be service accounts, and those by their whole name."""
    assert namespace == account_namespace(identity)


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
        pytest.param(ALICE, EVERYBODY, True, id="everybody"),
        pytest.param(CI, DEVS, True, id="accounts-and-group"),
    ],
)
def test_can_meet(*, one: Identity, other: Identity, expected: bool) -> None:
    """Everybody has one name and any groups, and the answer does not depend on the order."""
    assert (expected, expected) == (can_meet(one, other), can_meet(other, one))
