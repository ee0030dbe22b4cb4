"""How long a request may take, as kube-apiserver reads the `timeout` parameter."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes

_UNIT_NS = {
    "ns": 1,
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_MAX_TEXT = 64
_MAX_NS = (1 << 63) - 1


class DeadlineError(ValueError):
    """The `timeout` parameter is not a duration."""


@lru_cache(maxsize=256)  # clients have a few; long ones raise
def parse_duration_ns(text: str) -> int:
    """Nanoseconds of a duration in the notation of Go's `time.ParseDuration`, such as `1m30s`."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total = position = 0
    while position < len(rest) and len(rest) <= _MAX_TEXT:
        term = _TERM.match(rest, position)
        if term is None or not (term[1] or term[2]):
            break
        unit, fraction = _UNIT_NS[term[3]], term[2] or ""
        total += int(term[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = term.end()
    if not rest or position < len(rest) or total > _MAX_NS:
        raise DeadlineError(f"{text[:_MAX_TEXT]!r} is not a duration such as 30s or 1m30s")
    return sign * total


def request_timeout_ns(attributes: RequestAttributes, default_ns: int) -> int:
    """How long a request may take; of a long-running one, how long until it has its seats.

    The first `timeout` parameter counts, unless the request is long-running, where it may mean
    anything.  It can only shorten the server's own limit, `default_ns`; 0 and negative durations
    are ignored.

    Source: kubernetes/apiserver pkg/endpoints/filters/request_deadline.go.
    """
    values = attributes.query.get("timeout")
    if not values or not values[0] or attributes.long_running:
        return default_ns
    asked = parse_duration_ns(values[0])
    return min(asked, default_ns) if asked > 0 else default_ns
