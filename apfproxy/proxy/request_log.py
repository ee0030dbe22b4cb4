"""The access log's lines: a JSON object for each request, made soon after the request is over.

What of a line depends only on the head and its classification is made once and kept with the head,
and what depends only on who asks with the head's fields; the rest is one formatting.  Never in it:
credentials, cookies, bodies, and of the query anything but what Kubernetes' API gives a meaning.
Every text is escaped, and cut to a bound.
"""

from __future__ import annotations

import enum
import random
import re
import time
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

import msgspec

from apfproxy.faults import Part, report
from apfproxy.proxy.traces import MADE_ID, MAX_AUDIT_ID, read_traces
from apfproxy.settings import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.clock import Clock, Timer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.proxy.request import Request
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User
    from apfproxy.settings import AccessLogSettings

MAX_TEXT = 256
"""Characters of a name; Kubernetes' names have 253 at most."""
MAX_PATH = 1024
"""Characters of a path, and of a selector."""
MAX_GROUPS = 16
MAX_KEPT_TEXT = 768
"""Characters that are kept with a head or a client's fields; longer ones are made each time."""
CUT = "..."
"""Ends what was cut."""

PARAMETERS = (
    ("limit", MAX_TEXT),
    ("resourceVersion", MAX_TEXT),
    ("resourceVersionMatch", MAX_TEXT),
    ("watch", MAX_TEXT),
    ("sendInitialEvents", MAX_TEXT),
    ("allowWatchBookmarks", MAX_TEXT),
    ("timeout", MAX_TEXT),
    ("timeoutSeconds", MAX_TEXT),
    ("labelSelector", MAX_PATH),
    ("fieldSelector", MAX_PATH),
)
"""Parameters whose values say what a request costs, and no secret; at most so long."""

_PLAIN = re.compile(rb"[A-Za-z0-9/._:-]+")
"""Targets without a query and without anything that JSON or the URL escapes."""

FLUSH_PERIOD_NS = 100_000_000
MAX_RECORDS = 64
"""Requests whose lines are made at once: that takes a third of the time that it does one by one, as
the code for it is in the CPU's caches then."""
_FIRST_ERROR = 400
_NS_PER_S = 1_000_000_000
_US_PER_S = 1_000_000
_DIGITS = tuple(f"{number:03d}" for number in range(1000))
_STATUSES = 1000
"""More than any status, of three digits, is."""


class Record(msgspec.Struct, gc=False):
    """A request that is over.

    A struct of msgspec's, since the making of one takes half the time of a named tuple's.

    Attributes:
        request: What was asked.
        user: Who asked.
        classification: Where it belongs; None if it did not come so far.
        address: The client's.
        begun_ns, asked_ns, sent_ns, ended_ns: By the process's clock, when it came (0 for the
            next), when it asked for seats, when it was dispatched (0 for never), when it ended.
        seats: That it took or would have taken; 0 if none by its nature.
        status, upstream_status: Sent, and the origin's; 0 for none.
        body_bytes: Of the answer.
        reason: Why it was rejected or failed; "" if it was not.
        made_line: The header line of the Audit-ID that the proxy gave it; b"" for none.
        why: Why it waited, was rejected or failed, in words; "" if it did not.
    """

    request: Request
    user: User
    classification: Classification | None
    address: str
    begun_ns: int
    asked_ns: int
    sent_ns: int
    ended_ns: int
    seats: int
    status: int
    upstream_status: int
    body_bytes: int
    reason: str
    made_line: bytes = b""
    why: str = ""


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
    IDENTIFICATION_UNAVAILABLE = "identification-unavailable"
    """Whoever knows who asks could not be asked."""
    IDENTIFICATION_TIMEOUT = "identification-timeout"
    """Whoever knows who asks did not say so in time."""
    INTERNAL = "internal"
    """The proxy failed."""
    UNIDENTIFIED = "unidentified"
    """The client's credentials were refused, or what it may do with them."""
    UPSTREAM = "upstream"
    """The origin could not be reached, or broke off."""
    UPSTREAM_TIMEOUT = "upstream-timeout"
    """The origin did not begin an answer in time."""


NOBODY_KNOWN = '"user":null,"groups":null'
NOTHING_KNOWN = (
    f'{NOBODY_KNOWN},"userAgent":null,"verb":null,"method":null,"path":null,'
    '"flowSchema":null,"priorityLevel":null,"flow":null'
)


class RequestLog:
    """Makes the lines, and hands those on that the settings want, with their number."""

    def __init__(
        self,
        settings: AccessLogSettings,
        clock: Clock,
        write: Callable[[bytes, int], None],
    ) -> None:
        self._sampled = sampled_part(settings)
        self._clock = clock
        self._records: list[Record] = []
        self._timer: Timer | None = None
        self._write = write
        self._second_ns = -_NS_PER_S
        """By the process's clock: the begin of the second that the text is of, "" for none yet."""
        self._second_text = ""
        self._answers = tuple(answer_text(status, status) for status in range(_STATUSES))

    def configure(self, settings: AccessLogSettings) -> None:
        """Want other requests from now on."""
        self._sampled = sampled_part(settings)

    def take(self, record: Record) -> None:
        """A request is over."""
        if (
            self._sampled < 1
            and not record.reason
            and record.status < _FIRST_ERROR
            and random.random() >= self._sampled  # noqa: S311 - a sample, not a secret
        ):
            return
        records = self._records
        records.append(record)
        if len(records) >= MAX_RECORDS:
            self.flush()
        elif self._timer is None:
            self._timer = self._clock.call_at(
                self._clock.now_ns() + FLUSH_PERIOD_NS, self._on_timer
            )

    def on_refused(self, address: str, status: int, body_bytes: int, reason: str, why: str) -> None:
        """Something was refused that is not even known to be a request."""
        self.flush()
        now_ns = self._clock.now_ns()
        self._find_second(now_ns)
        line = (
            f'{self._second_text}{(now_ns - self._second_ns) // 1000:06d}Z",'
            f'{NOTHING_KNOWN},"seats":{waited_text(0, 0)}0.000000{answer_text(status, 0)}'
            f'{body_bytes},"reason":"{reason}","why":{quoted(why)},"client":"{address}"}}\n'
        )
        self._write(line.encode(), 1)

    def flush(self) -> None:
        """Hand on all lines that there are."""
        records, self._records = self._records, []
        if not records:
            return
        try:
            lines = self._lines(records)
        except Exception:  # noqa: BLE001  one request must not cost the others their lines
            records = [record for record in records if self._can_be_told(record)]
            lines = self._lines(records)
        self._write(lines, len(records))

    def _can_be_told(self, record: Record) -> bool:
        """Whether a line can be made of a record; else that is an error of the program."""
        try:
            self._lines([record])
        except Exception as error:  # noqa: BLE001  as above
            report(Part.ACCESS_LOG, error, "a request is not in the access log")
            return False
        return True

    def close(self) -> None:
        """Hand on all lines, for the last time."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self.flush()

    def _lines(self, records: list[Record]) -> bytes:
        """The lines of some requests.

        All that a line needs is in this one loop, and what can be looked up, with the members'
        names around it, is not formatted: measured, 0.4 us per line instead of 1.1.
        """
        lines: list[str] = []
        append, digits, answers = lines.append, _DIGITS, self._answers
        second_ns, second_text = self._second_ns, self._second_text
        for record in records:
            request, found = record.request, record.classification
            kept = request.logged
            if kept is not None and kept[0] is found and kept[1] is record.user:
                text = kept[2]
            else:
                text = f'Z",{text_of(request, record.user, found)},"seats":'
                if len(text) <= MAX_KEPT_TEXT:
                    request.logged = (found, record.user, text)
            asked_ns, ended_ns = record.asked_ns, record.ended_ns
            begun_ns = record.begun_ns or asked_ns
            begun_us = (begun_ns - second_ns) // 1000
            if not 0 <= begun_us < _US_PER_S:
                self._find_second(begun_ns)
                second_ns, second_text = self._second_ns, self._second_text
                begun_us = (begun_ns - second_ns) // 1000
            sent_ns = record.sent_ns
            if sent_ns == asked_ns and record.seats == 1:
                waited = _AT_ONCE
            else:
                sent_ns = sent_ns or ended_ns
                waited = waited_text(record.seats, sent_ns - asked_ns)
            took_us = (ended_ns - sent_ns) // 1000
            if took_us < _US_PER_S:
                took = f"0.{digits[took_us // 1000]}{digits[took_us % 1000]}"
            else:
                took = seconds(ended_ns - sent_ns)
            status = record.status
            if status == record.upstream_status:
                answer = answers[status]
            else:
                answer = answer_text(status, record.upstream_status)
            line = record.made_line
            found_by = f',"auditId":"{line[MADE_ID].decode()}"' if line else ""
            why = f',"why":{quoted(record.why)}' if record.why else ""
            append(
                f"{second_text}{digits[begun_us // 1000]}{digits[begun_us % 1000]}"
                f"{text}{waited}{took}{answer}{record.body_bytes}"
                f',"reason":"{record.reason}"{why},"client":"{record.address}"{found_by}}}\n'
            )
        return "".join(lines).encode()

    def _find_second(self, now_ns: int) -> None:
        """Find the second that a time is in, and its text as RFC 3339 has it, in UTC."""
        # Once a second this looks at the wall clock, which may have been set.
        offset_ns = time.time_ns() - self._clock.now_ns()
        second, ns = divmod(now_ns + offset_ns, _NS_PER_S)
        self._second_ns = now_ns - ns
        self._second_text = time.strftime('{"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(second))


def sampled_part(settings: AccessLogSettings) -> float:
    """The part of the requests without an error that are logged; 1 for all."""
    return 0.0 if settings.requests == ERRORS else settings.sampled_percent / 100


def text_of(request: Request, user: User, found: Classification | None) -> str:
    """The members of a line that say who asks for what, and where that belongs.

    Those of resources are only there in requests for resources, `query` if it has anything known.

    Args:
        request: What was asked.
        user: Who asked.
        found: Where it belongs; None if it did not come so far, and is perhaps of nobody known.
    """
    attributes, head = request.attributes, request.head
    target, sender = head.target, head.sender
    if found is None and request.identity_until_ns <= 0:
        who = NOBODY_KNOWN + text_of_traces(sender.forwarded_fields)
    else:
        kept = sender.logged
        if kept is not None and kept[0] is user:
            who = kept[1]
        else:
            who = text_of_user(user) + text_of_traces(sender.forwarded_fields)
            if len(who) <= MAX_KEPT_TEXT:
                sender.logged = (user, who)
    # Nearly all targets need no escapes, nor any cutting; measured, that saves 2 us per head.
    if len(target) <= MAX_TEXT and _PLAIN.fullmatch(target):
        what = f'"verb":"{attributes.verb}","method":"{head.method}","path":"{attributes.path}"'
        if attributes.is_resource_request:
            what = (
                f'{what},"apiGroup":"{attributes.api_group}",'
                f'"apiVersion":"{attributes.api_version}","resource":"{attributes.resource}",'
                f'"subresource":"{attributes.subresource}",'
                f'"namespace":"{attributes.namespace}","name":"{attributes.name}"'
            )
    else:
        what = escaped(head.method, attributes)
    if found is None:
        return f'{who},{what},"flowSchema":null,"priorityLevel":null,"flow":null'
    # Names of Kubernetes' objects need no escapes.
    return (
        f'{who},{what},"flowSchema":"{found.flow.counters.flow_schema}",'
        f'"priorityLevel":"{found.level.name}","flow":{quoted(found.flow.distinguisher)}'
    )


def text_of_user(user: User) -> str:
    """The members of a line that say who asks."""
    groups = ",".join(map(quoted, user.groups[:MAX_GROUPS]))
    return f'"user":{quoted(user.name)},"groups":[{groups}]'


def text_of_traces(fields: bytes) -> str:
    """The members of a line that its client's fields say, the first comma included."""
    traces = read_traces(fields)
    text = f',"userAgent":{quoted(traces.user_agent) if traces.user_agent else "null"}'
    if traces.audit_id:
        text += f',"auditId":{quoted(traces.audit_id[:MAX_AUDIT_ID])}'
    if traces.traceparent:
        text += f',"traceparent":"{traces.traceparent}"'
    return text


def escaped(method: str, attributes: RequestAttributes) -> str:
    """The members of a line that say what is asked for, whatever that may be."""
    members = {
        "verb": quoted(attributes.verb),
        "method": quoted(method),
        "path": quoted(attributes.path, MAX_PATH),
    }
    if query := known_query(attributes.query):
        inner = ",".join(f'"{name}":{value}' for name, value in query.items())
        members["query"] = f"{{{inner}}}"
    if attributes.is_resource_request:
        members |= {
            "apiGroup": quoted(attributes.api_group),
            "apiVersion": quoted(attributes.api_version),
            "resource": quoted(attributes.resource),
            "subresource": quoted(attributes.subresource),
            "namespace": quoted(attributes.namespace),
            "name": quoted(attributes.name),
        }
    return ",".join(f'"{name}":{value}' for name, value in members.items())


def known_query(query: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Of a query what Kubernetes' API gives a meaning, each parameter's first value as JSON."""
    known = {name: quoted(query[name][0], most) for name, most in PARAMETERS if query.get(name)}
    if query.get("continue"):
        known["continue"] = "true"
    return known


def waited_text(seats: int, wait_ns: int) -> str:
    """The values and members of a line from its seats to the name of the execution's time."""
    wait = seconds(wait_ns) if wait_ns else "0"
    return f'{seats},"waitSeconds":{wait},"executionSeconds":'


def answer_text(status: int, upstream_status: int) -> str:
    """The members of a line after the execution's time, to the name of the length."""
    return f',"status":{status or "null"},"upstreamStatus":{upstream_status or "null"},"bytes":'


def seconds(duration_ns: int) -> str:
    """A duration in seconds, as JSON has it."""
    return f"{duration_ns / _NS_PER_S:.6f}"


def quoted(text: str, most: int = MAX_TEXT) -> str:
    """The text as JSON in ASCII, cut to so many characters; U+FFFD for what is no Unicode."""
    if len(text) > most:
        text = text[: most - len(CUT)] + CUT
    if not text.isascii():
        # A header may carry text that is no Unicode, which Python keeps as lone surrogates.
        text = text.encode(errors="surrogatepass").decode(errors="replace")
    return encode_basestring_ascii(text)


_AT_ONCE = waited_text(1, 0)
