"""The dealer against the reference vectors."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.flowcontrol.dealer import Dealer
from tests.conformance import vectors

CASES = vectors.load("dealer")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_hand(case: dict[str, Any]) -> None:
    """A hash is dealt the very hand that Kubernetes deals, and impossible sizes are refused."""
    if case.get("invalid"):
        with pytest.raises(ValueError, match="size"):
            Dealer(case["deck_size"], case["hand_size"])
        return

    hand = Dealer(case["deck_size"], case["hand_size"]).deal(int(case["hash"]))

    assert tuple(case["hand"]) == hand
