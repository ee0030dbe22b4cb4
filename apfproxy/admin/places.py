"""Places for the connections of the admin listener or the API server: a bounded number.

1. When all places are taken, a new connection gets the place of another one, which is closed.  That
   is, of the client address with the most connections, the one that has been idle for longest, or
   else the one with the oldest request.  A client that opens connections without end closes mostly
   its own, and a health check always gets through.
2. Answers that last, such as watches, keep their places, but never have all of them.
3. A connection whose first head does not come within `HEAD_NS`, or whose answer is not taken within
   `ANSWER_NS`, is cut.
4. A TLS handshake has a place, too, from the moment its connection is accepted.
5. All of this is counted, and logged once a minute.
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
IDLE_NS = 1_000_000_000
"""Connections that were idle for so long are closed before connections with requests."""
MIN_PLACES = 8
"""A listener has at least so many, whatever the system allows."""
KEPT_PLACES = 16
"""For answers that do not last; but at most a quarter of all."""

LASTING_TEXT = "as many watches and event streams are open as may be; close one, or try again\n"
RETRY_S = "1"

log = logging.getLogger(__name__)


class Ending(enum.StrEnum):
    """Why a connection was closed, or a request refused; the label `reason` of the metric."""

    REPLACED = "replaced"
    """Another connection came when all places were taken."""
    LATE = "late"
    """Its request did not come in time, or its answer was not taken in time."""
    LONG_LIVED = "long-lived"
    """As many answers that last were there as may be; it was answered with 503."""
    HANDSHAKE = "handshake"
    """Its TLS handshake failed."""


WHAT_ENDED = {
    Ending.REPLACED: "all are taken, and one made way for another",
    Ending.LATE: "cut one whose request did not come, or whose answer was not taken, in time",
    Ending.HANDSHAKE: "a TLS handshake failed",
    Ending.LONG_LIVED: "refused a watch or an event stream, since as many are open as may be",
}
"""What the log says of each."""


class Place(asyncio.Protocol):
    """A connection between the loop and its protocol, to which it passes all events.

    Attributes:
        address: Of the client; "" over a Unix socket.
        is_handling: Whether its request is being answered.
        is_lasting: Whether that answer lasts for as long as the client wants.
        has_asked: Whether a whole head has come.
        began_ns: When its last request came; when it was accepted, before the first one.
        idle_ns: When its last answer ended; when it was accepted, before the first one.
    """

    def __init__(self, places: Places, inner: asyncio.Protocol) -> None:
        self._places = places
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._cancel: Callable[[], object] | None = None
        """Ends the handshake; None if there was none."""
        self._is_served = False
        self.address = ""
        self.is_handling = False
        self.is_lasting = False
        self.has_asked = False
        self.began_ns = 0
        self.idle_ns = 0

    def __repr__(self) -> str:
        state = "handling" if self.is_handling else "idle"
        return f"<Place of {self.address or 'nobody'}, {state}>"

    @property
    def transport(self) -> asyncio.Transport | None:
        """Of the connection; None during its handshake."""
        return self._transport

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: no handler, and no answer that is not taken yet."""
        transport = self._transport
        return not self.is_handling and (transport is None or not transport.get_write_buffer_size())

    def await_handshake(self, address: str, cancel: Callable[[], object]) -> None:
        """Take a place before the connection is made; `cancel` ends its handshake."""
        self.address, self._cancel = address, cancel
        self._places.take(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, unless the handshake had one."""
        # Those of uvloop are transports by what they do, not by their class.
        self._transport = cast("asyncio.Transport", transport)
        if self._cancel is None:
            peer = transport.get_extra_info("peername")
            self.address = str(peer[0]) if isinstance(peer, tuple) else ""
            self._places.take(self)
        elif not self._places.meet(self):
            transport.abort()  # type: ignore[attr-defined]  # it made way when it was through
            return
        self._is_served = True
        self._inner.connection_made(transport)

    def abort(self) -> None:
        """Cut the connection, or end its handshake."""
        if self._transport is not None:
            self._transport.abort()
        elif self._cancel is not None:
            self._cancel()

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._places.give_back(self)
        if self._is_served:
            self._inner.connection_lost(exc)


class Places:
    """The connections of one listener.

    Attributes:
        limit: Of all connections; at least `MIN_PLACES`.
        lasting_limit: Of answers that last; fewer, so that others always have some.
        ended: Connections that lost their place, and requests that did not get one, by reason.
    """

    def __init__(self, name: str, limit: int, now_ns: Callable[[], int]) -> None:
        self._name = name
        self.limit = max(limit, MIN_PLACES)
        self.lasting_limit = self.limit - min(KEPT_PLACES, self.limit // 4)
        self._now_ns = now_ns
        self._open: dict[Place, None] = {}
        self._by_transport: dict[asyncio.BaseTransport, Place] = {}
        self._by_address: dict[str, int] = {}
        self._lasting = 0
        self.ended: dict[str, int] = dict.fromkeys(Ending, 0)
        self._log = RareLog(log, now_ns)

    def __repr__(self) -> str:
        return f"<Places of {self._name}: {len(self)} of {self.limit} taken>"

    def __iter__(self) -> Iterator[Place]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def take(self, place: Place) -> None:
        """Take a place for a new connection, if need be that of another one."""
        now_ns = place.began_ns = place.idle_ns = self._now_ns()
        if len(self._open) >= self.limit:
            self._end(self._victim(now_ns), Ending.REPLACED)
        self._open[place] = None
        self.meet(place)
        self._by_address[place.address] = self._by_address.get(place.address, 0) + 1

    def meet(self, place: Place) -> bool:
        """Know a place by its transport from now on; False if the place is lost."""
        if place not in self._open:
            return False
        if place.transport is not None:
            self._by_transport[place.transport] = place
        return True

    def give_back(self, place: Place) -> None:
        """A connection is gone; harmless if it has lost its place already."""
        if place not in self._open:
            return
        del self._open[place]
        if place.transport is not None:
            del self._by_transport[place.transport]
        left = self._by_address[place.address] - 1
        if left:
            self._by_address[place.address] = left
        else:
            del self._by_address[place.address]

    def of(self, transport: asyncio.BaseTransport | None) -> Place | None:
        """The place of a connection; None if it has none any more."""
        return None if transport is None else self._by_transport.get(transport)

    @property
    def has_room_for_lasting(self) -> bool:
        """Whether one more answer that lasts may begin."""
        return self._lasting < self.lasting_limit

    def refuse_lasting(self) -> None:
        """Count a request that was refused since there is no room."""
        self._count(Ending.LONG_LIVED)

    def end_handshake(self, place: Place) -> None:
        """Give the place of a handshake back that failed."""
        if place in self._open:
            self.give_back(place)
            self._count(Ending.HANDSHAKE)

    @contextlib.contextmanager
    def handling(self, place: Place, *, is_lasting: bool) -> Iterator[None]:
        """Keep account of a request while it is handled."""
        self._lasting += is_lasting
        place.has_asked = place.is_handling = True
        place.is_lasting = is_lasting
        place.began_ns = self._now_ns()
        try:
            yield
        finally:
            self._lasting -= is_lasting
            place.is_handling = place.is_lasting = False
            place.idle_ns = self._now_ns()

    def sweep(self) -> None:
        """Cut the connections whose time is over."""
        now_ns = self._now_ns()
        for place in list(self._open):
            if place.is_idle:
                is_late = not place.has_asked and now_ns - place.began_ns > HEAD_NS
            else:
                is_late = not place.is_lasting and now_ns - place.began_ns > ANSWER_NS
            if is_late:
                self._end(place, Ending.LATE)

    def _victim(self, now_ns: int) -> Place:
        """The connection to close; there is always one whose answer does not last."""

        def rank(place: Place) -> tuple[int, bool, int]:
            is_idle = place.is_idle
            age_ns = now_ns - (place.idle_ns if is_idle else place.began_ns)
            return self._by_address[place.address], is_idle and age_ns >= IDLE_NS, age_ns

        return max((place for place in self._open if not place.is_lasting), key=rank)

    def _end(self, place: Place, ending: Ending) -> None:
        self.give_back(place)
        place.abort()
        self._count(ending)

    def _count(self, ending: Ending) -> None:
        self.ended[ending] += 1
        self._log.log(
            logging.WARNING,
            ending,
            "the %s listener, of at most %d connections: %s",
            self._name,
            self.limit,
            WHAT_ENDED[ending],
        )
