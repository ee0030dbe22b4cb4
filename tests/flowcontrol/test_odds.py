"""Tests of apfproxy.flowcontrol.odds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.dealer import MAX_DECK_SIZE, Dealer
from apfproxy.flowcontrol.odds import (
    OddsError,
    Suggestion,
    check_sizes,
    largest_hand,
    squished,
    suggest,
)
from apfproxy.objects.validation import MOST_ENTROPY_BITS, MOST_QUEUES, entropy_bits

TABLE = {
    (12, 32): (4.428838398950118e-09, 0.11431348830099144, 0.9935089607656024),
    (10, 32): (1.550093439632541e-08, 0.0626479840223545, 0.9753101519027554),
    (10, 64): (6.601827268370426e-12, 0.00045571320990370776, 0.49999929150089345),
    (9, 64): (3.6310049976037345e-11, 0.00045501212304112273, 0.4282314876454858),
    (8, 64): (2.25929199850899e-10, 0.0004886697053040446, 0.35935114681123076),
    (8, 128): (6.994461389026097e-13, 3.4055790161620863e-06, 0.02746173137155063),
    (7, 128): (1.0579122850901972e-11, 6.960839379258192e-06, 0.02406157386340147),
    (7, 256): (7.597695465552631e-14, 6.728547142019406e-08, 0.0006709661542533682),
    (6, 256): (2.7134626662687968e-12, 2.9516464018476436e-07, 0.0008895654642000348),
    (6, 512): (4.116062922897309e-14, 4.982983350480894e-09, 2.26025764343413e-05),
    (6, 1024): (6.337324016514285e-16, 8.09060164312957e-11, 4.517408062903668e-07),
}
"""The table of Kubernetes' documentation: hand size and queues to 1, 4 and 16 elephants."""


@pytest.mark.parametrize(("sizes", "expected"), TABLE.items(), ids=map(str, TABLE))
def test_table_of_the_documentation(
    sizes: tuple[int, int], expected: tuple[float, float, float]
) -> None:
    hand_size, queues = sizes
    found = [squished(queues, hand_size, elephants) for elephants in (1, 4, 16)]
    assert pytest.approx(expected, rel=1e-14, abs=0) == found


def test_extremes() -> None:
    assert (1.0, 1.0) == (squished(8, 8, 1), squished(1, 1, 10_000))
    assert 0.0 < squished(MOST_QUEUES, 2, 10_000) < 1e-4


def test_largest_hand() -> None:
    for queues in (*range(1, 300), 1024, 4096, MOST_QUEUES):
        fitting = [
            hand_size
            for hand_size in range(1, min(queues, 64) + 1)
            if entropy_bits(queues, hand_size) <= MOST_ENTROPY_BITS
        ]
        assert fitting[-1] == largest_hand(queues)
        check_sizes(queues, fitting[-1])


@pytest.mark.parametrize("bound", [0.5, 0.1, 0.01, 1e-3, 1e-4])
@pytest.mark.parametrize("elephants", [1, 2, 4])
def test_suggestion_is_the_smallest(bound: float, elephants: int) -> None:
    expected = next(
        Suggestion(queues, hand_size)
        for queues in range(1, 200)
        for hand_size in range(1, largest_hand(queues) + 1)
        if squished(queues, hand_size, elephants) <= bound
    )

    assert expected == suggest(bound, elephants)


ENTROPY = (
    "hands of 8 out of 512 queues need 72 bits of a hash, which has 60 for it: with so many queues"
    " a hand can be 6"
)


@pytest.mark.parametrize(
    ("queues", "hand_size", "message"),
    [
        (0, 1, "expected 1 to 10000000 queues, not 0"),
        (10_000_001, 1, "expected 1 to 10000000 queues, not 10000001"),
        (4, 5, "expected a hand of 1 to 4 queues, all there are, not 5"),
        (4, 0, "expected a hand of 1 to 4 queues, all there are, not 0"),
        (512, 8, ENTROPY),
    ],
)
def test_refused_sizes(queues: int, hand_size: int, message: str) -> None:
    with pytest.raises(OddsError) as caught:
        check_sizes(queues, hand_size)
    assert message == str(caught.value)


@st.composite
def dealers(draw: st.DrawFn) -> Dealer:
    hand_size = draw(st.integers(1, 13))
    largest = min(MAX_DECK_SIZE, int(2 ** (MOST_ENTROPY_BITS / hand_size)))
    return Dealer(draw(st.integers(hand_size, largest)), hand_size)


@given(dealer=dealers(), hash_=st.integers(0, 2**64 - 1))
@settings(max_examples=200)
def test_hand_has_different_cards_of_the_deck(dealer: Dealer, hash_: int) -> None:
    hand = dealer.deal(hash_)
    assert dealer.hand_size == len(hand)
    assert dealer.hand_size == len(set(hand))
    assert all(0 <= card < dealer.deck_size for card in hand)


def test_every_hand_is_dealt() -> None:
    dealer = Dealer(5, 3)
    assert len({dealer.deal(hash_) for hash_ in range(5 * 4 * 3)}) == 5 * 4 * 3


REFUSED = {
    (0, 1): "must be positive",
    (1, 0): "must be positive",
    (2, 3): "must not be greater than deck size 2",
    (MAX_DECK_SIZE + 1, 1): "must not be greater than",
    (128, 9): "need 63 bits of entropy",
}


@pytest.mark.parametrize("sizes", REFUSED)
def test_invalid_sizes(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=REFUSED[sizes]):
        Dealer(*sizes)
