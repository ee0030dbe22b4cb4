"""What a member of a fleet says of how it stands: in the log, among events, and on health pages."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.fleet.ledger import Ledger

MOST_PROBLEMS = 8
"""That are logged until the record is up to date again: what a server says may differ each time."""

log = logging.getLogger(__name__)


class MembershipWords:
    """How one member stands, in words.

    Args:
        ledger: Its side of the record.
        described: The store in words, without secrets.
        events: What changes is noted there.
        prefix: Of each line, such as the name of the cluster; "" for none.
        of_fleet: What follows "seats", such as the name of the fleet; "" for nothing.

    Attributes:
        problem: Why the last look failed; "" if it did not.
    """

    def __init__(
        self,
        ledger: Ledger,
        described: str,
        events: ConfigurationEvents,
        *,
        prefix: str = "",
        of_fleet: str = "",
    ) -> None:
        self._ledger = ledger
        self._described = described
        self._events = events
        self._prefix = prefix
        self._of_fleet = of_fleet
        self.problem = ""
        self._logged = LeaseState.JOINING
        self._logged_problems: set[str] = set()  # since the record was up to date

    def say(self) -> None:
        """Log how it stands, and why the record is not kept, where that has changed."""
        state = self._ledger.state
        if state is self._logged:
            if self._is_new():
                self._logged_problems.add(self.problem)
                log.warning("%s%s", self._prefix, self.trouble())
            elif self._logged_problems and not self.problem and state is LeaseState.HELD:
                self._logged_problems.clear()
                log.info("%sthe fleet's record can be used again", self._prefix)
            return
        if state is LeaseState.EXPIRED and self._logged is LeaseState.PARTITIONED:
            return  # it has just read the record, and is about to write
        self._logged = state
        if state is LeaseState.HELD:
            self._logged_problems.clear()
            seats = f"{self._ledger.in_force()} of {self._ledger.limit} seats"
            text = f"{self._prefix}holds {seats}{self._of_fleet} for now; they follow its requests"
            log.info("%s", text)
        else:
            self._logged_problems.add(self.problem)
            text = f"{self._prefix}{self.trouble() or state.value}"
            log.warning("%s", text)
        self._events.record(time.time(), text, is_error=state is not LeaseState.HELD)

    def _is_new(self) -> bool:
        """Whether the problem has not been logged; where they alternate, each is once."""
        return (
            bool(self.problem)
            and self.problem not in self._logged_problems
            and len(self._logged_problems) < MOST_PROBLEMS
        )

    def trouble(self) -> str:
        """What is wrong with which record; "" if it is up to date."""
        reason = self.reason()
        return f"the fleet's record in {self._described} cannot be used: {reason}" if reason else ""

    def reason(self) -> str:
        """Why the record is not up to date, and what that means; "" if it is."""
        if not self.problem and self._ledger.state is LeaseState.HELD:
            return ""
        seats = self._ledger.in_force()
        means = {
            LeaseState.JOINING: "this member has no seats yet",
            LeaseState.HELD: f"this member keeps its {seats} seats until its lease ends",
            LeaseState.EXPIRED: f"this member's lease is over, and it uses {seats} seats",
            LeaseState.PARTITIONED: f"this member uses its safe share, {seats} seats",
        }[self._ledger.state]
        why = self.problem or "there is no answer yet"
        return f"{why}; {means}"

    def __repr__(self) -> str:
        return f"<MembershipWords: {self.reason() or 'nothing is wrong'}>"
