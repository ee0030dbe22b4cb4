"""The debug headers, X-Apfproxy-*: what flow control made of a request, for some users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.settings import EVERYBODY

if TYPE_CHECKING:
    from apfproxy.flowcontrol.passage import Passage
    from apfproxy.request.attributes import User
    from apfproxy.settings import AudienceSettings


class Audience:
    """Users and groups that settings name, such as those whose responses have debug headers."""

    def __init__(self, settings: AudienceSettings) -> None:
        self._users = frozenset(settings.users)
        self._groups = frozenset(settings.groups)
        self.is_empty = not self._users and not self._groups

    def has(self, user: User) -> bool:
        return (
            EVERYBODY in self._users
            or user.name in self._users
            or not self._groups.isdisjoint(user.groups)
        )


def debug_lines(passage: Passage, now_ns: int, reason: str) -> bytes:
    """Debug headers; `now_ns` counts if it has no seats, `reason` is why it failed or ""."""
    found, ticket = passage.classification, passage.ticket
    assert found is not None
    waited_ns = 0
    if ticket is not None:
        until_ns = ticket.dispatched_ns if ticket.dispatched_ns >= 0 else now_ns
        waited_ns = until_ns - ticket.arrived_ns
    if not reason and passage.refusal is not None:
        reason = passage.refusal.reason  # observed: it would have been rejected
    # Validation allows neither spaces nor line ends in names.
    lines = (
        f"X-Apfproxy-Flow-Schema: {found.flow.counters.flow_schema}\r\n"
        f"X-Apfproxy-Priority-Level: {found.level.name}\r\n"
        f"X-Apfproxy-Seats: {passage.seats}\r\n"
        f"X-Apfproxy-Waited: {waited_ns / 1_000_000:.3f}ms\r\n"
    )
    if reason:
        lines += f"X-Apfproxy-Reason: {reason}\r\n"
    return lines.encode()
