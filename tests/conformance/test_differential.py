"""The embedded apiserver answers some thousand generated requests as kube-apiserver 1.36 does.

The answers of a real one are in the repository.  Where `APFPROXY_REAL_APISERVER` names one, other
requests, drawn with the seed `APFPROXY_DIFFERENTIAL_SEED`, are sent to both at once.  README.md
beside this file says how that one has to run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.conformance.generating import requests
from tests.conformance.recording import SHARE, USER_AGENT, generated
from tests.conformance.replaying import compared, embedded
from tests.conformance.steps import Server
from tests.end_to_end.real_cluster import AUTHORITY, TOKEN, URL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conformance.steps import Answer, Step

WITHOUT = ("disruption", "namespace")
"""Controllers that would act between two requests."""
SEED = "APFPROXY_DIFFERENTIAL_SEED"
MET = {
    "A dry deletion of a namespace does not say what would hold it.",
    "An empty list is the same as none.",
    "How an eviction is to delete is judged before the budgets are asked.",
}
"""The known differences that the recorded requests meet."""


def test_answers_are_as_recorded() -> None:
    """Every recorded request is answered as the real server did, except for known differences.

    A known difference that no request meets any more is to be struck out.
    """
    with embedded(*WITHOUT, user_agent=USER_AGENT) as server:
        assert ([], MET) == compared(server, generated())


@pytest.mark.skipif(URL not in os.environ, reason=f"{URL} names no kube-apiserver to compare with")
def test_answers_are_those_of_a_real_server() -> None:
    real = Server(
        os.environ[URL], os.environ.get(TOKEN, ""), os.environ.get(AUTHORITY, ""), USER_AGENT
    )
    steps = requests(int(os.environ.get(SEED, "1")), SHARE)
    with embedded(*WITHOUT, user_agent=USER_AGENT) as server:
        unknown, _ = compared(server, answered(real, steps))
    real.close()

    assert [] == unknown


def answered(real: Server, steps: Iterable[Step]) -> Iterator[tuple[Step, Answer, bool]]:
    """The requests with the answers, except for those over which the real server falls."""
    for step in steps:
        try:
            yield step, real.answer(step), True
        except httpx.RemoteProtocolError:
            continue
