"""What the proxy itself refused in the last seconds, before flow control: connections and requests.

Who gets no connection, or 401 for each request, is in no counter of flow control.
"""

from __future__ import annotations

from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING

from apfproxy.admin.recent_rates import LOOKS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.proxy.counters import ProxyCounters

FLOOD = "flood-of-"
"""Begins the reason of connections of HTTP/2 that were ended; the kind of their frames follows."""


class RecentRefusals:
    """The last looks at the counters of the data plane; None where there is none."""

    def __init__(self, counters: ProxyCounters | None, now_ns: int) -> None:
        self._counters = counters
        self._looks: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=LOOKS)
        self.look(now_ns)

    def look(self, now_ns: int) -> None:
        """Copy the counters; due once a second."""
        if self._counters is not None:
            self._looks.append((now_ns, refused(self._counters)))

    def per_s(self) -> dict[str, float]:
        """Refusals a second, by reason as in `refused`; without those that there were none of."""
        if not self._looks:
            return {}
        (first_ns, first), (last_ns, last) = self._looks[0], self._looks[-1]
        elapsed_s = (last_ns - first_ns) / NS_PER_S
        return {
            reason: round((number - first.get(reason, 0)) / elapsed_s, 2)
            for reason, number in last.items()
            if number > first.get(reason, 0)
        }

    def __repr__(self) -> str:
        return f"<RecentRefusals: {self.per_s()}>"


def refused(counters: ProxyCounters) -> dict[str, int]:
    """Connections by why, and requests by the status code of the proxy's own answer.

    Connections were refused by `Refusal`, or ended by `FLOOD` with the kind of frames.
    Answers 429 are rejections of flow control; those from 500 on tell of the server behind, or of a
    connection that was refused.
    """
    found = {
        reason.value: number for reason, number in counters.listener.connections_refused.items()
    }
    for flood, number in counters.listener.http2.floods.items():
        found[FLOOD + flood.value] = number
    for code, number in counters.own_by_status.items():
        if HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR:
            found[str(code)] = number
    found.pop(str(HTTPStatus.TOO_MANY_REQUESTS.value), None)
    return found
