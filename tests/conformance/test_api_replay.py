"""The embedded apiserver answers recorded requests as kube-apiserver does, direct and proxied."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.recording import exchanges
from tests.conformance.replaying import compared, running
from tests.conformance.steps import Server

pytestmark = pytest.mark.e2e

APISERVER = ("apiserver", "--listen", "127.0.0.1:0", "--controllers=-disruption")
SERVE = ("serve", "--listen", "127.0.0.1:0", "--admin", "none", "--settings")
MET = {
    "Invalid UTF-8 in a continue token is quoted as the character that it is decoded to.",
    "Values with fields are shown as JSON, not with the names of Go.",
}
"""The known differences that these requests meet."""


@pytest.fixture(scope="module")
def differences(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[list[str], set[str]]]:
    """What differs, by way: each has a server of its own, and both run at once."""
    answers = list(exchanges())
    settings = tmp_path_factory.mktemp("proxy") / "settings.yaml"
    settings.write_text("downstream: {overload: {loopDelay: null}}\n")
    with (
        running(*APISERVER) as direct,
        running(*APISERVER) as origin,
        running(*SERVE, str(settings), "--upstream", f"http://127.0.0.1:{origin}") as proxied,
        ThreadPoolExecutor() as threads,
    ):
        ports = {"direct": direct, "proxied": proxied}
        found = {
            way: threads.submit(compared, Server(f"http://127.0.0.1:{port}"), answers)
            for way, port in ports.items()
        }
        return {way: result.result() for way, result in found.items()}


@pytest.mark.parametrize("way", ["direct", "proxied"])
def test_answers_are_as_recorded(
    way: str, differences: dict[str, tuple[list[str], set[str]]]
) -> None:
    """Every recorded step is answered as kube-apiserver answered it."""
    assert ([], MET) == differences[way]
