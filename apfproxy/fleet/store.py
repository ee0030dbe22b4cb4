"""The place where a fleet's record lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from apfproxy.base.errors import OperatorError
from apfproxy.settings.store_address import StoreAddress, store_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import FleetSettings

    StoreOpener = Callable[[FleetSettings, str], "LedgerStore"]


class StoreError(Exception):
    """The store fails; the message says what to do, in one line, without a secret."""

    def __init__(self, message: str, *, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


@dataclass(frozen=True, slots=True)
class Stored:
    """A record in a store, None and "" while there is none; each write has another version."""

    data: bytes | None
    version: str


@dataclass(frozen=True, slots=True)
class Swapped:
    """Whether a swap is done; if not, another member wrote first.  The store has `stored` now."""

    is_done: bool
    stored: Stored


class LedgerStore(Protocol):
    """One record, which its members read and swap.

    Every method is bounded in time by the caller, who cancels it; a call after a failure connects
    again by itself.
    """

    async def read(self) -> Stored: ...

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        """Write if no member has since `seen`; StoreError, after which it may be written or not.

        `is_urgent` has the others told at once, where the store can tell them.
        """

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Call `on_urgent` on the loop when another member wrote something urgent, from now on.

        A store that cannot tell never calls it; members look once a period anyway.
        """

    async def close(self) -> None: ...


def address_of(fleet: FleetSettings) -> StoreAddress:
    """The address of the record, a text without secrets; OperatorError if it is none."""
    assert fleet.store is not None, "the caller has seen that there is a fleet"
    try:
        return store_address(fleet.store)
    except ValueError as error:
        raise OperatorError(f"fleet.store (--fleet): {error}") from error
