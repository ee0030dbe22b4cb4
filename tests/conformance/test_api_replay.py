"""The embedded apiserver answers requests written by hand as kube-apiserver did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.conformance.recording import EXCHANGES, PLAIN_KINDS, exchanges
from tests.conformance.replaying import compared, embedded, running
from tests.conformance.steps import Server

APISERVER = ("apiserver", "--listen", "127.0.0.1:0", "--controllers=-disruption")
WAYS = {"proxied": False, "proxied-http2": True}
SERVE = ("serve", "--listen", "127.0.0.1:0", "--admin", "none", "--settings")
MET = {
    EXCHANGES: {"Values with fields are shown as JSON, not with the names of Go."},
    PLAIN_KINDS: set[str](),
}
"""The known differences that the requests of a file meet."""


@pytest.mark.parametrize("name", MET)
def test_answers_are_as_recorded(name: str) -> None:
    with embedded("disruption") as server:
        assert ([], MET[name]) == compared(server, exchanges(name))


@pytest.fixture(scope="module")
def differences(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[list[str], set[str]]]:
    """Differences by way: each has a server of its own, and all run at once.

    One that waits for a second is enough: all are compared without a proxy, above.
    """
    answers = [
        each
        for each in exchanges()
        if "timeoutSeconds" not in each[0].path or "/watch/" in each[0].path
    ]
    settings = tmp_path_factory.mktemp("proxy") / "settings.yaml"
    settings.write_text("downstream: {overload: {loopDelay: null}, http2: {cleartext: true}}\n")
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor())
        found = {}
        for way, is_http2 in WAYS.items():
            upstream = f"http://127.0.0.1:{stack.enter_context(running(*APISERVER))}"
            port = stack.enter_context(running(*SERVE, str(settings), "--upstream", upstream))
            server = Server(f"http://127.0.0.1:{port}", is_http2=is_http2)
            found[way] = threads.submit(compared, server, answers)
        return {way: result.result() for way, result in found.items()}


@pytest.mark.e2e
@pytest.mark.parametrize("way", WAYS)
def test_proxied_answers_are_as_recorded(
    way: str, differences: dict[str, tuple[list[str], set[str]]]
) -> None:
    assert ([], MET[EXCHANGES]) == differences[way]
