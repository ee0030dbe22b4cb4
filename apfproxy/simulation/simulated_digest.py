"""The description of simulated requests for flow control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import QUERY
from apfproxy.flowcontrol.passage import RequestDigest

if TYPE_CHECKING:
    from apfproxy.flowcontrol.meters import KindCounts
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.simulation.records import Kind


class SimulatedDigest(RequestDigest):
    __slots__ = ("_headers", "tokens")

    def __init__(self, kind: Kind, counts: KindCounts, estimate: WorkEstimate | None) -> None:
        super().__init__(kind.user, kind.attributes, kind.timeout_ns, counts, estimate)
        self._headers = {**dict(kind.headers), QUERY: kind.query}
        self.tokens = kind.tokens

    def header(self, name: str) -> str:
        return self._headers.get(name.lower(), "")
