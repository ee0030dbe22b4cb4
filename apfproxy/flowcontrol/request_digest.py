"""What flow control knows of a request before it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.estimate_source import takes_seats

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.kind_meter import KindCounts
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User


class RequestDigest:
    """Who asks for what.

    Attributes:
        timeout_ns: How long the request may take; of a long-running one, until it has its seats.
        kind: Counts the request while it waits and executes.
        fixed_estimate: Of its work, if that depends on the attributes alone; else None.
        is_list, is_watch, is_long_running: Of what is asked for.
        takes_seats: False if flow control lets the request pass.
        classification: The last one, of the configuration's generation that it names.
    """

    __slots__ = (
        "attributes",
        "classification",
        "fixed_estimate",
        "is_list",
        "is_long_running",
        "is_watch",
        "kind",
        "takes_seats",
        "timeout_ns",
        "user",
    )

    def __init__(
        self,
        user: User,
        attributes: RequestAttributes,
        timeout_ns: int,
        kind: KindCounts,
        fixed_estimate: WorkEstimate | None,
    ) -> None:
        self.user = user
        self.attributes = attributes
        self.timeout_ns = timeout_ns
        self.kind = kind
        self.fixed_estimate = fixed_estimate
        self.is_list = attributes.is_resource_request and attributes.verb == "list"
        self.is_watch = attributes.is_resource_request and attributes.verb == "watch"
        self.is_long_running = attributes.long_running
        self.takes_seats = takes_seats(attributes)
        self.classification: Classification | None = None

    def header(self, name: str) -> str:  # noqa: ARG002  for those that have headers
        """The first value of a header of the request; "" if there is none.

        Args:
            name: Letters, digits and hyphens, in any case.
        """
        return ""

    def __repr__(self) -> str:
        return f"<RequestDigest {self.attributes.verb} {self.attributes.path}>"
