"""Tests of failures as Status objects, beside the recorded requests."""

from __future__ import annotations

from apfproxy.apiserver.errors import MOST_CAUSES, StatusError, already_exists, invalid
from apfproxy.objects.field_errors import required


def test_retry_after_is_in_the_details() -> None:
    """Clients read it there or in the header."""
    error = StatusError(429, "TooManyRequests", "wait", retry_after_s=10)
    details = already_exists("g", "things", "t-1", is_generated=True).status()["details"]

    assert {"retryAfterSeconds": 10} == error.status()["details"]
    assert {"name": "t-1", "group": "g", "kind": "things", "retryAfterSeconds": 1} == details


def test_very_many_causes() -> None:
    """Not all are told where there are too many."""
    error = invalid("", "Pod", "a", [required("spec.x")] * (MOST_CAUSES + 2))

    assert error.message.endswith("spec.x: Required value, and 2 more]")
    assert MOST_CAUSES == len(error.status()["details"]["causes"])
