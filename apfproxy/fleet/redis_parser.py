"""Answers of a server that speaks Redis' protocol, of a bounded size.

redis-py takes an answer of any length, and follows negative lengths backwards: a server gone wrong
could fill the memory of every proxy, or hang it, while it parses.
"""

from __future__ import annotations

from typing import Any

from redis._parsers import _AsyncRESP2Parser
from redis.exceptions import InvalidResponse

from apfproxy.fleet.record import MAX_RECORD_BYTES

MAX_ANSWER_BYTES = MAX_RECORD_BYTES + (64 << 10)
"""A record, and what is around it; Sentinels and clusters say far less."""
MAX_PARTS = 4096
"""Texts, numbers and lists in an answer: a server says its role with four for each replica."""


class BoundedParser(_AsyncRESP2Parser):
    """redis-py's parser, which gives up an answer that is too long before it reads on.

    InvalidResponse, at which redis-py ends the connection.
    """

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)
        self._parts = 0  # of this answer
        self._bytes = 0

    async def read_response(self, disable_decoding: bool = False) -> Any:  # noqa: ANN401, FBT002 - redis-py's
        """The next answer; what came of one that was given up in the middle is parsed again."""
        self._parts = self._bytes = 0
        return await super().read_response(disable_decoding)

    async def _read_response(self, disable_decoding: bool = False) -> Any:  # noqa: ANN401, FBT002 - redis-py's
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidResponse(f"its answer has more than {MAX_PARTS} parts")
        return await super()._read_response(disable_decoding)

    async def _read(self, length: int) -> bytes:
        if length < 0:
            raise InvalidResponse("its answer has a length below 0")
        self._count(length)
        return await super()._read(length)

    async def _readline(self) -> bytes:
        line = await super()._readline()
        self._count(len(line))
        return line

    def _count(self, length: int) -> None:
        self._bytes += length
        if self._bytes > MAX_ANSWER_BYTES:
            raise InvalidResponse(f"its answer has more than {MAX_ANSWER_BYTES} bytes")
