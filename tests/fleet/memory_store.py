"""A store in this process, whose members are told of what is urgent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.fleet.store import Stored, StoreError, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import FleetSettings
    from apfproxy.sources.servers_behind import ServersBehind


@dataclass
class MemoryRecord:
    """One record for all members.

    Attributes:
        is_away: Whether it cannot be reached.
    """

    stored: Stored = field(default_factory=lambda: Stored(None, ""))
    is_away: bool = False
    writes: int = 0
    listeners: list[tuple[MemoryStore, Callable[[], None]]] = field(default_factory=list)

    def open_store(
        self,
        fleet: FleetSettings,  # noqa: ARG002 - of all stores
        key: str,  # noqa: ARG002 - as above
        behind: ServersBehind | None = None,  # noqa: ARG002 - as above
    ) -> MemoryStore:
        return MemoryStore(self)


class MemoryStore:
    def __init__(self, record: MemoryRecord) -> None:
        self._record = record

    async def read(self) -> Stored:
        if self._record.is_away:
            raise StoreError("is away")
        return self._record.stored

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        record = self._record
        if seen.version != (await self.read()).version:
            return Swapped(is_done=False, stored=record.stored)
        record.writes += 1
        record.stored = Stored(data, str(record.writes))
        for store, on_urgent in record.listeners if is_urgent else ():
            if store is not self:
                on_urgent()
        return Swapped(is_done=True, stored=record.stored)

    def listen(self, on_urgent: Callable[[], None]) -> None:
        self._record.listeners.append((self, on_urgent))

    async def close(self) -> None:
        """Nothing is left."""
