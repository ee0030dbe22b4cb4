"""What a request tells of the server that has it: its load, its answers and its failures.

A base class, so that exchanges know no more of an endpoint; compiled code calls its methods as fast
as functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from apfproxy.upstream.counters import UpstreamFailure

if TYPE_CHECKING:
    from apfproxy.upstream.counters import UpstreamCounters

_FIRST_GATEWAY_ERROR: Final = 502
_LAST_GATEWAY_ERROR: Final = 504


@mypyc_attr(allow_interpreted_subclasses=True)
class EndpointLoad(ABC):
    """One server behind, as its requests see it.

    Attributes:
        counters: What it did.
        failures_in_row: Failures, and answers 502, 503 and 504, since the last other answer.
        is_one_of_several: Whether a request that it failed may be sent to another one.
        log_name: Its address for the access log; "" where it is the only one.
        max_failures_in_row: So many are enough to take it out; 0 for never.
        seats: Of requests that it works on.
    """

    __slots__ = (
        "counters",
        "failures_in_row",
        "is_one_of_several",
        "log_name",
        "max_failures_in_row",
        "seats",
    )

    def __init__(self, counters: UpstreamCounters) -> None:
        self.counters = counters
        self.failures_in_row = 0
        self.is_one_of_several = False
        self.log_name = ""
        self.max_failures_in_row = 0
        self.seats = 0

    def answered(self, status: int, took_ns: int) -> None:
        """Count the head of a final answer, and how long it took."""
        counters = self.counters
        answers = counters.answers
        answers[status] = answers.get(status, 0) + 1
        counters.head_ns.observe(took_ns)
        if _FIRST_GATEWAY_ERROR <= status <= _LAST_GATEWAY_ERROR:
            self._count_in_row(may_be_gone=False)
        elif self.failures_in_row:
            self.failures_in_row = 0

    def fail(self, failure: UpstreamFailure, problem: str, *, is_telling: bool = True) -> None:
        """Count a failure, as `UpstreamCounters.fail` does."""
        self.counters.fail(failure, problem, is_telling=is_telling)
        if is_telling:
            # A slow server is not gone.
            self._count_in_row(may_be_gone=failure is not UpstreamFailure.ANSWER_TIMEOUT)

    @property
    def has_failed_enough(self) -> bool:
        """Whether it failed as often in a row as it may."""
        return 0 < self.max_failures_in_row <= self.failures_in_row

    def _count_in_row(self, *, may_be_gone: bool) -> None:
        self.failures_in_row += 1
        if self.has_failed_enough or (may_be_gone and self.is_one_of_several):
            self.on_failing()

    @abstractmethod
    def on_failing(self) -> None:
        """It failed as often in a row as it may, or it is one of several and may be gone."""
