"""Budgets for a client's frames that bring nothing.

Each kind of frame has a bucket.  It fills by time, and by what the client does that is of use:
requests that are answered, and parts of responses, for which it has to say that it has room again.
Who empties one has its connection closed.

1. A stream that is reset before its response begins (rapid reset, CVE-2023-44487), by any side: a
   client can have the proxy do so by breaking a rule (MadeYouReset, CVE-2025-8671).  Who gives up
   after a second, while a server hangs, is not counted: closing would end the watches beside it.
2. Frames about the connection, and of streams that are gone (SETTINGS, PING, PRIORITY, GOAWAY,
   RST_STREAM, unknown ones; CVE-2019-9512, 9513, 9515).
3. WINDOW_UPDATE frames, of which a response needs some for each of its parts (CVE-2019-9511, 9517).
4. Frames of no length: DATA, and CONTINUATION of any length (CVE-2019-9518, CVE-2024-27316).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.proxy.counters import Flood

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.proxy.http2.nghttp2 import Session

_NS_PER_S: Final = 1_000_000_000

# Of each kind: how many at once, and how many a second from then on; a client that works is far
# below.  The library itself allows 1000 resets, then 33 a second, and 1000 unsent responses to
# PING.
_RESETS: Final = (500, 50)
_CONTROL: Final = (1000, 100)
_PATIENT_NS: Final = 1_000_000_000
_WINDOWS: Final = (2000, 200)
_EMPTY: Final = (200, 20)

# How many more each response earns, and each part of one.
_CONTROL_PER_ANSWER: Final = 4
_WINDOWS_PER_ANSWER: Final = 2
_WINDOWS_PER_PART: Final = 8
"""Envoy allows 10; most clients send one for the stream, and one for the connection."""
_MAX_WINDOWS_KEPT: Final = _WINDOWS_PER_PART * (1 << 31) // (1 << 14)
"""A client that was busy reads what came meanwhile, and says so at once: of the largest window that
there is, in parts of 16 KiB.  So many frames at once take the library a sixteenth of a second."""
_EMPTY_PER_ANSWER: Final = 4


class _Bucket:
    """Tokens for frames of one kind: so many at most, and so many a second from then on.

    Of those that were earned `max_kept` are kept while it is full.
    """

    def __init__(
        self, kind: Flood, bounds: tuple[int, int], now_ns: int, max_kept: int = 0
    ) -> None:
        self.kind = kind
        self._most, self._per_s = bounds
        self._max_kept = max_kept
        self._tokens = float(self._most)
        self._kept = 0.0
        self._filled_ns = now_ns
        self._seen = 0

    def take(self, seen: int, earned: int, now_ns: int) -> bool:
        """Pay for frames up to `seen` with `earned` tokens more; whether there was enough."""
        most = float(self._most)
        filled = self._tokens + (now_ns - self._filled_ns) * self._per_s / _NS_PER_S
        filled = min(filled, most) + earned
        kept = min(self._kept + max(filled - most, 0.0), float(self._max_kept))
        left = min(filled, most) - (seen - self._seen)
        if left < 0.0:
            taken = min(-left, kept)
            left += taken
            kept -= taken
        self._tokens = left
        self._kept = kept
        self._filled_ns = now_ns
        self._seen = seen
        return left >= 0.0


class FrameBudget:
    def __init__(self, now_ns: int) -> None:
        self._resets = _Bucket(Flood.RESETS, _RESETS, now_ns)
        self._control = _Bucket(Flood.CONTROL, _CONTROL, now_ns)
        self._windows = _Bucket(Flood.WINDOW_UPDATES, _WINDOWS, now_ns, _MAX_WINDOWS_KEPT)
        self._empty = _Bucket(Flood.EMPTY_FRAMES, _EMPTY, now_ns)
        self._requests = 0
        self._data_sent = 0
        self._patient = 0  # resets after a wait

    def reset_after(self, waited_ns: int) -> None:
        """A stream was reset whose client had waited so long for its response."""
        self._patient += waited_ns >= _PATIENT_NS

    def take(self, counts: Session, now_ns: int) -> Flood | None:
        resets = counts.resets + counts.own_resets
        requests, data_sent = counts.requests - resets, counts.data_sent
        answered, parts = max(0, requests - self._requests), data_sent - self._data_sent
        self._requests, self._data_sent = max(requests, self._requests), data_sent
        empty = counts.empty_data + counts.continuations
        control = counts.nuisances - resets - counts.window_updates - empty
        windows_earned = _WINDOWS_PER_ANSWER * answered + _WINDOWS_PER_PART * parts
        floods: Iterable[tuple[_Bucket, int, int]] = (
            (self._resets, resets - self._patient, answered),
            (self._control, control, _CONTROL_PER_ANSWER * answered + parts),
            (self._windows, counts.window_updates, windows_earned),
            (self._empty, empty, _EMPTY_PER_ANSWER * answered),
        )
        found: Flood | None = None
        for bucket, seen, earned in floods:
            if not bucket.take(seen, earned, now_ns):
                found = found or bucket.kind
        return found
