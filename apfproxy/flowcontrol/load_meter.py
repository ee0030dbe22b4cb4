"""Counts the responses of a server by class, for who looks for its limit.

A class is a verb, a resource (or the begin of a path) and a size of the response by powers of four:
requests that take about the same of a server.  There are so many classes at most; what comes after
is of one class for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes

MOST_CLASSES: Final = 1024
SEGMENTS: Final = 2
"""The segments of a path that tell classes apart where a server has no resources."""
LONGEST_NAME: Final = 128
NS_PER_S: Final = 1_000_000_000

LoadClass = tuple[str, str, int]
OTHERS: Final[LoadClass] = ("", "", 0)


class LoadMeter:
    """Holds the responses since the last `take`, by class."""

    def __init__(self) -> None:
        self._taken: dict[LoadClass, tuple[int, int]] = {}  # seats, seats times nanoseconds
        self._known: set[LoadClass] = set()

    def add(
        self, attributes: RequestAttributes, body_bytes: int, seats: int, duration_ns: int
    ) -> None:
        """Count a response that the server gave in full, in the time from the dispatch on."""
        if attributes.is_resource_request:
            name = attributes.stored_as
        else:
            name = path_class(attributes.path)
        each = (attributes.verb, name, body_bytes.bit_length() >> 1)
        found = self._taken.get(each)
        if found is None:
            each = self._known_class(each)
            found = self._taken.get(each, (0, 0))
        self._taken[each] = (found[0] + seats, found[1] + seats * duration_ns)

    def take(self) -> dict[LoadClass, tuple[float, float]]:
        """Class to the count of its responses and their seconds, each once a seat."""
        taken, self._taken = self._taken, {}
        return {each: (float(n), ns / NS_PER_S) for each, (n, ns) in taken.items()}

    def _known_class(self, each: LoadClass) -> LoadClass:
        if each not in self._known:
            if len(self._known) >= MOST_CLASSES or len(each[1]) > LONGEST_NAME:
                return OTHERS
            self._known.add(each)
        return each


def path_class(path: str) -> str:
    """The begin of a path, of which segments with digits count as one."""
    segments = path.split("/", SEGMENTS + 1)[1 : SEGMENTS + 1]
    return "/".join("*" if any(map(str.isdigit, segment)) else segment for segment in segments)
