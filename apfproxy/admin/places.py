"""Places for the connections of the admin listener or the API server: a bounded number.

1. When all are taken, a new connection gets the place of another one, which is closed: of the
   client address with the most connections, the one that has been idle for longest, or else the one
   with the oldest request.  A client that opens connections without end closes mostly its own.
2. Responses that last, such as watches, keep their places, but never have all of them.
3. A connection is cut whose first head does not come within `HEAD_NS`, whose response is not taken
   within `ANSWER_NS`, or whose client takes nothing for `STALLED_NS`.
4. A TLS handshake has a place, too, from the moment its connection is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from typing import TYPE_CHECKING, cast

from apfproxy.base.rare_log import RareLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BACKLOG = 1024
"""Connections that the kernel holds for us; a client beyond tries again after a second."""
IDLE_S = 90.0
"""Between requests, and for the head of one: Kubernetes' time for idle connections."""
HEAD_NS = 20_000_000_000
"""From the connection to the end of its first request's head; later heads have `IDLE_S`."""
ANSWER_NS = 90_000_000_000
"""From a head to the last byte of its answer that the client takes; the API's own limit is 60 s."""
STALLED_NS = 60_000_000_000
IDLE_NS = 1_000_000_000
"""Connections that were idle for so long are closed before connections with requests."""
MIN_PLACES = 8
"""A listener has at least so many, whatever the system allows."""
KEPT_PLACES = 16
"""For answers that do not last; but at most a quarter of all."""

log = logging.getLogger(__name__)


class Ending(enum.StrEnum):
    """Why a connection was closed, or a request refused; the label `reason` of the metric."""

    REPLACED = "replaced"
    LATE = "late"
    LONG_LIVED = "long-lived"
    HANDSHAKE = "handshake"


WHAT_ENDED = {
    Ending.REPLACED: "all are taken, and one made way for another",
    Ending.LATE: "cut one whose request did not come, or whose answer was not taken, in time",
    Ending.HANDSHAKE: "a TLS handshake failed",
    Ending.LONG_LIVED: "refused a watch or an event stream, since as many are open as may be",
}


class Place(asyncio.Protocol):
    """A connection between the loop and its protocol, to which it passes all events.

    Attributes:
        handshake: Cancelled where its place is lost; `transport` is None until it ends.
        is_lasting: Whether the response under way lasts for as long as the client wants.
        began_ns: When its last request came; when it was accepted, before the first one.
        idle_ns: When its last response ended; when it was accepted, before the first one.
    """

    def __init__(self, places: Places, inner: asyncio.Protocol, address: str) -> None:
        self._places = places
        self.inner = inner
        self.address = address
        self.transport: asyncio.Transport | None = None
        self.handshake: asyncio.Future[None] | None = None
        self.is_handling = self.is_lasting = self.has_asked = False
        self.began_ns = self.idle_ns = self._moved_ns = places.now_ns()
        self._unsent = 0
        places.take(self)

    def __repr__(self) -> str:
        state = "handling" if self.is_handling else "idle"
        return f"<Place of {self.address or 'no one'}, {state}>"

    @property
    def unsent(self) -> int:
        """Bytes that the client is yet to take."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: no handler, and no answer that is not taken yet."""
        return not self.is_handling and not self.unsent

    def look(self, now_ns: int) -> None:
        unsent = self.unsent
        if not unsent or unsent != self._unsent:
            self._unsent, self._moved_ns = unsent, now_ns

    def is_late(self, now_ns: int) -> bool:
        if self.is_idle:
            return not self.has_asked and now_ns - self.began_ns > HEAD_NS
        is_slow = not self.is_lasting and now_ns - self.began_ns > ANSWER_NS
        return is_slow or now_ns - self._moved_ns > STALLED_NS

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are transports by what they do, not by their class.
        self.transport = cast("asyncio.Transport", transport)
        if self in self._places:
            self.inner.connection_made(transport)
        else:
            self.abort()  # it made way when it was through

    def data_received(self, data: bytes) -> None:
        """Pass it on, in a form that is empty afterwards.

        aiohttp's error for a malformed head is in a cycle with the frames of these calls, which the
        garbage collector frees long after the connection is gone.
        """
        view = memoryview(data)
        del data
        with view:
            self.inner.data_received(cast("bytes", view))

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.give_back(self)
        self.inner.connection_lost(exc)


class Places:
    """The connections of one listener; `ended` counts lost places and refusals by reason."""

    def __init__(self, name: str, limit: int, now_ns: Callable[[], int]) -> None:
        self._name = name
        self.limit = max(limit, MIN_PLACES)
        self.lasting_limit = self.limit - min(KEPT_PLACES, self.limit // 4)
        self.now_ns = now_ns
        self._open: dict[asyncio.BaseProtocol, Place] = {}  # by what they pass events to
        self._by_address: dict[str, int] = {}
        self._lasting = 0
        self.ended: dict[str, int] = dict.fromkeys(Ending, 0)
        self._log = RareLog(log, now_ns)

    def __repr__(self) -> str:
        return f"<Places of {self._name}: {len(self)} of {self.limit} taken>"

    def __iter__(self) -> Iterator[Place]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, place: Place) -> bool:
        return place.inner in self._open

    def take(self, place: Place) -> None:
        """Take a place for a new connection, if need be that of another one."""
        if len(self) >= self.limit:
            self._end(self._victim(), Ending.REPLACED)
        self._open[place.inner] = place
        self._by_address[place.address] = self._by_address.get(place.address, 0) + 1

    def give_back(self, place: Place) -> bool:
        if self._open.pop(place.inner, None) is None:
            return False
        self._by_address[place.address] -= 1
        if not self._by_address[place.address]:
            del self._by_address[place.address]
        return True

    def of(self, inner: asyncio.BaseProtocol) -> Place | None:
        return self._open.get(inner)

    @property
    def has_room_for_lasting(self) -> bool:
        return self._lasting < self.lasting_limit

    @contextlib.contextmanager
    def handling(self, place: Place, *, is_lasting: bool) -> Iterator[None]:
        self._lasting += is_lasting
        place.has_asked = place.is_handling = True
        place.is_lasting = is_lasting
        place.began_ns = self.now_ns()
        try:
            yield
        finally:
            self._lasting -= is_lasting
            place.is_handling = place.is_lasting = False
            place.idle_ns = self.now_ns()

    def sweep(self) -> None:
        now_ns = self.now_ns()
        for place in self:
            place.look(now_ns)
            if place.is_late(now_ns):
                self._end(place, Ending.LATE)

    def _victim(self) -> Place:
        """The connection to close; there is always one whose answer does not last."""
        now_ns = self.now_ns()

        def rank(place: Place) -> tuple[int, bool, int]:
            is_idle = place.is_idle
            age_ns = now_ns - (place.idle_ns if is_idle else place.began_ns)
            return self._by_address[place.address], is_idle and age_ns >= IDLE_NS, age_ns

        return max((place for place in self if not place.is_lasting), key=rank)

    def _end(self, place: Place, ending: Ending) -> None:
        self.give_back(place)
        place.abort()
        self.count(ending)

    def count(self, ending: Ending) -> None:
        self.ended[ending] += 1
        self._log.log(
            logging.WARNING,
            ending,
            "the %s listener, of at most %d connections: %s",
            self._name,
            self.limit,
            WHAT_ENDED[ending],
        )
