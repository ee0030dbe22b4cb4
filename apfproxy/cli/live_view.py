"""What `apfproxy top` shows: the state, what was chosen by keys, and the order that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.admin.endpoint_state import OUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.cli.live_client import Endpoint, Level, LiveState, TopFlow


class Sort(NamedTuple):
    """An order of levels and flows.

    Attributes:
        label: Of its key.
        flows: What the flows are sorted by then.
        level_key: Of a level; smaller is first.
        flow_key: Of a flow; smaller is first.
    """

    label: str
    flows: str
    level_key: Callable[[Level], tuple[float | str, ...]]
    flow_key: Callable[[TopFlow], float | str]


SORTS = {
    "p": Sort(
        "problems",
        "seats",
        lambda level: (
            -level.rejected_per_second - level.failed_per_second,
            -level.waiting,
            -level.seats_in_use,
            level.name,
        ),
        lambda flow: -flow.seat_seconds,
    ),
    "s": Sort(
        "seats",
        "seats",
        lambda level: (-level.seats_in_use, level.name),
        lambda flow: -flow.seat_seconds,
    ),
    "w": Sort(
        "waits",
        "waits",
        lambda level: (-level.waiting, level.name),
        lambda flow: -flow.wait_seconds,
    ),
    "r": Sort(
        "rejections",
        "rejections",
        lambda level: (-level.rejected_per_second, -level.waiting, level.name),
        lambda flow: -flow.rejected,
    ),
    "n": Sort("name", "name", lambda level: (level.name,), lambda flow: flow.flow),
}
"""By their keys."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown, and how.

    Attributes:
        sort: The key of `SORTS`.
        problem: Why there is no newer state than `silent_s` ago; None if there is no problem.
        height: Lines that there are; None for as many as it takes.
        part: Only levels, flows and servers whose names have it are shown.
        is_typing: Whether the part is being typed.
        is_help: Whether the help is shown instead.
        is_endpoints: Whether the servers behind are shown in place of queues and flows.
    """

    url: str
    state: LiveState
    sort: str = "p"
    problem: str | None = None
    silent_s: float = 0.0
    height: int | None = None
    part: str = ""
    is_typing: bool = False
    is_help: bool = False
    is_endpoints: bool = False

    @property
    def has_several_servers(self) -> bool:
        """Whether there is more than one server behind."""
        return self.state.upstream is not None and self.state.upstream.endpoint_count > 1

    def endpoints(self) -> list[Endpoint]:
        """The servers behind that are shown, those that get no requests first."""
        if self.state.upstream is None:
            return []
        found = [each for each in self.state.upstream.endpoints if self._has(each.url)]
        return sorted(found, key=lambda each: each.state not in OUT)

    def levels(self) -> list[Level]:
        """The levels that are shown, in their order."""
        key = SORTS[self.sort].level_key
        return sorted((each for each in self.state.levels if self._has(each.name)), key=key)

    def flows(self) -> list[TopFlow]:
        """The flows that are shown, in their order; their FlowSchemas and levels count as names."""
        found = (
            each
            for each in self.state.top_flows
            if self._has(each.flow, each.flow_schema, each.priority_level)
        )
        key = SORTS[self.sort].flow_key
        return sorted(found, key=key)

    def _has(self, *names: str) -> bool:
        part = self.part.lower()
        return any(part in name.lower() for name in names)
