"""What is wrong with a fleet, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.live_state import fleet_json
from apfproxy.admin.verdict import fleet_findings, seats_here, verdict
from tests.admin.test_verdict import problem, state
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView

SELF = member("a", is_self=True)
RECORD = "the fleet's record"
REFUSED = "redis://10.0.0.5:6379: connection refused; this member uses its safe share, 120 seats"
WORKERS = "the parent process"


@pytest.mark.parametrize(
    ("view", "severity", "text"),
    [
        pytest.param(
            fleet(state="joining", age_s=None, claim=0, in_force=0),
            "warning",
            f"{RECORD} has not been written: the proxy uses 0 of 600 seats",
            id="joining",
        ),
        pytest.param(
            fleet(state="partitioned", problem=REFUSED, age_s=40.0, in_force=120),
            "warning",
            f"{RECORD} has not been written for 40 s: {REFUSED}",
            id="away",
        ),
        pytest.param(
            fleet(problem="no answer", age_s=2.4, store=WORKERS),
            "warning",
            "the workers' record has not been written for 2 s: no answer",
            id="workers-away",
        ),
        pytest.param(
            fleet(SELF, member("b", age_s=4.1), member("c", 100, age_s=4.9)),
            "warning",
            "nothing is heard of b for 4 s, c for 4 s: 300 seats may be idle until their leases"
            " end",
            id="silent",
        ),
        pytest.param(
            fleet(lost=2, lost_age_s=20.0),
            "note",
            "the lease of a member of the fleet ended 20 s ago: it was killed, hangs or lost the"
            " store; the others share its seats",
            id="lost",
        ),
        pytest.param(
            fleet(lost=2, lost_age_s=20.0, store=WORKERS),
            "note",
            "the lease of a worker ended 20 s ago: it was killed, hangs or lost the store; the"
            " others share its seats",
            id="lost-worker",
        ),
    ],
)
def test_findings(view: FleetView, severity: str, text: str) -> None:
    """Each has its sentence, which the live page has as well."""
    said = {"severity": severity, "text": text}

    assert [(severity, text)] == fleet_findings(fleet_json(view))
    assert said in verdict(state(fleet=fleet_json(view)), 0.0)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(fleet(), id="well"),
        pytest.param(fleet(claims=600), id="all-claimed"),
        pytest.param(fleet(lost=1, lost_age_s=301.0), id="lost-long-ago"),
        pytest.param(fleet(member("a", is_self=True, age_s=9.0)), id="own-age"),
    ],
)
def test_nothing(view: FleetView) -> None:
    """What is well has none."""
    assert [] == fleet_findings(fleet_json(view))


def test_away_is_said_once() -> None:
    """While the record cannot be read, nobody is called silent, and the check says no more."""
    view = fleet(SELF, member("b", age_s=60.0), problem="no answer", age_s=60.0, lost_age_s=9.0)
    judged = state(fleet=fleet_json(view), problems=[problem("fleet", "no answer")])

    assert [("warning", f"{RECORD} has not been written for 60 s: no answer")] == [
        (each["severity"], each["text"]) for each in verdict(judged, 0.0)
    ]


def test_seats_here() -> None:
    """Those of a member are what is in force, not what all share."""
    assert (40, 200) == (seats_here(state()), seats_here(state(fleet=fleet_json(fleet()))))
