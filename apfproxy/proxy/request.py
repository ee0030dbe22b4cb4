"""A request's head with its user, and how it was classified."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.authn.unverified_names import name_of_secret
from apfproxy.flowcontrol.passage import RequestDigest
from apfproxy.proxy.own_responses import class_lines
from apfproxy.request.attributes import ANONYMOUS, RequestAttributes

if TYPE_CHECKING:
    from apfproxy.authn.authenticator import Authentication
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.meters import KindCounts
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.http.request_head import RequestHead
    from apfproxy.proxy.header_blocks import HeaderBlock

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
"""RFC 9110, section 9.2.1, of the methods that are forwarded.  Go's transport, by which
kube-apiserver forwards, sends no others again either: PUT and DELETE are idempotent only as long as
nobody else writes, and may be commands, such as a restart."""
_COMMANDS = frozenset(("attach", "exec", "portforward"))
"""Subresources of which a GET does what no GET should."""


class Request(RequestDigest):
    """All that is known of a request before its body; the user is anonymous at first.

    Attributes:
        user_lines: Header lines that name the user to the upstream.
        answer_timeout_ns: Until the upstream has to answer a request that is whole; a long-running
            one may go on then, without seats.
        authenticated_until_ns: On the clock of the process: until then the user counts; 0 before
            the client is authenticated.
    """

    __slots__ = ("answer_timeout_ns", "authenticated_until_ns", "block", "head", "user_lines")

    def __init__(
        self,
        head: RequestHead,
        block: HeaderBlock,
        attributes: RequestAttributes,
        timeout_ns: int,
        answer_timeout_ns: int,
        kind: KindCounts,
        fixed_estimate: WorkEstimate | None,
    ) -> None:
        super().__init__(ANONYMOUS, attributes, timeout_ns, kind, fixed_estimate)
        self.head = head
        self.block = block
        self.user_lines = b""
        self.answer_timeout_ns = answer_timeout_ns
        self.authenticated_until_ns = 0
        known = block.authentication
        if known is not None:
            self.take_authentication(known)

    def take_authentication(self, authentication: Authentication) -> None:
        self.block.authentication = authentication
        self.user = authentication.user
        self.authenticated_until_ns = authentication.valid_until_ns
        self.user_lines = authentication.lines
        self.classification = None

    @property
    def is_repeatable(self) -> bool:
        """Whether a second server may get it once a first one may have read it.

        Nothing that begins another protocol, has a body, or says that it means another method.
        """
        head, attributes = self.head, self.attributes
        return (
            head.method in _SAFE
            and not head.framing
            and head.upgrade is None
            and not head.fields.overrides_method
            and not (attributes.is_resource_request and attributes.subresource in _COMMANDS)
        )

    def class_lines(self, found: Classification) -> bytes:
        """Header lines that name a class; none where no seats are taken, as in Kubernetes."""
        if not self.takes_seats:
            return b""
        return class_lines(found.flow_schema_uid, found.priority_level_uid)

    def header(self, name: str) -> str:
        """The first value of a field that is forwarded, of a secret its hash; "" if there is none.

        Flows are named by it, and everybody sees their names.  It is searched for each time, since
        only a class that is told apart by a field asks.
        """
        head = self.head
        pattern = rb"^%b:[ \t]*([^\r\n]*)" % name.encode()
        found = re.search(pattern, head.forwarded(), re.MULTILINE | re.IGNORECASE)
        if found is None:
            return ""
        if found[1] and name.lower() in head.fields.secret_names:
            return name_of_secret(found[1])
        return found[1].decode(errors="replace")

    def __repr__(self) -> str:
        return f"<Request {self.head.method} {self.head.target!r}>"
