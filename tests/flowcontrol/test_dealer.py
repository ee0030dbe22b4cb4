"""Tests of `apfproxy.flowcontrol.dealer`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.dealer import (
    MAX_DECK_SIZE,
    MAX_HASH_BITS,
    Dealer,
)


@st.composite
def dealers(draw: st.DrawFn) -> Dealer:
    """Dealers with all sizes that are valid."""
    hand_size = draw(st.integers(1, 13))
    largest = min(MAX_DECK_SIZE, int(2 ** (MAX_HASH_BITS / hand_size)))
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
