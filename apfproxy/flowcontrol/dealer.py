"""Shuffle sharding: deals a flow a hand of queues from its hash.

Two flows rarely share all queues of their hands, so a greedy flow, which fills the queues of its
own hand, leaves most others a queue that is free.

Source: KEP-1040, "Shuffle sharding"; kubernetes/apiserver pkg/util/shufflesharding.
"""

from __future__ import annotations

from apfproxy.objects.validation import MOST_ENTROPY_BITS, entropy_bits

MAX_DECK_SIZE = 1 << 26
"""Kubernetes' bound."""


class Dealer:
    """Deals hands of different cards (queues) from a deck (of a priority level) numbered from 0.

    Raises:
        ValueError: The sizes make no sense, or a hand needs more entropy than a hash has.
    """

    def __init__(self, deck_size: int, hand_size: int) -> None:
        if deck_size <= 0 or hand_size <= 0:
            raise ValueError(f"deck size {deck_size} and hand size {hand_size} must be positive")
        if hand_size > deck_size:
            raise ValueError(
                f"hand size {hand_size} must not be greater than deck size {deck_size}"
            )
        if deck_size > MAX_DECK_SIZE:
            raise ValueError(f"deck size {deck_size} must not be greater than {MAX_DECK_SIZE}")
        bits = entropy_bits(deck_size, hand_size)
        if bits > MOST_ENTROPY_BITS:
            raise ValueError(
                f"deck size {deck_size} and hand size {hand_size} need {bits} bits of entropy;"
                f" choose them to need at most {MOST_ENTROPY_BITS}"
            )
        self.deck_size = deck_size
        self.hand_size = hand_size

    def deal(self, hash_: int) -> tuple[int, ...]:
        """Deal the hand that belongs to a hash of 64 bits: different cards, in the order dealt."""
        # Each draw gives a position among the cards not dealt yet.  Stepping over every card
        # dealt before, lowest first, turns the position into a card.
        hand: list[int] = []
        dealt: list[int] = []  # the same cards, ascending
        rest = hash_
        for cards_left in range(self.deck_size, self.deck_size - self.hand_size, -1):
            rest, card = divmod(rest, cards_left)
            place = 0
            for lower in dealt:
                if card < lower:
                    break
                card += 1
                place += 1
            dealt.insert(place, card)
            hand.append(card)
        return tuple(hand)
