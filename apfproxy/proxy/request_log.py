"""The access log's lines: a JSON object for each request, made when the request is over.

What of a line depends only on the head and its classification is made once and kept with the head;
the rest is one formatting.  Never in it: credentials, cookies, bodies, and of the query anything
but what Kubernetes' API gives a meaning.  Every text is escaped, and cut to a bound.
"""

from __future__ import annotations

import enum
import random
import time
from typing import TYPE_CHECKING

import msgspec

from apfproxy.settings import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.settings import AccessLogSettings

MAX_TEXT = 256
"""Characters of a name; Kubernetes' names have 253 at most."""
MAX_PATH = 1024
"""Characters of a path, and of a selector."""
MAX_GROUPS = 16
CUT = "…"
"""Ends what was cut."""

QUERY_TEXTS = ("labelSelector", "fieldSelector")
QUERY_NAMES = (
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeout",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "dryRun",
)
"""Parameters whose values say what a request costs, and no secret."""

_FIRST_ERROR = 400
_NS_PER_S = 1_000_000_000


class Failure(enum.StrEnum):
    """Why a request failed, beside the reasons of flow control to reject one."""

    CANCELLED = "cancelled"
    """The client left before its answer was through."""
    CLIENT_TIMEOUT = "client-timeout"
    """The client did not send its request in time, or not fast enough."""
    DEADLINE = "deadline"
    """The answer was begun, but its time was over before its end."""
    MALFORMED = "malformed"
    """The proxy refused the request by itself: no proper HTTP, or over a limit."""
    INTERNAL = "internal"
    """The proxy failed."""
    UNIDENTIFIED = "unidentified"
    """The client's credentials were refused, or what it may do with them."""
    UPSTREAM = "upstream"
    """The origin could not be reached, or broke off."""
    UPSTREAM_TIMEOUT = "upstream-timeout"
    """The origin did not begin an answer in time."""


class Subject(msgspec.Struct, frozen=True):
    """What a line says of who asks for what, and where that belongs; null for what is not known."""

    user: str | None = None
    groups: tuple[str, ...] | None = None
    verb: str | None = None
    method: str | None = None
    path: str | None = None
    query: dict[str, str | bool] | None = None
    api_group: str | None = msgspec.field(default=None, name="apiGroup")
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    flow_schema: str | None = msgspec.field(default=None, name="flowSchema")
    priority_level: str | None = msgspec.field(default=None, name="priorityLevel")
    flow: str | None = None


def rendered(subject: Subject) -> str:
    """The members of a subject as JSON, without the braces."""
    return msgspec.json.encode(subject).decode()[1:-1]


NOTHING_KNOWN = rendered(Subject())


class RequestLog:
    """Makes the lines, and hands those on that the settings want.

    Args:
        settings: Of the access log.
        now_ns: The process's clock.
        write: Takes a line, with its line feed.
    """

    __slots__ = (
        "_is_sampled",
        "_is_whole",
        "_now_ns",
        "_offset_ns",
        "_sampled",
        "_second",
        "_second_text",
        "_write",
    )

    def __init__(
        self,
        settings: AccessLogSettings,
        now_ns: Callable[[], int],
        write: Callable[[str], None],
    ) -> None:
        sampled = 0 if settings.requests == ERRORS else settings.sampled_percent
        self._sampled = sampled / 100
        self._is_whole = sampled == 100
        self._now_ns = now_ns
        self._write = write
        self._offset_ns = 0
        self._second = -1
        self._second_text = ""

    def on_end(
        self,
        head: RequestHead,
        found: Classification | None,
        address: str,
        times: tuple[int, int, int],
        seats: int,
        answer: tuple[int, int, int],
        reason: str,
    ) -> None:
        """A request is over.

        Args:
            head: Its head.
            found: Where it belongs; None if it did not come so far.
            address: The client's.
            times: When it came, by the process's clock; its wait and its execution; nanoseconds.
            seats: That it took or would have taken; 0 if it took none by its nature.
            answer: The status sent to the client and that of the origin, 0 for none; the length of
                the body.
            reason: Why it was rejected or failed; "" if it was not.
        """
        status, upstream_status, body_bytes = answer
        if (
            not self._is_whole
            and not reason
            and status < _FIRST_ERROR
            and random.random() >= self._sampled  # noqa: S311 - a sample, not a secret
        ):
            return
        if found is None:
            subject = rendered_or_escaped(subject_of(head, None))
        else:
            kept = head.logged
            if kept is not None and kept[0] is found and kept[1] is head.user:
                subject = kept[2]
            else:
                subject = rendered_or_escaped(subject_of(head, found))
                head.logged = (found, head.user, subject)
        begun_ns, wait_ns, execution_ns = times
        unix_ns = begun_ns + self._offset_ns
        second = unix_ns // _NS_PER_S
        if second != self._second:
            unix_ns, second = self._begin_second(begun_ns)
        self._write(
            f'{{"time":"{self._second_text}{unix_ns % _NS_PER_S // 1000:06d}Z",{subject},'
            f'"seats":{seats},"waitSeconds":{wait_ns / 1e9:.6f},'
            f'"executionSeconds":{execution_ns / 1e9:.6f},"status":{status or "null"},'
            f'"upstreamStatus":{upstream_status or "null"},"bytes":{body_bytes},'
            f'"reason":"{reason}","client":"{address}"}}\n'
        )

    def on_refused(self, address: str, status: int, body_bytes: int, reason: str) -> None:
        """Something was refused that is not even known to be a request.

        Args:
            address: The client's.
            status: Sent to it.
            body_bytes: Of the answer's body.
            reason: Why.
        """
        unix_ns, _ = self._begin_second(self._now_ns())
        self._write(
            f'{{"time":"{self._second_text}{unix_ns % _NS_PER_S // 1000:06d}Z",{NOTHING_KNOWN},'
            '"seats":0,"waitSeconds":0.000000,"executionSeconds":0.000000,'
            f'"status":{status},"upstreamStatus":null,"bytes":{body_bytes},'
            f'"reason":"{reason}","client":"{address}"}}\n'
        )

    def _begin_second(self, now_ns: int) -> tuple[int, int]:
        """Look at the wall clock anew, which may have been set: nanoseconds and second since 1970.

        Args:
            now_ns: By the process's clock.
        """
        self._offset_ns = time.time_ns() - self._now_ns()
        unix_ns = now_ns + self._offset_ns
        second = self._second = unix_ns // _NS_PER_S
        self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
        return unix_ns, second

    def __repr__(self) -> str:
        return f"<RequestLog of {self._sampled:.0%} and of all errors>"


def rendered_or_escaped(subject: Subject) -> str:
    """The members of a subject as JSON, with U+FFFD for what is no Unicode."""
    try:
        return rendered(subject)
    except UnicodeEncodeError:
        # A header may carry text that is no Unicode, which Python keeps as lone surrogates.
        plain = msgspec.to_builtins(subject)
        return rendered(msgspec.convert(_unicode_of(plain), Subject))


def subject_of(head: RequestHead, found: Classification | None) -> Subject:
    """What a line says of a request.

    Args:
        head: The request's head.
        found: Where it belongs; None if it did not come so far, and is perhaps of nobody known.
    """
    attributes, user = head.attributes, head.user
    is_known = found is not None or head.identity_until_ns > 0
    return Subject(
        user=cut(user.name) if is_known else None,
        groups=tuple(map(cut, user.groups[:MAX_GROUPS])) if is_known else None,
        verb=cut(attributes.verb),
        method=cut(head.method),
        path=cut(attributes.path, MAX_PATH),
        query=known_query(attributes.query) if attributes.query else None,
        api_group=cut(attributes.api_group),
        api_version=cut(attributes.api_version),
        resource=cut(attributes.resource),
        subresource=cut(attributes.subresource),
        namespace=cut(attributes.namespace),
        name=cut(attributes.name),
        flow_schema=None if found is None else found.flow.counters.flow_schema,
        priority_level=None if found is None else found.level.name,
        flow=None if found is None else cut(found.flow.distinguisher),
    )


def known_query(query: Mapping[str, tuple[str, ...]]) -> dict[str, str | bool] | None:
    """Of a query what Kubernetes' API gives a meaning, each parameter's first value."""
    known: dict[str, str | bool] = {
        name: cut(query[name][0]) for name in QUERY_NAMES if query.get(name)
    }
    known.update((name, cut(query[name][0], MAX_PATH)) for name in QUERY_TEXTS if query.get(name))
    if query.get("continue"):
        known["continue"] = True
    return known or None


def cut(text: str, most: int = MAX_TEXT) -> str:
    """The text, cut to so many characters."""
    return text if len(text) <= most else text[: most - 1] + CUT


def _unicode_of(value: object) -> object:
    """A value of built-in types, each lone surrogate in its texts replaced."""
    if isinstance(value, str):
        return value.encode(errors="surrogatepass").decode(errors="replace")
    if isinstance(value, dict):
        return {_unicode_of(key): _unicode_of(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_unicode_of(each) for each in value]
    return value
