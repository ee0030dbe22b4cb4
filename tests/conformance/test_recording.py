"""The recorder keeps what a server answers, in the form that the tests read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance import recording, vectors
from tests.conformance.comparing import normal
from tests.conformance.replaying import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

APISERVER = ("apiserver", "--listen", "127.0.0.1:0", "--controllers=-disruption")


def requests_of(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases without what was answered."""
    return [{name: value for name, value in case.items() if name != "expect"} for case in cases]


def test_exchanges(tmp_path: Path) -> None:
    """The embedded apiserver's answers to the exchanges are recorded, the requests kept."""
    output = tmp_path / "api_exchanges.jsonl"
    with running(*APISERVER) as port:
        url = f"http://127.0.0.1:{port}"
        recording.main([recording.EXCHANGES, url, "--output", str(output)])

    cases = [json.loads(line) for line in output.read_text().splitlines()]
    expected = vectors.load(recording.EXCHANGES)
    assert requests_of(expected) == requests_of(cases)
    for old, new in zip(expected, cases, strict=True):
        assert old["expect"]["status"] == new["expect"]["status"], new["id"]
        assert new["expect"] == normal(new["expect"])
