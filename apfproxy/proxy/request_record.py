"""The record of a request that is over: the access log and traces are made of it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.http.request_head import RequestHead
    from apfproxy.proxy.request import HeaderBlock
    from apfproxy.request.attributes import RequestAttributes, User


class Failure(enum.StrEnum):
    """Why a request failed, beside the reasons of flow control to reject one."""

    CANCELLED = "cancelled"
    """The client left before its response was through."""
    CLIENT_TIMEOUT = "client-timeout"
    """The client did not send its request in time, or not fast enough."""
    DEADLINE = "deadline"
    """The response was begun, but its time was over before its end."""
    MEMORY = "memory"
    """There was no room to hold the request, or the proxy's memory was short."""
    MALFORMED = "malformed"
    """The proxy refused the request by itself: no proper HTTP, or over a limit."""
    NO_CLUSTER = "no-cluster"
    """No cluster takes the request: none has its host and path, or that one cannot be used."""
    AUTHENTICATION_UNAVAILABLE = "identification-unavailable"
    """The authenticator could not be reached."""
    AUTHENTICATION_TIMEOUT = "identification-timeout"
    INTERNAL = "internal"
    UNAUTHENTICATED = "unidentified"
    """The client's credentials were refused, or what it may do with them."""
    UPSTREAM = "upstream"
    """The upstream could not be reached, or broke off."""
    UPSTREAM_TIMEOUT = "upstream-timeout"


class RequestRecord(msgspec.Struct):
    """One request.  Build it by position: by keywords that takes five times as long.

    The collector of garbage looks at it: else a log that is dropped with records would stay.

    Attributes:
        head, block: None for bytes that were refused before they became a request.
        user: None if no one was authenticated.
        begun_ns: By the process's clock, when it came; 0 for the same as `asked_ns`.
        asked_ns: When it asked for seats, or went on without.
        sent_ns: When it was dispatched; 0 for never.
        seats: Those that it took or would have taken; 0 for a kind that takes none.
        body_bytes: Length of the response's body, as far as it was sent.
        reason: Of `RejectReason` or `Failure`; "" if it was neither rejected nor failed.
        endpoint: The endpoint that had it last; "" for none, and where there is only one.
        prompt_tokens, completion_tokens: Of a completion, as far as known; -1 where they are not.
    """

    head: RequestHead | None
    block: HeaderBlock | None
    user: User | None
    attributes: RequestAttributes | None
    classification: Classification | None
    client_address: str
    begun_ns: int
    asked_ns: int
    sent_ns: int
    ended_ns: int
    seats: int
    status: int
    upstream_status: int
    body_bytes: int
    reason: str
    why: str = ""
    audit_line: bytes = b""
    endpoint: str = ""
    trace_id: int = 0
    prompt_tokens: int = -1
    completion_tokens: int = -1
