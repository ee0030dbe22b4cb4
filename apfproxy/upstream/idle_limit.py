"""How long a server keeps connections that are idle, as far as it shows.

A request that is sent while the server closes its connection fails, and most must not be sent
twice.  Servers keep idle connections for 2 s (gunicorn) or 5 s (uvicorn, Node, Apache).  Each
teaches it:

1. By a connection that it closes after some time without a request: none is used that late again.
2. By its `Keep-Alive: timeout=N` field.

What was learned by 1. is forgotten slowly, since a server that restarts closes connections of any
age.  Where two of very different ages end in one moment, that was it, and nothing is learned; and
what was learned right before a server was gone is taken back.
"""

from __future__ import annotations

import re
from typing import Final

MIN_AGE_NS: Final = 250_000_000  # no server closes idle connections sooner; one that ends does
MOMENT_NS: Final = 250_000_000  # in which a server that ends closes its connections
ENDING_NS: Final = 10_000_000_000  # a server that is gone was ending for so long before
FORGOTTEN_NS: Final = 600_000_000_000  # after this time connections are tried that are twice as old
_MOST_DOUBLINGS: Final = 20
_TIMEOUT: Final = re.compile(rb"timeout[ \t]*=[ \t]*\"?([0-9]{1,9})", re.IGNORECASE)


class IdleLimit:
    def __init__(self) -> None:
        self._announced_ns = 0  # by its field; 0 for never
        self._limit_ns = 0  # learned; 0 for none
        self._learned_ns = 0  # when that was
        self._age_ns = 0  # of the connection that taught it
        self._before_ns = 0  # what was in force before
        self._ends_ns = 0  # until then, it is a server that ends which closes connections

    def announced(self, field: bytes) -> None:
        found = _TIMEOUT.search(field)
        self._announced_ns = _sooner(int(found[1]) * 1_000_000_000) if found else 0

    def closed(self, age_ns: int, now_ns: int) -> bool:
        """The server closed a connection that old; whether that is a lesson."""
        if now_ns < self._ends_ns:
            self._ends_ns = now_ns + MOMENT_NS
            return False
        if self._age_ns and now_ns - self._learned_ns <= MOMENT_NS:
            if abs(age_ns - self._age_ns) > max(self._age_ns // 2, 1_000_000_000):
                self._limit_ns, self._learned_ns = self._before_ns, now_ns
                self._ends_ns = now_ns + MOMENT_NS
            elif MIN_AGE_NS <= age_ns < self._age_ns:
                self._limit_ns = _sooner(age_ns)
            return False
        before_ns, limit_ns = self._at(now_ns), _sooner(age_ns)
        if age_ns < MIN_AGE_NS or (before_ns and limit_ns >= before_ns):
            return False
        self._before_ns, self._limit_ns = before_ns, limit_ns
        self._age_ns, self._learned_ns = age_ns, now_ns
        return True

    def gone(self, now_ns: int) -> None:
        """The server is gone: it may have closed connections since it was ending."""
        if self._age_ns and now_ns - self._learned_ns <= ENDING_NS:
            self._limit_ns, self._age_ns = self._before_ns, 0

    def limit_ns(self, now_ns: int) -> int:
        """For how long a connection may be idle and still be used; 0 where nothing is known."""
        learned_ns = self._at(now_ns)
        if not learned_ns or not self._announced_ns:
            return learned_ns or self._announced_ns
        return min(learned_ns, self._announced_ns)

    def _at(self, now_ns: int) -> int:
        doublings = (now_ns - self._learned_ns) // FORGOTTEN_NS
        return self._limit_ns << min(doublings, _MOST_DOUBLINGS)

    def __repr__(self) -> str:
        return f"<IdleLimit {self._limit_ns / 1e9:g} s, announced {self._announced_ns / 1e9:g} s>"


def _sooner(age_ns: int) -> int:
    """So much sooner that neither a sweep nor the way to the server makes it too late."""
    return age_ns * 9 // 10
