"""The settings of a run of the machine, drawn from its first bytes."""

from __future__ import annotations

from dataclasses import dataclass
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
"""What the peers do at the end of a run: nothing, all that is asked, or see the server stop."""

TRACING = TracingSettings(sampling_rate_per_million=1_000_000)

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Choices:
    bits: int

    def pick(self, place: int, *values: Thing) -> Thing:
        return values[(self.bits >> place) % 8 % len(values)]

    def settings(self) -> Settings:
        return Settings(
            downstream=DownstreamSettings(
                head_timeout_s=HEAD_S,
                idle_timeout_s=IDLE_S,
                request_timeout_s=REQUEST_S,
                max_head_bytes=2048,
                limits=LimitSettings(
                    max_connections=self.pick(0, None, None, 4),
                    max_connections_per_address=self.pick(3, None, 2),
                    max_pipelined_requests=self.pick(6, None, None, 3),
                    max_body_bytes=self.pick(9, 4096, 100),
                    gathered_body_bytes=min(self.held_bytes, self.pick(12, 32768, 8, 0)),
                    min_body_rate_bytes=self.pick(15, 240, 0),
                    body_rate_grace_s=0.5,
                    max_held_bytes=self.pick(66, None, 4096, 1024),
                    slow_reader_grace_s=self.pick(18, None, 0.5),
                    slow_readers_per_level=self.pick(57, None, 1, 0),
                ),
                overload=OverloadSettings(loop_delay_s=self.pick(21, None, 0.5)),
            ),
            upstream=UpstreamSettings(
                url=Address(host="upstream", port=80),
                identity=self.pick(24, FRONT_PROXY, FRONT_PROXY, PASS_THROUGH),
                max_connections=self.pick(27, 8, 2, 1),
                connect_timeout_s=1.0,
                idle_timeout_s=2.0,
                answer_timeout_s=ANSWER_S,
                abandoned_wait_s=self.pick(60, 0.0, ABANDONED_S),
            ),
            tunnel=TunnelSettings(idle_timeout_s=3.0),
            watch=WatchSettings(silence_s=0.1, limit_s=2.0, bookmark_limit_s=3.0),
            drain=DrainSettings(idle_grace_s=0.5, timeout_s=4.0),
            flow_control=FlowControlSettings(enforcement=self.pick(30, ENFORCE, ENFORCE, OBSERVE)),
        )

    @property
    def has_access_log(self) -> bool:
        return self.pick(33, True, True, False)

    @property
    def has_traces(self) -> bool:
        return self.pick(61, True, False)

    @property
    def has_top_flows(self) -> bool:
        return self.pick(36, True, False)

    @property
    def has_tokens(self) -> bool:
        return self.pick(39, True, True, True, False)

    @property
    def allows_anonymous(self) -> bool:
        return self.pick(42, True, True, False)

    @property
    def seats(self) -> int:
        return self.pick(45, 2, 1, 5)

    @property
    def end(self) -> str:
        return self.pick(51, WAIT, WAIT, COOPERATE, COOPERATE, STOP)

    @property
    def held_bytes(self) -> int:
        return self.pick(63, 32768, 64, 64)

    @property
    def lifetime_s(self) -> float:
        return self.pick(54, float("inf"), 1.0, 0.3)

    @property
    def configuration(self) -> int:
        return self.pick(48, 0, 0, 0, 1, 2, 3, 4, 5)
