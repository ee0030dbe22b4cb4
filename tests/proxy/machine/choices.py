"""The settings of a run of the machine, drawn from its first bytes."""

from __future__ import annotations

from typing import TypeVar

from apfproxy.settings import (
    ENFORCE,
    FRONT_PROXY,
    OBSERVE,
    PASS_THROUGH,
    Address,
    DownstreamSettings,
    DrainSettings,
    FlowControlSettings,
    LimitSettings,
    OverloadSettings,
    Settings,
    TracingSettings,
    TunnelSettings,
    UpstreamSettings,
    WatchSettings,
)

REQUEST_S, ANSWER_S, ABANDONED_S, HEAD_S, IDLE_S = 4.0, 2.0, 1.5, 1.5, 2.5
WAIT, COOPERATE, STOP = "wait", "cooperate", "stop"
"""At the end of a run peers do nothing, or all that is asked, or see the server stop."""

TRACING = TracingSettings(sampling_rate_per_million=1_000_000)

Thing = TypeVar("Thing")


class Choices:
    def __init__(self, bits: int) -> None:
        self._bits = bits
        pick = self._pick
        self.has_access_log = pick(33, True, True, False)
        self.has_traces = pick(61, True, False)
        self.has_top_flows = pick(36, True, False)
        self.has_tokens = pick(39, True, True, True, False)
        self.allows_anonymous = pick(42, True, True, False)
        self.seats = pick(45, 2, 1, 5)
        self.end = pick(51, WAIT, WAIT, COOPERATE, COOPERATE, STOP)
        self.held_bytes = pick(63, 32768, 64, 64)
        self.lifetime_s = pick(54, float("inf"), 1.0, 0.3)
        self.configuration = pick(48, 0, 0, 0, 1, 2, 3, 4, 5)

    def _pick(self, place: int, *values: Thing) -> Thing:
        return values[(self._bits >> place) % 8 % len(values)]

    def settings(self) -> Settings:
        return Settings(
            downstream=DownstreamSettings(
                head_timeout_s=HEAD_S,
                idle_timeout_s=IDLE_S,
                request_timeout_s=REQUEST_S,
                max_head_bytes=2048,
                limits=LimitSettings(
                    max_connections=self._pick(0, None, None, 4),
                    max_connections_per_address=self._pick(3, None, 2),
                    max_pipelined_requests=self._pick(6, None, None, 3),
                    max_body_bytes=self._pick(9, 4096, 100),
                    gathered_body_bytes=min(self.held_bytes, self._pick(12, 32768, 8, 0)),
                    min_body_rate_bytes=self._pick(15, 240, 0),
                    body_rate_grace_s=0.5,
                    max_held_bytes=self._pick(66, None, 4096, 1024),
                    slow_reader_grace_s=self._pick(18, None, 0.5),
                    slow_readers_per_level=self._pick(57, None, 1, 0),
                ),
                overload=OverloadSettings(loop_delay_s=self._pick(21, None, 0.5)),
            ),
            upstream=UpstreamSettings(
                url=Address(host="upstream", port=80),
                identity=self._pick(24, FRONT_PROXY, FRONT_PROXY, PASS_THROUGH),
                max_connections=self._pick(27, 8, 2, 1),
                connect_timeout_s=1.0,
                idle_timeout_s=2.0,
                answer_timeout_s=ANSWER_S,
                abandoned_wait_s=self._pick(60, 0.0, ABANDONED_S),
            ),
            tunnel=TunnelSettings(idle_timeout_s=3.0),
            watch=WatchSettings(silence_s=0.1, limit_s=2.0, bookmark_limit_s=3.0),
            drain=DrainSettings(idle_grace_s=0.5, timeout_s=4.0),
            flow_control=FlowControlSettings(enforcement=self._pick(30, ENFORCE, ENFORCE, OBSERVE)),
        )
