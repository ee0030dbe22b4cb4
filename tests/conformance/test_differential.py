"""The embedded apiserver answers some thousand generated requests as kube-apiserver 1.36 does.

The answers of a real one are in the repository.  Where `APFPROXY_REAL_APISERVER` names one (see
`tests/conformance/differential/playing.py` for how it has to run, for its token and certificates),
other requests, drawn with the seed `APFPROXY_DIFFERENTIAL_SEED`, are sent to both at once.
"""

from __future__ import annotations

import http.client
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.conformance.differential.comparing import difference
from tests.conformance.differential.known import KNOWN, MET
from tests.conformance.differential.playing import SHARE, real_server, recorded
from tests.conformance.differential.requests import requests
from tests.conformance.differential.steps import Server
from tests.conformance.test_api_replay import running
from tests.end_to_end.real_cluster import URL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conformance.differential.steps import Answer, Step

APISERVER = ("apiserver", "--listen", "127.0.0.1:0", "--controllers=-disruption,-namespace")
SEED = "APFPROXY_DIFFERENTIAL_SEED"


def compared(answers: Iterable[tuple[Step, Answer]]) -> tuple[list[str], set[str]]:
    """Ask a server of ours what a real one was asked.

    Returns:
        What differs and is not known, a line each; and the known differences that were met.
    """
    unknown: list[str] = []
    met: set[str] = set()
    with running(*APISERVER) as port:
        ours = Server(f"http://127.0.0.1:{port}")
        for step, real in answers:
            what, how = difference(real, ours.answer(step))
            line = f"{what} {step.id} {step.method} {step.path[:120]} {step.accept}: {how}"
            why = next((why for why, pattern in KNOWN.items() if re.search(pattern, line)), None)
            if what and why is None:
                unknown.append(line)
            elif what and why is not None:
                met.add(why)
        ours.close()
    return unknown, met


def test_answers_are_as_recorded() -> None:
    """Every recorded request is answered as the real server did, but for what is known to differ.

    What is known and no longer differs is to be struck out.
    """
    unknown, met = compared(recorded())

    assert [] == unknown
    assert set(MET) == met


@pytest.mark.skipif(URL not in os.environ, reason=f"{URL} names no kube-apiserver to compare with")
def test_answers_are_those_of_a_real_server() -> None:
    """Other requests are answered by both alike, but for what is known to differ."""
    real = real_server()
    steps = requests(int(os.environ.get(SEED, "1")), SHARE)
    unknown, _ = compared(answered(real, steps))
    real.close()

    assert [] == unknown


def answered(real: Server, steps: Iterable[Step]) -> Iterator[tuple[Step, Answer]]:
    """The requests with the answers, but for those over which the real server falls."""
    for step in steps:
        try:
            yield step, real.answer(step)
        except http.client.RemoteDisconnected:
            real.close()
