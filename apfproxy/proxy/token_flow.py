"""The response to a completion, of which tokens are counted and timed as they pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.flowcontrol.passage import FlowObserver
    from apfproxy.flowcontrol.ticket import Flow
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.token_counter import TokenCounter


class TokenFlow:
    """One response, from its head on; `begun_ns` and `sent_ns` are its request's.

    Attributes:
        counter: Has what is known of its tokens.
    """

    def __init__(
        self,
        counter: TokenCounter,
        flow: Flow,
        top_flows: FlowObserver | None,
        begun_ns: int,
        sent_ns: int,
    ) -> None:
        self.counter = counter
        self._flow = flow
        self._top_flows = top_flows
        self._meter = meter = flow.counters.token_meter()
        self._begun_ns = begun_ns
        self._sent_ns = sent_ns
        self._last_ns = 0
        """When the last token came; 0 before the first."""
        self._counted = 0  # by the meter
        meter.open_streams += counter.is_stream

    def take(self, pieces: Sequence[Piece], now_ns: int) -> None:
        events, meter = self.counter.feed(pieces), self._meter
        if events > 0:
            if self._last_ns:
                meter.between_tokens_ns.observe_each(events, now_ns - self._last_ns)
            else:
                meter.first_token_ns.observe(now_ns - self._begun_ns)
                meter.first_token_executing_ns.observe(now_ns - self._sent_ns)
            self._last_ns = now_ns
        if events:
            self._count(events)

    def end(self) -> None:
        """Count what its usage said, in place of events; comes once, however it ends."""
        counter, meter = self.counter, self._meter
        meter.open_streams -= counter.is_stream
        if counter.tokens >= 0:
            meter.completions += 1
            meter.prompt_tokens += max(0, counter.prompt_tokens)
            self._count(counter.tokens - self._counted)

    def _count(self, tokens: int) -> None:
        self._counted += tokens
        self._meter.count(tokens)
        if self._top_flows is not None:
            self._top_flows.on_tokens(self._flow, tokens)
