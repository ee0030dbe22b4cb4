"""What flow control is told of requests that nobody sends."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.request.attributes import User
from apfproxy.simulation.kinds import kind_of
from apfproxy.simulation.simulated_digest import SimulatedDigest


@pytest.mark.parametrize(("name", "value"), [("A-b", "1"), ("a-B", "1"), ("c", "")])
def test_headers(name: str, value: str) -> None:
    """They are found in any case of letters."""
    kind = kind_of("u", User("u", ()), "GET", "/api", 0, (("a-b", "1"),))
    digest = SimulatedDigest(kind, KindMeter(0).kinds[False], None)

    assert value == digest.header(name)
    assert (kind.user, kind.attributes) == (digest.user, digest.attributes)
