"""Costs of requests in units of their own, such as tokens, where a level counts them.

Fair queuing compares flows by seats times time.  Requests of one level may take the same time and
differ in what they cost its server: a completion of 2000 tokens in a batch with one of 200.  With
`apfproxy.io/cost` a level's flows share these units instead:

1. A request is charged at its dispatch for the units that it is expected to have, and at its end
   for those that it had.  A unit counts as long as a unit lately took in the mean of the level, so
   that the progress meter goes on in seat ticks, and charges keep pace with it.
2. The tokens of a completion are its prompt's, estimated by its bytes, and its output's: as many as
   responses of its flow lately had in the mean, else those of its level, and no more than the
   client allows.  In the end those count that the response says, and the time for which the rest
   of its body was waited for while it had its seats.
3. A header says the units itself.  They are not corrected.
4. A request whose cost is not known, and a completion without a response that is no error, is
   charged by time.

Sources: W. Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), of charging by
tokens, and of charging what is expected and making good the error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.ticket import NS_PER_TICK, SERVICE_GUESS_NS, WorkEstimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.ticket import Flow, Ticket
    from apfproxy.objects.additions import Cost
    from apfproxy.request.completion import Completion

FIRST_OUTPUT_TOKENS: Final = 256
"""Until a response has said how many it had."""
FIRST_NS_PER_TOKEN: Final = 10_000_000
"""Until a completion has ended: 100 tokens a second."""
OUTPUT_WEIGHT: Final = 0.2
"""The newest response's in the mean of its flow and of its level."""
KEPT: Final = 0.998
"""The part that is kept of what is known of a unit's time, at each end: of the last 500 ends."""
MOST_UNITS: Final = 1_000_000_000
_UNITS: Final = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,6})?")


class LevelCosts:
    """Learns what completions of a level's flows have, and how long a unit of its cost takes.

    Attributes:
        cost: What the level counts; None for time alone.
        output_tokens: Of a response of any flow in the mean; 0 if none is known.
        ns_per_unit: Seat-nanoseconds.
    """

    def __init__(self) -> None:
        self.cost: Cost | None = None
        self.output_tokens = 0.0
        self.ns_per_unit = 0.0
        self._seat_ns = self._units = 0.0

    def configure(self, cost: Cost | None) -> None:
        """Count this from now on; what is known of another unit is forgotten."""
        if cost == self.cost:
            return
        self.cost = cost
        has_header = cost is not None and cost.header != ""
        self.ns_per_unit = float(SERVICE_GUESS_NS if has_header else FIRST_NS_PER_TOKEN)
        self._seat_ns = self._units = 0.0

    # Tokens.

    def expect(self, completion: Completion, flow: Flow) -> None:
        """Estimate the tokens of a completion, and note them there."""
        output = self.expected_output(flow)
        if completion.most_output:
            output = min(output, completion.most_output)
        completion.estimated = completion.prompt_tokens + round(output * completion.choices)

    def expected_output(self, flow: Flow) -> float:
        return flow.output_tokens or self.output_tokens or FIRST_OUTPUT_TOKENS

    def learn(self, completion: Completion, flow: Flow) -> None:
        """Learn from a completion that has ended."""
        if completion.counted_output < 0:
            return
        output = completion.counted_output / completion.choices
        flow.output_tokens = _moved(flow.output_tokens, output)
        self.output_tokens = _moved(self.output_tokens, output)

    # Work.

    def estimate(
        self,
        by_time: WorkEstimate,
        completion: Completion | None,
        header_of: Callable[[str], str],
        *,
        weight: int = 1,
    ) -> WorkEstimate:
        """The estimate of a request with its cost, as far as that is known, for a flow's weight."""
        cost, units = self.cost, 0.0
        if cost is not None and cost.header:
            units = _units(header_of(cost.header))
        elif cost is not None and completion is not None:
            units = float(completion.estimated)
        if not units:
            return by_time.weighed(weight)
        guess_ns = units * self.ns_per_unit / by_time.initial_seats
        return WorkEstimate(
            by_time.initial_seats,
            by_time.final_seats,
            by_time.additional_latency_ns,
            round(guess_ns / NS_PER_TICK) * NS_PER_TICK,
            units,
            weight,
        )

    def settle(self, ticket: Ticket, completion: Completion | None, now_ns: int) -> None:
        """Have a request that ends charged for the units that it had."""
        cost, units, seats = self.cost, ticket.estimate.units, ticket.estimate.initial_seats
        if cost is None or (not cost.header and completion is None):
            return  # by another configuration than that of its arrival
        took_ns, late_ns = now_ns - ticket.dispatched_ns, 0
        if completion is not None and not cost.header:
            if not completion.is_served:
                return
            units = float(max(completion.tokens, 1))
            # The server waited for the client: else slow bodies would keep its seats for nothing.
            late_ns = min(max(completion.whole_ns - ticket.dispatched_ns, 0), took_ns)
            if late_ns == took_ns:
                return
        # By what earlier ones took: its own time would make each of many units cheaper.
        is_first, before = not self._units, self.ns_per_unit
        self._seat_ns = KEPT * self._seat_ns + seats * (took_ns - late_ns)
        self._units = KEPT * self._units + units
        self.ns_per_unit = self._seat_ns / self._units
        ns_per_unit = self.ns_per_unit if is_first else before
        ticket.worked_ns = late_ns + round(units * ns_per_unit / seats)


def _moved(mean: float, value: float) -> float:
    return mean + OUTPUT_WEIGHT * (value - mean) if mean else value


def _units(text: str) -> float:
    """The units that a header says; 0 for none."""
    text = text.strip(" \t")
    return min(float(text), float(MOST_UNITS)) if _UNITS.fullmatch(text) else 0.0
