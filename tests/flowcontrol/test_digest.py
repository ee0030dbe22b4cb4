"""What an object comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.flowcontrol.controller import Checked
from apfproxy.objects.additions import REQUEST_RATE
from apfproxy.objects.types import stable_uid
from loadtest.objects import flow_schema, user_subject

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowSchema


def limited_to(rate: str) -> FlowSchema:
    """A FlowSchema with an addition."""
    schema = flow_schema("s", "a", user_subject("u"))
    metadata = replace(schema.metadata, annotations={REQUEST_RATE: rate})
    return replace(schema, metadata=metadata)


def test_an_object_that_counts() -> None:
    """It has its uid and its additions."""
    given = limited_to("5")
    checked = Checked(given)

    assert () == checked.unused
    assert stable_uid(given) == checked.uid
    assert 5 == checked.additions.request_rate


def test_additions_that_do_not_count() -> None:
    """The object counts without them."""
    checked = Checked(limited_to("x"))

    assert [REQUEST_RATE in line for line in checked.unused] == [True]


def test_equal_objects_come_to_the_same() -> None:
    """The very same object, or an equal one, need not be checked again; another has to."""
    given = flow_schema("s", "a", user_subject("u"))
    checked = Checked(given)

    assert checked.is_of(given)
    assert checked.is_of(flow_schema("s", "a", user_subject("u")))
    assert not checked.is_of(flow_schema("s", "a", user_subject("v")))
