"""Names of anonymous clients that are not verified, which tell their flows apart.

Such a name is for flow control and the log alone.  Its user is in `system:unauthenticated` and in
no other group, may not impersonate, and stays `system:anonymous` for the upstream.  A prefix says
where the name is from, so that no client can take a name of another kind, nor one that begins with
`system:`.  Yet a client that knows a name can send it, and one client can send many.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.base.rare_log import RareLog
from apfproxy.request.attributes import BY_ADDRESS

if TYPE_CHECKING:
    from apfproxy.base.clock import Clock

NS_PER_S = 1_000_000_000
# A name keeps its place for so long after it was seen: clients that are there ask more often.
LEASE_NS = 30 * NS_PER_S
# A name is admitted again after this: before another can have its place.
RENEWAL_NS = LEASE_NS // 2
MAX_PLACES = 8192  # of all addresses: 1.6 MB, and some milliseconds to free when all end at once

logger = logging.getLogger(__name__)


class NamesOfAddresses:
    """Bounds how many flows one address can have by names that are not verified.

    A client with a new name in each request would else have the share of as many clients.  A name
    holds its place for `LEASE_NS` after it was admitted last; further names of an address are one
    flow.  One address has `most` places at most, >= 1.  All places together are bounded, too: they
    keep hashes, 200 bytes each.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        # By hashes of address and name, in the order in which they end: when that is, and the
        # address.  Two with one hash, which Python seeds, would have one place.
        self._places: dict[int, tuple[int, str]] = {}
        self._of_address: dict[str, int] = {}
        # Who showed too many names last, None for all addresses together; until when that counts.
        self._crowded: tuple[str | None, int] = "", 0
        self._log = RareLog(logger, clock.now_ns)

    def admit(self, name: str, address: str) -> bool:
        """Give a name a place of its address for a time, or again; whether it has one."""
        now_ns = self._clock.now_ns()
        self._free_places(now_ns)
        key = hash((name, address))
        if self._places.pop(key, None) is None:
            held = self._of_address.get(address, 0)
            if held >= self._most or len(self._places) >= MAX_PLACES:
                is_crowded = held >= self._most
                self._crowded = address if is_crowded else None, now_ns + LEASE_NS
                key_of_log = "crowded" if is_crowded else "all crowded"
                self._log.log(logging.WARNING, key_of_log, "%s", self.problem())
                return False
            self._of_address[address] = held + 1
        self._places[key] = now_ns + LEASE_NS, address
        return True

    def problem(self) -> str:
        """The reason why a name got no place lately, and what to do; "" if all had one."""
        address, until_ns = self._crowded
        if until_ns <= self._clock.now_ns():
            return ""
        if address is None:
            return (
                f"all addresses together show more than {MAX_PLACES} API keys,"
                f" tokens or names in {LEASE_NS // NS_PER_S} s: requests with others are one flow"
                " for each address"
            )
        named = address.removeprefix(BY_ADDRESS) or "a Unix socket"
        return (
            f"{named} shows more than {self._most} API keys, tokens or names in"
            f" {LEASE_NS // NS_PER_S} s: requests with others are one flow, that of the address; if"
            " it is a proxy, name it in downstream.trustedProxies; if not, and it means well, raise"
            " authentication.unverified.namesPerAddress"
        )

    def _free_places(self, now_ns: int) -> None:
        while self._places:
            key = next(iter(self._places))
            until_ns, address = self._places[key]
            if until_ns > now_ns:
                return
            del self._places[key]
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def __repr__(self) -> str:
        return f"<NamesOfAddresses: {len(self._places)} of {len(self._of_address)} addresses>"
