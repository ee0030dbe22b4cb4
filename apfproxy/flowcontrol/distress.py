"""Tells a server's distress from single failures, and from failures that no limit mends.

A response counts as told where it says, by its status or by not coming, that the server has too
much to do.  Some of them say nothing of the limit: a broken part of an API responds with 503
whatever the load is, and a quota with 429.  Where it goes on when the limit was cut down to next to
nothing, the part that is told is usual there, and only more than that is distress.
"""

from __future__ import annotations

import math
from typing import Final

HALVED_S: Final = 1.0
"""Responses count half after this time."""
BY_CHANCE: Final = 2.0
"""So many standard errors above that part may be single failures that come together by chance."""
LEAST_PART: Final = 0.05
"""The part of all responses from which on it is distress."""
OVER_USUAL: Final = 1.5
MASS_PART: Final = 0.5
"""From this part on the other responses do not show what the server can do."""
IN_VAIN: Final = 0.02
"""Once the limit is this part of that before the cuts, they should have helped."""
RESTED_S: Final = 15.0
"""After so long without a cut the next one is the first again."""
FALL_S: Final = 5.0
RISE_S: Final = 30.0
"""In which a part that is usual becomes another one."""


class Distress:
    """Holds the responses of the last moments, and the cuts of the limit that they led to.

    Attributes:
        usual: The part of responses that tell of distress whatever the limit is.
    """

    def __init__(self) -> None:
        self.usual = 0.0
        self._told = 0.0
        self._responses = 0.0
        self._first_limit = 0
        self._cut_s = -math.inf

    @property
    def part(self) -> float:
        """The part of responses lately that told of distress; 0 of none."""
        return self._told / (self._told + self._responses) if self._told else 0.0

    @property
    def is_high(self) -> bool:
        expected = (self._told + self._responses) * max(LEAST_PART, OVER_USUAL * self.usual)
        return self._told > expected + BY_CHANCE * math.sqrt(self._told)

    @property
    def is_mass(self) -> bool:
        return self.part > MASS_PART

    def see(self, duration_s: float, told: float, responses: float) -> None:
        """Take the responses of some time; `responses` are those that told nothing."""
        kept = math.exp2(-duration_s / HALVED_S)
        self._told = self._told * kept + told
        self._responses = self._responses * kept + responses
        if self.usual and told + responses:
            part = self.part
            change_s = FALL_S if part < self.usual else RISE_S
            self.usual += (part - self.usual) * min(1.0, duration_s / change_s)
            if self.usual < LEAST_PART / OVER_USUAL:
                self.usual = 0.0

    def note_cut(self, now_s: float, limit: int, least: int) -> bool:
        """Count from now on, since this limit is to be cut; False if that would be in vain."""
        if now_s - self._cut_s > RESTED_S:
            self._first_limit = limit
        helps = limit > max(IN_VAIN * self._first_limit, least)
        if not helps:
            self.usual = self.part
        self._cut_s = now_s
        self._told = self._responses = 0.0
        return helps
