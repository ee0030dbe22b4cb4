"""Counts the responses of a server by class, for the finder of its limit.

A class is a verb, a resource (or the begin of a path) and a size of the response by powers of four:
requests that take about the same of a server.  The number of classes is bounded: while all are in
use, further ones count as one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes

MOST_CLASSES: Final = 512
IDLE_TAKES: Final = 600
"""A class is forgotten after so many takes without a response: a minute, by ten a second."""
SEGMENTS: Final = 2
"""The segments of a path that tell classes apart where a server has no resources."""
LONGEST_NAME: Final = 128
MOST_NAMES: Final = 1024
"""Paths whose names are kept, since a name takes as long to make as all else."""
DIGIT: Final = re.compile(r"\d")
NS_PER_S: Final = 1_000_000_000
DISTRESS: Final = frozenset({429, 503, 504})
"""Statuses by which a server says that it has too much to do."""
TELLING_NS: Final = 5 * NS_PER_S
"""A request that may take less time tells nothing of the server if it is cut off."""

LoadClass = tuple[str, str, int]
OTHERS: Final[LoadClass] = ("", "", 0)


class LoadMeter:
    """Holds the responses since the last `take`, by class.

    Attributes:
        distress: Responses with a status of distress, ever.
    """

    def __init__(self) -> None:
        self.distress = 0
        self._taken: dict[LoadClass, list[int]] = {}  # seats, seats times nanoseconds
        self._known: dict[LoadClass, int] = {}  # the take that had responses of it last
        self._takes = 0
        self._names: dict[str, str] = {}  # of paths

    def add(
        self, attributes: RequestAttributes, body_bytes: int, seats: int, duration_ns: int
    ) -> None:
        """Count a response that the server gave in full, in the time from the dispatch on."""
        if attributes.is_resource_request:
            name = attributes.stored_as
        else:
            name = self._names.get(attributes.path) or self._name_of(attributes.path)
        each = (attributes.verb, name, body_bytes.bit_length() >> 1)
        found = self._taken.get(each)
        if found is None:
            found = self._taken.setdefault(self._known_class(each), [0, 0])
        found[0] += seats
        found[1] += seats * duration_ns

    def take(self) -> dict[LoadClass, tuple[float, float]]:
        """Class to the count of its responses and their seconds, each once a seat."""
        taken, self._taken = self._taken, {}
        self._takes += 1
        for each in taken:
            self._known[each] = self._takes
        return {each: (float(n), ns / NS_PER_S) for each, (n, ns) in taken.items()}

    def _known_class(self, each: LoadClass) -> LoadClass:
        if each in self._known:
            return each
        if len(each[0]) > LONGEST_NAME or len(each[1]) > LONGEST_NAME:
            return OTHERS
        if len(self._known) >= MOST_CLASSES:
            if OTHERS in self._taken:
                return OTHERS  # it has been tried to make room since the last take
            oldest = self._takes - IDLE_TAKES
            self._known = {known: take for known, take in self._known.items() if take > oldest}
            if len(self._known) >= MOST_CLASSES:
                return OTHERS
        self._known[each] = self._takes
        return each

    def _name_of(self, path: str) -> str:
        if len(self._names) >= MOST_NAMES:
            self._names.clear()
        name = path_class(path)
        if len(path) <= LONGEST_NAME:
            self._names[path] = name
        return name


def path_class(path: str) -> str:
    """The begin of a path, of which segments with digits count as one."""
    return "/".join(
        "*" if DIGIT.search(segment) else segment
        for segment in path.split("/", SEGMENTS + 1)[1 : SEGMENTS + 1]
    )
