"""How likely shuffle sharding leaves a flow no queue of its own.

Elephants are flows that fill every queue of their hands; a mouse is squished by them if each queue
of its hand is in the hand of an elephant.  Hands are dealt alike and independently.

With n queues and hands of h, all of some i queues of the mouse's hand stay free of one elephant
with probability C(n - i, h) / C(n, h).  So, by inclusion and exclusion over the mouse's queues,

    P(squished by k) = sum over i from 0 to h of (-1)^i C(h, i) (C(n - i, h) / C(n, h))^k

which is computed in integers, and divided once, at the end.

Source: KEP-1040, "Shuffle sharding"; the table in Kubernetes' documentation of the feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from apfproxy.objects.validation import MOST_ENTROPY_BITS, MOST_QUEUES, entropy_bits

MAX_ELEPHANTS = 10_000
"""Exact numbers grow with them; so many take a few milliseconds."""


class OddsError(ValueError):
    """Sizes that a PriorityLevelConfiguration cannot have."""


def check_sizes(queues: int, hand_size: int) -> None:
    """Refuse, by an `OddsError`, what Kubernetes refuses in a PriorityLevelConfiguration."""
    if not 1 <= queues <= MOST_QUEUES:
        raise OddsError(f"expected 1 to {MOST_QUEUES} queues, not {queues}")
    if not 1 <= hand_size <= queues:
        raise OddsError(f"expected a hand of 1 to {queues} queues, all there are, not {hand_size}")
    bits = entropy_bits(queues, hand_size)
    if bits > MOST_ENTROPY_BITS:
        raise OddsError(
            f"hands of {hand_size} out of {queues} queues need {bits} bits of a hash, which has"
            f" {MOST_ENTROPY_BITS} for it: with so many queues a hand can be {largest_hand(queues)}"
        )


def largest_hand(queues: int) -> int:
    if queues == 1:
        return 1
    hand_size = min(queues, int(MOST_ENTROPY_BITS / math.log2(queues)) + 1)
    while entropy_bits(queues, hand_size) > MOST_ENTROPY_BITS:
        hand_size -= 1
    return hand_size


def squished(queues: int, hand_size: int, elephants: int) -> float:
    """The probability that a flow's whole hand lies within the hands of others, rounded once."""
    numerator: int = sum(
        (-1) ** missed
        * math.comb(hand_size, missed)
        * math.comb(queues - missed, hand_size) ** elephants
        for missed in range(hand_size + 1)
    )
    all_hands: int = math.comb(queues, hand_size) ** elephants
    return numerator / all_hands


@dataclass(frozen=True, slots=True)
class Suggestion:
    queues: int
    hand_size: int


def suggest(bound: float, elephants: int) -> Suggestion | None:
    """The fewest queues with which the odds can be at most the bound, and the smallest such hand.

    More queues of the same hand are never worse.  None if no sizes that Kubernetes accepts get
    there.
    """
    best: Suggestion | None = None
    for hand_size in range(1, MOST_ENTROPY_BITS + 1):
        least, most = hand_size, most_queues(hand_size)
        if best is not None:
            most = min(most, best.queues - 1)
        if least > most or squished(most, hand_size, elephants) > bound:
            continue
        while least < most:
            middle = (least + most) // 2
            if squished(middle, hand_size, elephants) <= bound:
                most = middle
            else:
                least = middle + 1
        best = Suggestion(least, hand_size)
    return best


def most_queues(hand_size: int) -> int:
    """The most queues that hands of a size can be dealt from; 0 if there are none."""
    least, most = 0, MOST_QUEUES
    while least < most:
        middle = (least + most + 1) // 2
        if entropy_bits(middle, hand_size) <= MOST_ENTROPY_BITS:
            least = middle
        else:
            most = middle - 1
    return least
