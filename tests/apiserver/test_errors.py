"""Tests of failures as Status objects."""

from __future__ import annotations

from apfproxy.apiserver.errors import (
    MOST_CAUSES,
    StatusError,
    bad_request,
    conflict,
    invalid,
    no_name_left,
    not_found,
)
from apfproxy.objects.field_errors import invalid as invalid_field
from apfproxy.objects.field_errors import required


def test_status() -> None:
    """The object says what, why and about which object, and leaves out what is empty."""
    expected = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "kind": "pods"},
        "code": 404,
    }

    assert expected == not_found("", "pods", "a").status()


def test_bad_request_has_no_details() -> None:
    """A request that cannot be understood is about no object."""
    assert "details" not in bad_request("no").status()


def test_retry_after_is_in_the_details() -> None:
    """Clients read it there or in the header."""
    error = StatusError(429, "TooManyRequests", "wait", retry_after_s=10)

    assert {"retryAfterSeconds": 10} == error.status()["details"]


def test_conflict_names_the_group() -> None:
    """The message has the resource with its group, the details have them apart."""
    error = conflict("g.io", "things", "a", "it changed")

    assert error.message == 'Operation cannot be fulfilled on things.g.io "a": it changed'
    assert {"name": "a", "group": "g.io", "kind": "things"} == error.details


def test_invalid_lists_all_causes() -> None:
    """Two errors are shown in brackets, and each is a cause."""
    error = invalid("", "Pod", "a", [required("spec.x", "why"), invalid_field("spec.y", 1, "no")])

    assert (
        'Pod "a" is invalid: [spec.x: Required value: why, spec.y: Invalid value: 1: no]'
        == error.message
    )
    assert ["spec.x", "spec.y"] == [cause["field"] for cause in error.status()["details"]["causes"]]


def test_invalid_with_one_cause_has_no_brackets() -> None:
    """A single error stands alone."""
    assert (
        'Pod "a" is invalid: spec.x: Required value'
        == invalid("", "Pod", "a", [required("spec.x")]).message
    )


def test_no_name_left() -> None:
    """Clients whose name is generated may try again."""
    status = no_name_left("g", "things", "t-1").status()

    assert {"name": "t-1", "group": "g", "kind": "things", "retryAfterSeconds": 1} == (
        status["details"]
    )
    assert "AlreadyExists" == status["reason"]


def test_very_many_causes() -> None:
    """Not all are told where there are too many."""
    error = invalid("", "Pod", "a", [required("spec.x")] * (MOST_CAUSES + 2))

    assert error.message.endswith("spec.x: Required value, and 2 more]")
    assert MOST_CAUSES == len(error.status()["details"]["causes"])
