"""An informer, as in controllers: list them, then watch what becomes of them.

Rules, as client-go's reflector has them:

1. A watch goes on from the version of the list, then from that of the last event or bookmark.
2. A connection that ends is no error: another watch goes on from the last version.
3. 410 means that the server has forgotten what came after it: all is listed again, and what has
   changed since is made up from the difference.
"""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    from collections.abc import Callable

client: Any = importlib.import_module("kubernetes.client")
watch: Any = importlib.import_module("kubernetes.watch")

NUMBER = "example.com/number"
"""Annotation with the number of the write that made this version of an object."""

GONE = 410
AWAY = frozenset({429, 500, 502, 503, 504})
"""Answers of a server, or of a proxy before it, that is not there for the moment."""
PAUSE_S = 0.02
"""Between attempts to reach a server that is away."""
WATCH_S = 60
MOST_PAUSES = 1000
"""After so many the server does not come back."""
SILENCE_S = 30
"""A connection without a word for so long is given up."""


@dataclass(frozen=True)
class Seen:
    """Holds what an informer was told."""

    type: str
    name: str
    version: int
    number: int


class Away:
    """Waits while a server is away, and lets other errors pass."""

    def __init__(self) -> None:
        self._pause = threading.Event()
        self._left = MOST_PAUSES

    def wait(self, error: Exception) -> None:
        is_refused = isinstance(error, client.ApiException)
        is_away = (
            getattr(error, "status", 0) in AWAY
            if is_refused
            else isinstance(error, (HTTPError, OSError))
        )
        if not is_away or not self._left:
            raise error
        self._left -= 1
        self._pause.wait(PAUSE_S)


class Informer:
    """Follows the objects of a kind."""

    def __init__(self, list_all: Callable[..., Any]) -> None:
        self.seen: list[Seen] = []
        self.lists = 0
        self.watches = 0
        self._list_all = list_all
        self._known: dict[str, Seen] = {}
        self._version = ""
        self._away = Away()

    def run(self, is_last: Callable[[Seen], bool]) -> None:
        while not (self.seen and is_last(self.seen[-1])):
            try:
                if not self._version:
                    self._list()
                else:
                    self._watch(is_last)
            except Exception as error:  # noqa: BLE001  raised again unless the server is away
                if getattr(error, "status", 0) == GONE:
                    self._version = ""
                else:
                    self._away.wait(error)

    def _list(self) -> None:
        found = self._list_all(_request_timeout=SILENCE_S)
        self.lists += 1
        items = {item.metadata.name: item for item in found.items}
        version = found.metadata.resource_version
        for name in sorted(self._known.keys() - items.keys()):
            self._see(Seen("DELETED", name, int(version), self._known[name].number))
        for name, item in items.items():
            known = self._known.get(name)
            if known is None or str(known.version) != item.metadata.resource_version:
                self._see(seen("MODIFIED" if known else "ADDED", item))
        self._version = version

    def _watch(self, is_last: Callable[[Seen], bool]) -> None:
        """Take what happens, until the connection ends or it has seen the last."""
        self.watches += 1
        events = watch.Watch().stream(
            self._list_all,
            resource_version=self._version,
            allow_watch_bookmarks=True,
            timeout_seconds=WATCH_S,
            _request_timeout=SILENCE_S,
        )
        for event in events:
            self._version = event["raw_object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._see(seen(event["type"], event["object"]))
                if is_last(self.seen[-1]):
                    return

    def _see(self, one: Seen) -> None:
        self.seen.append(one)
        if one.type == "DELETED":
            del self._known[one.name]
        else:
            self._known[one.name] = one


def seen(event_type: str, obj: Any) -> Seen:  # noqa: ANN401  an object of the client
    metadata = obj.metadata
    number = int((metadata.annotations or {}).get(NUMBER, 0))
    return Seen(event_type, metadata.name, int(metadata.resource_version), number)
