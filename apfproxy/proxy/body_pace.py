"""How fast bodies move: one that a client must send in time, and one whose time is not limited."""

from __future__ import annotations

from typing import Final

LOOKS: Final = 4
"""At a body in a request's time, so that it is cut after no more than a quarter above it."""
_NS_PER_S: Final = 1_000_000_000


class BodyRate:
    """The rate of a request's body that holds up others.

    Attributes:
        waited_ns: How long only the client has been waited for.
    """

    __slots__ = ("_first_bytes", "waited_ns")

    def __init__(self, received_bytes: int) -> None:
        """`received_bytes`: of the body so far; they do not count."""
        self._first_bytes = received_bytes
        self.waited_ns = 0

    def is_below(self, least: int, received_bytes: int) -> bool:
        """Whether it comes slower than `least` bytes a second."""
        return (received_bytes - self._first_bytes) * _NS_PER_S < least * self.waited_ns


class BodyFlow:
    """Bodies under way, which may take any time as long as they move.

    `timeout_ns` says for how long they may stand still; `moved_bytes` are those of both.
    """

    __slots__ = ("_moved_bytes", "_moved_ns", "_timeout_ns")

    def __init__(self, timeout_ns: int, now_ns: int, moved_bytes: int) -> None:
        self._timeout_ns = timeout_ns
        self._moved_ns = now_ns
        self._moved_bytes = moved_bytes

    def look(self, now_ns: int, moved_bytes: int, least: int) -> None:
        """Note whether they moved, by `least` bytes a second."""
        moved = moved_bytes - self._moved_bytes
        if moved and moved * _NS_PER_S >= least * (now_ns - self._moved_ns):
            self._moved_ns = now_ns
            self._moved_bytes = moved_bytes

    def next_look_ns(self, now_ns: int) -> int:
        return min(self._moved_ns + self._timeout_ns, now_ns + self._timeout_ns // LOOKS)

    def stands_still(self, now_ns: int) -> bool:
        return now_ns - self._moved_ns >= self._timeout_ns
