"""Answers of a server that speaks Redis' protocol, of a bounded size.

redis-py takes an answer of any length: a server gone wrong could fill the memory of every proxy
while they wait for its end.
"""

from __future__ import annotations

from redis._parsers import _AsyncRESP2Parser
from redis.exceptions import InvalidResponse

from apfproxy.fleet.record import MAX_RECORD_BYTES

MAX_ANSWER_BYTES = MAX_RECORD_BYTES + (64 << 10)
"""A record, and what is around it; Sentinels and clusters say far less."""


class BoundedParser(_AsyncRESP2Parser):
    """redis-py's parser, which gives up an answer that is too long before it reads on.

    InvalidResponse, at which redis-py ends the connection.
    """

    async def _read(self, length: int) -> bytes:
        self._check(length)
        return await super()._read(length)

    async def _readline(self) -> bytes:
        self._check(0)
        return await super()._readline()

    def _check(self, more: int) -> None:
        if self._pos + more > MAX_ANSWER_BYTES:
            raise InvalidResponse(f"its answer has more than {MAX_ANSWER_BYTES} bytes")
