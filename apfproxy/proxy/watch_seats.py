"""When a WATCH gives its seats back: once its initial events are through.

kube-apiserver knows that from inside.  From outside there are three signs: the bookmark that ends
the initial events, if the client asked for them; else a silence after the head; else a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.request.attributes import RequestAttributes, parse_bool

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.settings import WatchSettings

INITIAL_EVENTS_END = b"k8s.io/initial-events-end"
"""The annotation of that bookmark; it stands as these bytes in JSON and in protobuf alike."""


class WatchSeats:
    """Follows one watch from its head on, and calls `give_back` at most once."""

    __slots__ = ("_give_back", "_has_data", "_loop", "_silence_s", "_tail", "_timer", "_until_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: WatchSettings,
        attributes: RequestAttributes,
        give_back: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._give_back: Callable[[], object] | None = give_back
        self._silence_s = settings.silence_s
        self._has_data = False
        awaits_bookmark = asks_for_initial_events(attributes)
        self._tail = b"" if awaits_bookmark else None
        limit_s = settings.bookmark_limit_s if awaits_bookmark else settings.limit_s
        self._until_s = loop.time() + limit_s
        first_s = limit_s if awaits_bookmark else min(settings.silence_s, limit_s)
        self._timer = loop.call_later(first_s, self._on_timer)

    def on_data(self, data: bytes) -> None:
        self._has_data = True
        if self._tail is not None:
            window = self._tail + data
            if INITIAL_EVENTS_END in window:
                self._end()
            else:
                self._tail = window[-len(INITIAL_EVENTS_END) + 1 :]

    def cancel(self) -> None:
        self._give_back = None
        self._tail = None
        self._timer.cancel()

    def _on_timer(self) -> None:
        left_s = self._until_s - self._loop.time()
        # One timer that looks back costs less than one that every event arms again.
        if self._tail is None and self._has_data and left_s > 0:
            self._has_data = False
            self._timer = self._loop.call_later(min(self._silence_s, left_s), self._on_timer)
        else:
            self._end()

    def _end(self) -> None:
        give_back = self._give_back
        self.cancel()
        if give_back is not None:
            give_back()


def asks_for_initial_events(attributes: RequestAttributes) -> bool:
    values = attributes.query.get("sendInitialEvents")
    return values is not None and parse_bool(values[0])
