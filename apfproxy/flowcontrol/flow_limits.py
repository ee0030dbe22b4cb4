"""Limits that additions put on the flows of a FlowSchema, beside those of seats.

1. A ban rejects everything, requests without seats included.
2. A flow may have so many long-running requests at once; the next one is rejected.
3. A flow may make requests at a rate, and so many at once, as a token bucket lets it; a request
   that finds no token is rejected and told when there will be one.  It takes no token.
4. A flow may have so many requests that wait or have seats; the next one is rejected.  Long-running
   ones do not count, and a stream counts until it gives its seats back.  Seats that are kept for an
   upstream do count: it works on, and a client that asks and leaves would evade the limit.
5. A flow may have the tokens of its completions at a rate.  Such a bucket may come to owe: a
   completion takes its estimate, and what it had in place of that at its end.  One that finds the
   bucket in debt is rejected.
6. The responses of a flow may have bytes at a rate: the next ones wait while the bucket owes some.

A bucket is one number: when it will be full.  It is kept only until then, so that what is kept are
the flows that asked lately.  Where these are more than `MAX_FLOWS`, those beyond share one bucket:
anyone who makes up flows can fill neither the memory nor get a full bucket for each.

Source of 3: the generic cell rate algorithm of ITU-T I.371, which comes to the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.objects import additions
from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from apfproxy.flowcontrol.meters import FlowSchemaCounters
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.objects.additions import FlowSchemaAdditions
    from apfproxy.request.completion import Completion

MAX_FLOWS = 8192
"""Buckets that are not full, of one FlowSchema; about 150 bytes each."""
OTHERS = "#others"
"""The flow that those beyond share; a flow may have this name, and is one of them then."""
LONGEST_NAME = 256
"""Characters of a flow's name that is kept as it is: namespaces' come out of URLs."""
SWEEP_INTERVAL_NS = 1_000_000_000
"""While all buckets are in use, full ones are searched for so often at most."""

_NS_PER_S = 1_000_000_000
_S_PER_MINUTE = 60


@dataclass(slots=True)
class Refusal:
    """Why a flow does not get what it asks for.

    Attributes:
        message: For the client.
        retry_after_s: When to ask again; 0 where no one can tell.
        seats: That the request would have taken.
    """

    reason: RejectReason
    message: str
    retry_after_s: int = 0
    seats: int = 0


class RequestRate:
    """A token bucket for each flow: `rate` > 0 tokens a second, `burst` >= 1 that it holds.

    One that `may_owe` gives any number of tokens to a flow that owes none.
    """

    def __init__(self, rate: float, burst: int, *, may_owe: bool = False) -> None:
        self.rate = rate
        self.burst = burst
        self._interval_ns = interval_ns = round(_NS_PER_S / rate)
        self._slack_ns = round(_NS_PER_S * burst / rate) if may_owe else (burst - 1) * interval_ns
        self._full_ns: dict[str, int] = {}  # flow to when its bucket will be full
        self._swept_ns = -SWEEP_INTERVAL_NS

    def take(self, flow: str, now_ns: int) -> int:
        """Take a token: 0, or in how many nanoseconds there will be one."""
        flow = self._bucket(flow, now_ns)
        start_ns = max(self._full_ns.get(flow, 0), now_ns)
        missing_ns = start_ns - now_ns - self._slack_ns
        if missing_ns > 0:
            return missing_ns
        self._full_ns[flow] = start_ns + self._interval_ns
        return 0

    def correct(self, flow: str, now_ns: int, count: int) -> None:
        """Take so many tokens more, whatever there are; or give them back, if it is less than 0."""
        flow = self._bucket(flow, now_ns)
        start_ns = max(self._full_ns.get(flow, 0), now_ns)
        self._full_ns[flow] = max(now_ns, start_ns + round(count * _NS_PER_S / self.rate))

    def missing_ns(self, flow: str, now_ns: int) -> int:
        """In how many nanoseconds there will be a token; 0 if there is one."""
        flow = _kept_name(flow)
        if flow not in self._full_ns and self._is_crowded(now_ns):
            flow = OTHERS
        return max(0, self._full_ns.get(flow, 0) - now_ns - self._slack_ns)

    def has_token(self, flow: str, now_ns: int) -> bool:
        return self.missing_ns(flow, now_ns) == 0

    def _bucket(self, flow: str, now_ns: int) -> str:
        """The name by which a flow has a bucket; forgets full ones if need be."""
        flow = _kept_name(flow)
        return flow if flow in self._full_ns or self._has_room(now_ns) else OTHERS

    def _is_crowded(self, now_ns: int) -> bool:
        """Whether `_has_room` would find no room, without forgetting anything."""
        if len(self._full_ns) < MAX_FLOWS:
            return False
        is_swept = now_ns - self._swept_ns >= SWEEP_INTERVAL_NS
        if not is_swept:
            return True
        return sum(at_ns > now_ns for at_ns in self._full_ns.values()) >= MAX_FLOWS

    def _has_room(self, now_ns: int) -> bool:
        """Whether one more flow may have a bucket; forgets full ones if need be."""
        if len(self._full_ns) < MAX_FLOWS:
            return True
        if now_ns - self._swept_ns < SWEEP_INTERVAL_NS:
            return False
        self._swept_ns = now_ns
        self._full_ns = {flow: at_ns for flow, at_ns in self._full_ns.items() if at_ns > now_ns}
        return len(self._full_ns) < MAX_FLOWS


def _kept_name(flow: str) -> str:
    return flow if len(flow) <= LONGEST_NAME else f"#{hash(flow):x}"


class Places:
    """Counts what each flow has at once.

    Attributes:
        limit: For each flow; None for none, and then what comes is not counted.
        are_with_seats: Whether a request has its place as long as it waits or has seats.
        counts: By flow, without zeros; to read only.
    """

    def __init__(self, *, are_with_seats: bool) -> None:
        self.limit: int | None = None
        self.are_with_seats = are_with_seats
        self.counts: dict[str, int] = {}

    def is_full(self, flow: str) -> bool:
        return self.limit is not None and self.counts.get(flow, 0) >= self.limit

    def take(self, flow: str) -> None:
        self.counts[flow] = self.counts.get(flow, 0) + 1

    def release(self, flow: str) -> None:
        self.counts[flow] -= 1
        if not self.counts[flow]:
            del self.counts[flow]


class FlowLimits:
    """The limits of the flows of one FlowSchema; they and their counts outlive reconfigurations.

    Attributes:
        is_ban: Whether everything is rejected.
        long_running, requests: Places of long-running requests, and of others.
        byte_rate: Owes what responses had; None as soon as its FlowSchema is gone.
    """

    def __init__(self, flow_schema: str) -> None:
        self._flow_schema = flow_schema
        self._level = ""
        self.is_ban = False
        self.rate: RequestRate | None = None
        self.token_rate: RequestRate | None = None
        self.byte_rate: RequestRate | None = None
        self.long_running = Places(are_with_seats=False)
        self.requests = Places(are_with_seats=True)

    def configure(self, added: FlowSchemaAdditions, level: str, *, is_ban: bool) -> None:
        """Have these limits from now on; a rate that stays keeps its buckets."""
        self._level = level
        self.is_ban = is_ban
        self.long_running.limit = added.long_running_limit
        self.requests.limit = added.flow_requests_limit
        rate, burst = added.request_rate, added.request_burst
        if rate is None:
            self.rate = None
        elif self.rate is None or (self.rate.rate, self.rate.burst) != (rate, burst):
            self.rate = RequestRate(rate, burst)
        size = added.bytes_per_second
        if size is None:
            self.byte_rate = None
        elif self.byte_rate is None or self.byte_rate.rate != size:
            self.byte_rate = RequestRate(size, size, may_owe=True)
        if added.token_rate is None:
            self.token_rate = None
            return
        rate, burst, known = added.token_rate / _S_PER_MINUTE, added.token_burst, self.token_rate
        if known is None or (known.rate, known.burst) != (rate, burst):
            self.token_rate = RequestRate(rate, burst, may_owe=True)

    def refusal(
        self,
        flow: str,
        now_ns: int,
        *,
        is_long_running: bool,
        completion: Completion | None = None,
    ) -> Refusal | None:
        """Reject a request, or let it go.

        It then has a place where `places` says, to be released, and a completion its estimated
        tokens until `settle`.
        """
        if self.is_ban:
            return Refusal(
                RejectReason.BAN,
                f"priority level {self._level!r}, where FlowSchema {self._flow_schema!r} leads,"
                f" rejects all requests ({additions.BAN})",
            )
        places = self.places(is_long_running=is_long_running)
        if places is not None and places.is_full(flow):
            return self._crowd_refusal(flow, places)
        tokens = None if completion is None else self.token_rate
        if tokens is not None:
            missing_ns = tokens.missing_ns(flow, now_ns)
            if missing_ns:
                had = f"has had more than {round(tokens.rate * _S_PER_MINUTE)} tokens a minute"
                return self._rate_refusal(
                    RejectReason.TOKEN_RATE, had, additions.TOKEN_RATE, missing_ns
                )
        rate = self.rate
        if rate is not None:
            missing_ns = rate.take(flow, now_ns)
            if missing_ns:
                makes = f"makes more than {additions.decimal(rate.rate)} requests a second"
                return self._rate_refusal(
                    RejectReason.RATE, makes, additions.REQUEST_RATE, missing_ns
                )
        if places is not None:
            places.take(flow)
        if tokens is not None:
            assert completion is not None
            completion.charged = completion.estimated
            tokens.correct(flow, now_ns, completion.charged)
        return None

    def _rate_refusal(
        self, reason: RejectReason, what: str, annotation: str, missing_ns: int
    ) -> Refusal:
        message = (
            f"the flow {what}, the most that FlowSchema {self._flow_schema!r} allows"
            f" ({annotation}); try again later"
        )
        return Refusal(reason, message, math.ceil(missing_ns / _NS_PER_S))

    def settle(self, flow: str, now_ns: int, completion: Completion) -> None:
        """Have a completion that ends take the tokens that it had, in place of its estimate.

        One without a response that is no error takes none.
        """
        if self.token_rate is None or not completion.charged:
            return
        tokens = completion.tokens if completion.is_served else 0
        self.token_rate.correct(flow, now_ns, tokens - completion.charged)

    def begin_stream(self, flow: str) -> Refusal | None:
        """Count a response that lasts as a long-running request, or reject it."""
        if self.long_running.is_full(flow):
            return self._crowd_refusal(flow, self.long_running)
        self.long_running.take(flow)
        return None

    def places(self, *, is_long_running: bool) -> Places | None:
        """Where a request has its place; None if that is not limited."""
        places = self.long_running if is_long_running else self.requests
        return None if places.limit is None else places

    @property
    def is_in_use(self) -> bool:
        return bool(self.long_running.counts or self.requests.counts)

    def _crowd_refusal(self, flow: str, places: Places) -> Refusal:
        count = places.counts[flow]
        allowed = f"under way, and FlowSchema {self._flow_schema!r} allows {places.limit}"
        if places is self.long_running:
            return Refusal(
                RejectReason.LONG_RUNNING,
                f"the flow has {counted(count, 'long-running request')} {allowed}"
                f" ({additions.LONG_RUNNING_LIMIT}); end one of them",
            )
        return Refusal(
            RejectReason.FLOW_REQUESTS,
            f"the flow has {counted(count, 'request')} {allowed}"
            f" ({additions.FLOW_REQUESTS_LIMIT}); try again later",
            1,
        )

    def foreseen_reason(
        self, flow: str, now_ns: int, *, is_long_running: bool, is_completion: bool = False
    ) -> RejectReason | None:
        """Why `refusal` would reject a request, without counting it; None if it would not."""
        if self.is_ban:
            return RejectReason.BAN
        places = self.places(is_long_running=is_long_running)
        if places is not None and places.is_full(flow):
            return RejectReason.LONG_RUNNING if is_long_running else RejectReason.FLOW_REQUESTS
        tokens = self.token_rate if is_completion else None
        if tokens is not None and not tokens.has_token(flow, now_ns):
            return RejectReason.TOKEN_RATE
        if self.rate is not None and not self.rate.has_token(flow, now_ns):
            return RejectReason.RATE
        return None


def count_rejection(
    queue_set: QueueSet, counters: FlowSchemaCounters, reason: RejectReason
) -> None:
    queue_set.rejected_total += 1
    counters.wait_rejected_ns.observe(0)
    if reason is RejectReason.BAN:
        counters.rejected_ban += 1
    elif reason is RejectReason.RATE:
        counters.rejected_rate += 1
    elif reason is RejectReason.TOKEN_RATE:
        counters.rejected_token_rate += 1
    elif reason is RejectReason.FLOW_REQUESTS:
        counters.rejected_flow_requests += 1
    else:
        counters.rejected_long_running += 1
