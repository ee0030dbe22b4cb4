"""The recorder keeps what a server answers, in the form that the tests read."""

from __future__ import annotations

from tests.conformance.comparing import normal
from tests.conformance.recording import EXCHANGES, record_exchanges
from tests.conformance.replaying import embedded
from tests.conformance.vectors import load


def test_exchanges() -> None:
    """The answers to the exchanges are recorded, the requests kept."""
    with embedded("disruption") as server:
        recorded = record_exchanges(server, EXCHANGES)

    for old, new in zip(load(EXCHANGES), recorded, strict=True):
        assert old == new | {"expect": old["expect"]}
        assert old["expect"]["status"] == new["expect"]["status"], new["id"]
        assert new["expect"] == normal(new["expect"])
