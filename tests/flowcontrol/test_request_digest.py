"""Tests of apfproxy.flowcontrol.request_digest."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.flowcontrol.passage import RequestDigest
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import ANONYMOUS


@pytest.mark.parametrize(
    ("target", "is_watch", "is_long_running", "takes_seats"),
    [
        pytest.param(b"/api/v1/pods", False, False, True, id="list"),
        pytest.param(b"/api/v1/pods?watch=1", True, True, True, id="watch"),
        pytest.param(b"/api/v1/namespaces/a/pods/b/log", False, True, False, id="log"),
    ],
)
def test_what_is_asked(
    target: bytes, is_watch: bool, is_long_running: bool, takes_seats: bool
) -> None:
    """The attributes say whether a request takes seats, and whether it may last."""
    digest = RequestDigest(
        ANONYMOUS, parse_attributes("GET", target), 1, KindMeter(0).kinds[False], None
    )

    assert (is_watch, is_long_running, takes_seats, "") == (
        digest.is_watch,
        digest.is_long_running,
        digest.takes_seats,
        digest.header("X-Tenant"),
    )
