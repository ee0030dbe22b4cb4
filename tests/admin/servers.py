"""Servers behind of which nothing moves, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from apfproxy.upstream.counters import UpstreamCounters


@dataclass
class StillAddress:
    weight: int = 1


@dataclass
class StillEndpoint:
    """A server with two requests of five seats under way."""

    url: str
    address: StillAddress = field(default_factory=StillAddress)
    counters: UpstreamCounters = field(default_factory=UpstreamCounters)
    is_drawn: bool = True
    ramp: float = 1.0
    share: float = 1.0
    seats: int = 5
    busy_count: int = 2
    idle: tuple[int, ...] = (1,)
    open: tuple[int, ...] = (1, 2, 3)


class StillWatch:
    def __init__(self, endpoint: StillEndpoint, state: str = "up") -> None:
        self.endpoint = endpoint
        self.state = state
        self.problem = None if state == "up" else "connection refused"
        self.since_unix_s: float | None = 7.0
        self.ejections_total = 0


class StillUpstream:
    address = "http://a:1"
    since_unix_s: float | None = 7.0
    awaiting = 0
    silent_s = 0.0

    def __init__(self, *states: str) -> None:
        self.state = "up" if "up" in states else "failing"
        self.problem = None if self.state == "up" else "all fail"
        self.counters = UpstreamCounters()
        self.watches = {
            str(place): StillWatch(StillEndpoint(f"http://{place}:1"), state)
            for place, state in enumerate(states)
        }


class StillPool:
    open_count, idle_count, waiting_count = 5, 2, 1

    def __init__(self, upstream: StillUpstream) -> None:
        watches = upstream.watches.values()
        self.endpoints = [each.endpoint for each in watches if each.state != "draining"]
        self.draining: tuple[StillEndpoint, ...] = ()
