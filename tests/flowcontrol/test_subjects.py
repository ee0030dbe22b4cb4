"""Whom subjects are, by themselves and in an index."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.rule_index import Subjects
from apfproxy.objects.types import ServiceAccountSubject, Subject
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from loadtest.objects import flow_schema, group_subject, user_subject

ALICE = User("alice", ("ops", "system:authenticated"))
ROBOT = User("system:serviceaccount:team-a:robot", ("system:serviceaccounts",))
ROOT = parse_attributes("GET", b"/")


def service_account(namespace: str, name: str) -> Subject:
    """A subject that is a service account."""
    return Subject(
        kind="ServiceAccount",
        service_account=ServiceAccountSubject(namespace=namespace, name=name),
    )


def matches(subject: Subject, user: User) -> bool:
    """Whether a subject is a user; an index says the same."""
    found = Subjects([subject]).match(user)
    chosen = Classifier([flow_schema("s", "level", subject)]).classify(user, ROOT)

    assert found == (chosen is not None)
    return found


@pytest.mark.parametrize(
    ("subject", "is_match"),
    [
        pytest.param(user_subject("*"), True, id="every-user"),
        pytest.param(user_subject("alice"), True, id="the-user"),
        pytest.param(user_subject("bob"), False, id="another-user"),
        pytest.param(group_subject("*"), True, id="every-group"),
        pytest.param(group_subject("ops"), True, id="the-group"),
        pytest.param(group_subject("alice"), False, id="no-group"),
        pytest.param(service_account("alice", "*"), False, id="service-account"),
        pytest.param(Subject(kind="User"), False, id="user-missing"),
        pytest.param(Subject(kind="Group"), False, id="group-missing"),
        pytest.param(Subject(kind="ServiceAccount"), False, id="service-account-missing"),
    ],
)
def test_users_and_groups(subject: Subject, is_match: bool) -> None:
    """A user matches by name or by any group."""
    assert is_match == matches(subject, ALICE)


@pytest.mark.parametrize(
    ("subject", "is_match"),
    [
        pytest.param(service_account("team-a", "robot"), True, id="the-one"),
        pytest.param(service_account("team-a", "*"), True, id="all-of-the-namespace"),
        pytest.param(service_account("team-a", "rob"), False, id="beginning-of-the-name"),
        pytest.param(service_account("team", "*"), False, id="beginning-of-the-namespace"),
        pytest.param(user_subject(ROBOT.name), True, id="as-a-user"),
        pytest.param(user_subject("alice"), False, id="no-user"),
    ],
)
def test_service_accounts(subject: Subject, is_match: bool) -> None:
    """A service account is a user with a name of its own form."""
    assert is_match == matches(subject, ROBOT)


def test_several() -> None:
    """One of them is enough, and none is nobody."""
    both = Subjects([user_subject("bob"), group_subject("ops")])

    assert both.match(ALICE)
    assert not both.match(ROBOT)
    assert not Subjects([]).match(ALICE)
