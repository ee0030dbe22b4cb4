"""Responses that the proxy gives itself, in the words that Kubernetes uses, or in plain ones."""

from __future__ import annotations

import functools
import json
import re
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes

TOO_MANY_REQUESTS_TEXT: Final = "Too many requests, please try again later."
TOO_MANY_REQUESTS: Final = f"{TOO_MANY_REQUESTS_TEXT}\n".encode()

RETRY_SOON: Final = b"Retry-After: 1\r\n"
"""For a request of which nothing was sent: Kubernetes' clients wait so long and ask again."""
SHOWN_AS_TEXT: Final = frozenset({500, 502})
"""Codes whose text client-go shows where it reads no `Status`: of what is no resource, and of what
is behind one (`proxy`), it gives callers the body as it came.  Of JSON it shows "unknown" then.
For 503 and 504 it has words of its own, and kube-apiserver's 403 is no better.

Source: kubernetes/client-go rest/request.go, `Result.Raw`, `DoRaw`, `isTextResponse`.
"""

_JSON: Final = re.compile(r"application/(?:[a-z.-]+\+)?json\b", re.IGNORECASE)
_NOT_VISIBLE: Final = re.compile(r"[^\x21-\x7e]")

_REASONS: Final = {
    400: ("Bad Request", "BadRequest"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "Forbidden"),
    404: ("Not Found", "NotFound"),
    405: ("Method Not Allowed", "MethodNotAllowed"),
    408: ("Request Timeout", "Timeout"),
    413: ("Content Too Large", "RequestEntityTooLarge"),
    414: ("URI Too Long", "BadRequest"),
    417: ("Expectation Failed", "BadRequest"),
    421: ("Misdirected Request", "BadRequest"),
    426: ("Upgrade Required", "BadRequest"),
    429: ("Too Many Requests", "TooManyRequests"),
    431: ("Request Header Fields Too Large", "BadRequest"),
    500: ("Internal Server Error", "InternalError"),
    501: ("Not Implemented", "NotImplemented"),
    502: ("Bad Gateway", "InternalError"),
    503: ("Service Unavailable", "ServiceUnavailable"),
    504: ("Gateway Timeout", "Timeout"),
    505: ("HTTP Version Not Supported", "BadRequest"),
}


def is_shown_as_text(code: int, attributes: RequestAttributes) -> bool:
    """Whether client-go would show the text of a response, but not that of a `Status`."""
    return code in SHOWN_AS_TEXT and (
        not attributes.is_resource_request or "proxy" in (attributes.verb, attributes.subresource)
    )


def status_body(code: int, message: str) -> bytes:
    """A `metav1.Status` of failure, as JSON."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[code][1],
        "code": code,
    }
    return json.dumps(status).encode() + b"\n"


def response(
    code: int, body: bytes, content_type: bytes, is_head: bool, extra: bytes, connection: bytes
) -> bytes:
    """A whole response, which no cache may keep; `extra` and `connection` are whole lines."""
    template = (
        b"HTTP/1.1 %d %b\r\nCache-Control: no-cache, private\r\nContent-Type: %b\r\n%b"
        b"Content-Length: %d\r\n%b%b\r\n%b"
    )
    date, sent = date_line(int(time.time())), b"" if is_head else body
    phrase = _REASONS[code][0].encode()
    return template % (code, phrase, content_type, date, len(body), extra, connection, sent)


@functools.lru_cache(maxsize=1)
def date_line(unix_s: int) -> bytes:
    return b"Date: %b\r\n" % formatdate(unix_s, usegmt=True).encode()


class DateLine:
    """The header line of the time, made once a second."""

    def __init__(self) -> None:
        self._line = b""
        self._until_ns = 0

    def at(self, now_ns: int) -> bytes:
        if now_ns >= self._until_ns:
            unix_s = time.time()
            self._line = date_line(int(unix_s))
            self._until_ns = now_ns + 1_000_000_000 - int(unix_s % 1 * 1e9)
        return self._line


@functools.lru_cache(maxsize=8192)
def class_lines(flow_schema_uid: str, priority_level_uid: str) -> bytes:
    # Validation refuses such objects; but nothing may end a line, wherever it is from.
    schema, level = (_NOT_VISIBLE.sub("_", uid) for uid in (flow_schema_uid, priority_level_uid))
    return (
        f"X-Kubernetes-PF-FlowSchema-UID: {schema}\r\n"
        f"X-Kubernetes-PF-PriorityLevel-UID: {level}\r\n"
    ).encode()


def body_bytes(whole: bytes) -> int:
    return len(whole) - whole.index(b"\r\n\r\n") - 4


def status_response(
    code: int, message: str, *, is_head: bool = False, extra: bytes = b"", connection: bytes = b""
) -> bytes:
    """A whole response whose body is a `Status`."""
    body = status_body(code, message)
    return response(code, body, b"application/json", is_head, extra, connection)


def plain_body(
    code: int, message: str, accept: str = "", *, is_completion: bool = False
) -> tuple[bytes, bytes]:
    """A body and its type before an API that is not Kubernetes: a line of text, or RFC 9457's JSON.

    JSON is for clients that name it in `accept`, the value of their field of that name.  Clients of
    LLM APIs show `error.message` alone.
    """
    if not _JSON.search(accept):
        return message.encode() + b"\n", b"text/plain; charset=utf-8"
    problem: dict[str, object] = {"title": _REASONS[code][0], "status": code, "detail": message}
    if is_completion:
        problem["error"] = {"message": message}
    return json.dumps(problem).encode() + b"\n", b"application/problem+json"


def plain_response(
    code: int,
    message: str,
    accept: str = "",
    *,
    is_completion: bool = False,
    is_head: bool = False,
    extra: bytes = b"",
    connection: bytes = b"",
) -> bytes:
    """A whole response with a `plain_body`."""
    body, content_type = plain_body(code, message, accept, is_completion=is_completion)
    extra = b"X-Content-Type-Options: nosniff\r\n" + extra
    return response(code, body, content_type, is_head, extra, connection)


def grpc_response(
    code: int, message: str, *, is_head: bool = False, extra: bytes = b"", connection: bytes = b""
) -> bytes:
    """The whole response to a call of gRPC that is not served: all of it is a head.

    The message is ASCII without percent signs.  Source: gRPC over HTTP2, `Trailers-Only`.
    """
    del is_head
    return (
        b"HTTP/1.1 %d OK\r\nContent-Type: application/grpc\r\n%bgrpc-status: 12\r\n"
        b"grpc-message: %b\r\n%b%b\r\n"
    ) % (code, date_line(int(time.time())), message.encode(), extra, connection)


def too_many_requests(
    retry_after_s: int, *, is_head: bool, extra: bytes = b"", connection: bytes = b""
) -> bytes:
    extra = b"Retry-After: %d\r\nX-Content-Type-Options: nosniff\r\n%b" % (retry_after_s, extra)
    return response(
        429, TOO_MANY_REQUESTS, b"text/plain; charset=utf-8", is_head, extra, connection
    )
