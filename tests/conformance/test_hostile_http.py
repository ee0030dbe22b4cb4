"""Hostile and awkward HTTP through a whole proxy, judged by what comes out on both sides.

Each case has a proxy and an upstream of its own.  Cases about identity are in
`test_hostile_identity`; those that take more than one connection and a script are in `ELSEWHERE`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from apfproxy.settings import DrainSettings, LimitSettings
from tests.conformance import test_hostile_identity, vectors
from tests.conformance.hostile.judgement import complaint
from tests.conformance.hostile.play import QUIET_S, Play
from tests.conformance.hostile.script import Case, unknown_macro
from tests.end_to_end.http2_peer import HTTP2
from tests.end_to_end.scene import (
    NARROW,
    REJECTING,
    Setup,
    on_uvloop,
    running,
)

TESTS = Path(__file__).parents[1]

SCENARIOS = {
    "a body limit of 1 MiB is set": replace(
        Setup(),
        downstream=structs.replace(
            Setup().downstream, limits=LimitSettings(max_connections=300, max_body_bytes=1 << 20)
        ),
    ),
    "apf-queued": Setup(objects=NARROW, seats=1),
    "apf-reject": Setup(objects=REJECTING, seats=1),
    "upstream-idle-close": Setup(),
}
ELSEWHERE = {
    "HH-16": "conformance/test_hostile_identity.py::test_hh_16",
    "ID-22": "conformance/test_hostile_identity.py::test_id_22",
    "LI-09": "end_to_end/test_limits.py::test_li_09",
    "LI-13": "end_to_end/test_limits.py::test_li_13",
}
"""Tests of cases that a script cannot play."""
OF_HTTP_1 = {"HH-01", "HH-05", "HH-06", "RT-03", "RT-09", "RT-18", "RT-21", "RT-22", "RT-23"}
"""Cases that HTTP/2 cannot express, or refuses in another way."""
PLAYED_HERE = [
    case
    for case in vectors.load("hostile_http")
    if case["id"] not in ELSEWHERE and case["id"] not in test_hostile_identity.OUTCOMES
]


OVER_HTTP2 = [
    case
    for case in PLAYED_HERE
    if case["group"] in {"HH", "PC", "RS", "RT", "SE"} and case["id"] not in OF_HTTP_1
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in PLAYED_HERE])
@on_uvloop
async def test_hostile_http(case: Case) -> None:
    await play(case)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in OVER_HTTP2])
@pytest.mark.parametrize("protocol", [HTTP2], indirect=True)
@pytest.mark.usefixtures("protocol")
@on_uvloop
async def test_over_http2(case: Case) -> None:
    await play(case)


async def play(case: Case) -> None:
    setup = replace(
        SCENARIOS[case.get("scenario", "upstream-idle-close")],
        drain=DrainSettings(shutdown_delay_s=2 * QUIET_S),
    )
    async with running(setup) as scene:
        played = Play(case, scene)
        await played.run()

    assert None is complaint(case, played.outcome), str(played.outcome)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in PLAYED_HERE])
def test_what_is_played_is_all_of_it(case: Case) -> None:
    assert set() == {"tls", "transport"} & case.keys()
    for text in (case["raw"], case.get("upstream_raw", "")):
        assert None is unknown_macro(text)


def test_no_case_is_left_out() -> None:
    """Every case is played by a script or has a test of its own, which is there."""
    ids = {case["id"] for case in vectors.load("hostile_http")}
    here = {case["id"] for case in PLAYED_HERE}
    assert ids == here | test_hostile_identity.OUTCOMES.keys() | ELSEWHERE.keys()
    for where in ELSEWHERE.values():
        path, _, name = where.partition("::")
        assert f"\nasync def {name}(" in (TESTS / path).read_text(), where
