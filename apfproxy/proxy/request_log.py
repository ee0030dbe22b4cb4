"""The access log's lines: a JSON object for each request, made soon after the request is over.

What depends only on the user is made once and kept with the head's fields, and what depends only on
the classification is kept here; the rest is one formatting.  Never in a line: credentials, cookies,
bodies, and of the query anything but what Kubernetes' API gives a meaning.  Every text is escaped,
and cut to a bound.
"""

from __future__ import annotations

import enum
import functools
import random
import time
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, report
from apfproxy.proxy.log_omissions import MAX_FLOWS, SECOND_NS, LogBudget, Omissions
from apfproxy.proxy.traces import MAX_AUDIT_ID, made_id, read_traces
from apfproxy.settings import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.http.request_head import RequestHead
    from apfproxy.proxy.log_omissions import Key
    from apfproxy.proxy.request import Request
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User
    from apfproxy.settings import AccessLogSettings

MAX_TEXT: Final = 256
"""Characters of a name; Kubernetes' names have 253 at most."""
MAX_PATH: Final = 1024
"""Characters of a path, and of a selector."""
MAX_GROUPS: Final = 16
MAX_KEPT_TEXT: Final = 768
"""Characters that are kept with a client's fields; longer ones are made each time."""
MAX_KEPT_CLASSES = 4096
"""Classifications whose texts are kept, of half a KiB at most."""
CUT: Final = "..."
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
_MOST: Final = dict(PARAMETERS)

FLUSH_PERIOD_NS: Final = 100_000_000
MAX_RECORDS: Final = 64
"""Requests whose lines are made at once: that takes a third of the time that it does one by one, as
the code for it is in the CPU's caches then."""
_FIRST_ERROR: Final = 400
_NS_PER_S: Final = 1_000_000_000
_US_PER_S: Final = 1_000_000
_DIGITS: Final = tuple(f"{number:03d}" for number in range(1000))
_STATUSES: Final = 1000
"""More than any status, of three digits, is."""


Record = tuple[
    "RequestHead",
    "User | None",
    "RequestAttributes",
    "Classification | None",
    str,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    str,
    bytes,
    str,
    str,
]
"""A request that is over: what `RequestLog.take` gets, but of the request only what lasts longer
than it, or is in the line.  A plain tuple, which takes a fifth of the time of an object."""
_REASON: Final = 13
"""The place of the reason in it."""


class Failure(enum.StrEnum):
    """Why a request failed, beside the reasons of flow control to reject one."""

    CANCELLED = "cancelled"
    """The client left before its answer was through."""
    CLIENT_TIMEOUT = "client-timeout"
    """The client did not send its request in time, or not fast enough."""
    DEADLINE = "deadline"
    """The answer was begun, but its time was over before its end."""
    MEMORY = "memory"
    """There was no room to hold the request, or the proxy's memory was short."""
    MALFORMED = "malformed"
    """The proxy refused the request by itself: no proper HTTP, or over a limit."""
    NO_CLUSTER = "no-cluster"
    """No cluster takes the request: none has its host and path, or that one cannot be used."""
    AUTHENTICATION_UNAVAILABLE = "identification-unavailable"
    """The authenticator could not be reached."""
    AUTHENTICATION_TIMEOUT = "identification-timeout"
    """The authenticator did not answer in time."""
    INTERNAL = "internal"
    """The proxy failed."""
    UNAUTHENTICATED = "unidentified"
    """The client's credentials were refused, or what it may do with them."""
    UPSTREAM = "upstream"
    """The upstream could not be reached, or broke off."""
    UPSTREAM_TIMEOUT = "upstream-timeout"
    """The upstream did not begin an answer in time."""


NOBODY_KNOWN: Final = '"user":null,"groups":null'
NOTHING_KNOWN = (
    f'{NOBODY_KNOWN},"userAgent":null,"protocol":null,"verb":null,"method":null,"path":null,'
    '"flowSchema":null,"priorityLevel":null,"flow":null'
)


class RequestLog:
    """Makes the lines, and hands those on that the settings want, with their number."""

    def __init__(
        self,
        settings: AccessLogSettings,
        clock: Clock,
        write: Callable[[bytes, int], None],
        cluster: str = "",
        budget: LogBudget | None = None,
    ) -> None:
        """Make it, for one of the clusters or for all.

        `cluster` is the name that the lines begin with, where there are several; `budget` has the
        bytes that this log has together with others.
        """
        self._begin = f'{{"cluster":"{cluster}","time":"' if cluster else '{"time":"'
        self._sampled = sampled_part(settings)
        self._clock = clock
        self._records: list[Record] = []
        self._timer: Timer | None = None
        self._write = write
        self._budget = budget or LogBudget(settings)
        self._omissions = Omissions(settings, self._budget)
        self._saying: Timer | None = None
        """Until the next line that says what was left out."""
        self._second_ns = -_NS_PER_S
        """By the process's clock: the begin of the second that the text is of, "" for none yet."""
        self._second_text = ""
        self._answers = response_texts()
        self._classes: dict[Classification | None, str] = {}
        self._generation = -1
        """Of the classifications whose texts are kept."""

    def configure(self, settings: AccessLogSettings) -> None:
        """Want other requests from now on."""
        self._sampled = sampled_part(settings)
        self._omissions.configure(settings)

    def take(  # noqa: PLR0913, PLR0917 - an object of them takes as long as half of the line
        self,
        request: Request,
        found: Classification | None,
        address: str,
        begun_ns: int,
        asked_ns: int,
        sent_ns: int,
        ended_ns: int,
        seats: int,
        status: int,
        upstream_status: int,
        body_bytes: int,
        reason: str,
        made_line: bytes = b"",
        why: str = "",
        members: str = "",
    ) -> None:
        """Take a request that is over.

        Args:
            request: What was asked, and who asked.
            found: Where it belongs; None if it did not come so far, and is perhaps of nobody known.
            address: The client's.
            begun_ns: By the process's clock, when it came; 0 for the next.
            asked_ns: When it asked for seats.
            sent_ns: When it was dispatched; 0 for never.
            ended_ns: When it ended.
            seats: That it took or would have taken; 0 if none by its nature.
            status: Sent; 0 for none.
            upstream_status: The upstream's; likewise.
            body_bytes: Of the answer.
            reason: Why it was rejected or failed; "" if it was not.
            made_line: The header line of the Audit-ID that the proxy gave it; b"" for none.
            why: Why it waited, was rejected or failed, in words; "" if it did not.
            members: Further ones, of `text_of_server` for the last one that it was sent to, and of
                `text_of_trace`; "" for none.
        """
        if reason:
            if not sent_ns and not self._omissions.count_refused(found, reason, ended_ns):
                self._say_soon()
                return
        elif (
            self._sampled < 1 and status < _FIRST_ERROR and random.random() >= self._sampled  # noqa: S311 - a sample, not a secret
        ):
            return
        head = request.head
        records = self._records
        records.append(
            (
                head,
                request.user if found is not None or request.authenticated_until_ns > 0 else None,
                request.attributes,
                found,
                address,
                begun_ns,
                asked_ns,
                sent_ns,
                ended_ns,
                seats,
                status,
                upstream_status,
                body_bytes,
                reason,
                made_line,
                why,
                members,
            )
        )
        if len(records) >= MAX_RECORDS:
            self.flush()
        elif self._timer is None:
            self._timer = self._clock.call_at(
                self._clock.now_ns() + FLUSH_PERIOD_NS, self._on_timer
            )

    def on_refused(self, address: str, status: int, body_bytes: int, reason: str, why: str) -> None:
        """Something was refused that is not even known to be a request."""
        now_ns = self._clock.now_ns()
        if not self._omissions.count_refused(None, reason, now_ns):
            self._say_soon()
            return
        self.flush()
        if not self._budget.refill(now_ns):
            self._omissions.count_over_bytes(reason)
            self._say_soon()
            return
        self._put(
            f'{self._text_of_time(now_ns)}{NOTHING_KNOWN},"seats":{waited_text(0, 0)}0.000000'
            f'{response_text(status, 0)}{body_bytes},"reason":"{reason}","why":{quoted(why)},'
            f'"client":"{address}"}}\n'
        )

    def _put(self, line: str) -> None:
        """Hand on a line of its own."""
        data = line.encode()
        self._budget.spend(len(data))
        self._write(data, 1)

    def flush(self) -> None:
        """Hand on all lines that there are, if there are bytes for them."""
        records, self._records = self._records, []
        if not records:
            return
        if not self._budget.refill(self._clock.now_ns()):
            for record in records:
                self._omissions.count_over_bytes(record[_REASON])
            self._say_soon()
            return
        try:
            lines = self._lines(records)
        except Exception:  # noqa: BLE001  one request must not cost the others their lines
            records = [record for record in records if self._can_be_told(record)]
            lines = self._lines(records)
        self._budget.spend(len(lines))
        self._write(lines, len(records))

    def _say_soon(self) -> None:
        """Say in a second what was left out by then."""
        if self._saying is None:
            self._saying = self._clock.call_at(self._clock.now_ns() + SECOND_NS, self._on_saying)

    def _on_saying(self) -> None:
        self._saying = None
        self.flush()
        self._say_left_out()

    def _say_left_out(self) -> None:
        """Write a line about what was left out; it is there even if there are no bytes for it."""
        if self._omissions.is_empty:
            return
        refused, over_bytes = self._omissions.take()
        self._put(f"{self._text_of_time(self._clock.now_ns())}{left_out_text(refused, over_bytes)}")

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
        self._say_left_out()
        for timer in (self._timer, self._saying):
            if timer is not None:
                timer.cancel()
        self._timer = self._saying = None

    def _on_timer(self) -> None:
        self._timer = None
        self.flush()

    def _lines(self, records: list[Record]) -> bytes:
        """The lines of some requests.

        All that a line needs is in this one loop, and what can be looked up, with the members'
        names around it, is not formatted.
        """
        lines: list[str] = []
        digits, answers, classes = _DIGITS, self._answers, self._classes
        second_ns, second_text = self._second_ns, self._second_text
        for (
            head,
            user,
            attributes,
            found,
            address,
            begun_ns,
            asked_ns,
            sent_ns,
            ended_ns,
            seats,
            status,
            upstream_status,
            body_bytes,
            reason,
            made_line,
            why,
            members,
        ) in records:
            begun_us = ((begun_ns or asked_ns) - second_ns) // 1000
            if not 0 <= begun_us < _US_PER_S:
                self._find_second(begun_ns or asked_ns)
                second_ns, second_text = self._second_ns, self._second_text
                begun_us = ((begun_ns or asked_ns) - second_ns) // 1000
            kept = head.block.logged
            who = kept[1] if kept is not None and kept[0] is user else text_of_block(head, user)
            where = classes.get(found) or self._text_of_class(found)
            if sent_ns == asked_ns and seats == 1:
                waited = _AT_ONCE
            else:
                waited = waited_text(seats, (sent_ns or ended_ns) - asked_ns)
            took_us = (ended_ns - sent_ns) // 1000 if sent_ns else 0
            took_s = "0"
            if took_us >= _US_PER_S:
                took_s = str(took_us // _US_PER_S)
                took_us %= _US_PER_S
            if status == upstream_status:
                answer = answers[status]
            else:
                answer = response_text(status, upstream_status)
            told = f',"why":{quoted(why)}' if why else ""
            found_by = f'","auditId":"{made_id(made_line)}' if made_line else ""
            lines.append(
                f"{second_text}{digits[begun_us // 1000]}{digits[begun_us % 1000]}{who}"
                f"{text_of_target(head.method, head.target, attributes)}{where}{waited}{took_s}."
                f"{digits[took_us // 1000]}{digits[took_us % 1000]}{answer}{body_bytes}"
                f'{members},"reason":"{reason}"{told},"client":"{address}{found_by}"}}\n'
            )
        return "".join(lines).encode()

    def _text_of_class(self, found: Classification | None) -> str:
        """The text of a classification, and keep it; only those of one generation are kept."""
        text = text_of_class(found)
        if found is not None:
            classes = self._classes
            if found.generation != self._generation or len(classes) >= MAX_KEPT_CLASSES:
                self._generation = found.generation
                classes.clear()
            classes[found] = text
        return text

    def _text_of_time(self, now_ns: int) -> str:
        """The begin of a line that is about no request, the comma after its time included."""
        self._find_second(now_ns)
        return f'{self._second_text}{(now_ns - self._second_ns) // 1000:06d}Z",'

    def _find_second(self, now_ns: int) -> None:
        """Find the second that a time is in, and its text as RFC 3339 has it, in UTC."""
        # Once a second this looks at the wall clock, which may have been set.
        offset_ns = time.time_ns() - self._clock.now_ns()
        second, ns = divmod(now_ns + offset_ns, _NS_PER_S)
        self._second_ns = now_ns - ns
        self._second_text = self._begin + time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))


def sampled_part(settings: AccessLogSettings) -> float:
    """The part of the requests without an error that are logged; 1 for all."""
    return 0.0 if settings.requests == ERRORS else settings.sampled_percent / 100


def text_of_block(head: RequestHead, user: User | None) -> str:
    """The end of a line's time, and the members that name the user; kept with the block if short.

    Args:
        head: Of the request, whose block keeps the text.
        user: None if the client was not authenticated.
    """
    who = NOBODY_KNOWN if user is None else text_of_user(user)
    traces = text_of_traces(head.forwarded_fields)
    text = f'Z",{who}{traces},"protocol":"{head.fields.protocol}"'
    if user is not None and len(text) <= MAX_KEPT_TEXT:
        head.block.logged = (user, text)
    return text


def text_of_target(method: str, target: bytes, attributes: RequestAttributes) -> str:
    """The members of a line that say what is asked for, the first comma included.

    Those of resources are only there in requests for resources, `query` if it has anything known.
    """
    path, query = attributes.path, attributes.query
    if (
        len(path) > MAX_TEXT
        or '"' in path
        or "\\" in path
        # A target has no controls; ASCII that stands there as it is needs no other escapes.
        or not path.isascii()
        or not target.startswith(path.encode())
    ):
        return escaped(method, attributes)
    # All that comes from the path needs no escapes either, nor any cutting.
    asked = query_text(query) if query else ""
    if not attributes.is_resource_request:
        return f',"verb":"{attributes.verb}","method":"{method}","path":"{path}"{asked}'
    # The name may come from the query.
    name = quoted(attributes.name) if query else f'"{attributes.name}"'
    return (
        f',"verb":"{attributes.verb}","method":"{method}","path":"{path}"{asked}'
        f',"apiGroup":"{attributes.api_group}","apiVersion":"{attributes.api_version}",'
        f'"resource":"{attributes.resource}","subresource":"{attributes.subresource}",'
        f'"namespace":"{attributes.namespace}","name":{name}'
    )


def text_of_class(found: Classification | None) -> str:
    """The members of a line that say where a request belongs, to the name of its seats."""
    if found is None:
        return ',"flowSchema":null,"priorityLevel":null,"flow":null,"seats":'
    # Names of Kubernetes' objects need no escapes.
    return (
        f',"flowSchema":"{found.flow.counters.flow_schema}","priorityLevel":"{found.level.name}",'
        f'"flow":{quoted(found.flow.distinguisher)},"seats":'
    )


def text_of_user(user: User) -> str:
    """The members of a line that name the user."""
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
    """As `text_of_target`, whatever the path may be."""
    text = (
        f',"verb":{quoted(attributes.verb)},"method":{quoted(method)},'
        f'"path":{quoted(attributes.path, MAX_PATH)}{query_text(attributes.query)}'
    )
    if attributes.is_resource_request:
        text += (
            f',"apiGroup":{quoted(attributes.api_group)},'
            f'"apiVersion":{quoted(attributes.api_version)},'
            f'"resource":{quoted(attributes.resource)},'
            f'"subresource":{quoted(attributes.subresource)},'
            f'"namespace":{quoted(attributes.namespace)},"name":{quoted(attributes.name)}'
        )
    return text


def query_text(query: Mapping[str, tuple[str, ...]]) -> str:
    """The member `query` of a line, its comma included: what Kubernetes' API gives a meaning.

    Of each parameter the first value counts, of `continue` only that it is there.
    """
    members = ""
    for name, values in query.items():
        if not values:
            continue
        if name == "continue":
            members += ',"continue":true'
            continue
        most = _MOST.get(name)
        if most is not None:
            members += f',"{name}":{quoted(values[0], most)}'
    return f',"query":{{{members[1:]}}}' if members else ""


def left_out_text(refused: Mapping[Key, int], over_bytes: Mapping[str, int]) -> str:
    """The end of a line that says which requests have no line, after its time."""
    reasons = dict(over_bytes)
    for key, number in refused.items():
        reasons[key[0]] = reasons.get(key[0], 0) + number
    by_reason = ",".join(f'"{reason}":{number}' for reason, number in reasons.items())
    most = sorted((each for each in refused.items() if each[0][1]), key=_number, reverse=True)
    flows = ",".join(
        f'{{"flowSchema":"{schema}","priorityLevel":"{level}","flow":{quoted(flow)},'
        f'"reason":"{reason}","leftOut":{number}}}'
        for (reason, schema, level, flow), number in most[:MAX_FLOWS]
    )
    return (
        f'"leftOut":{sum(reasons.values())},"overBytes":{sum(over_bytes.values())},'
        f'"reasons":{{{by_reason}}},"flows":[{flows}]}}\n'
    )


def _number(item: tuple[Key, int]) -> int:
    return item[1]


def text_of_server(address: str) -> str:
    """The member of a line that names one of several servers; "" where there is one."""
    return f',"upstream":{quoted(address)}' if address else ""


def text_of_trace(trace_id: int) -> str:
    """The member of a line that says as which trace a request was sampled."""
    return f',"traceId":"{trace_id:032x}"'


def waited_text(seats: int, wait_ns: int) -> str:
    """The values and members of a line from its seats to the name of the execution's time."""
    wait = seconds(wait_ns) if wait_ns else "0"
    return f'{seats},"waitSeconds":{wait},"executionSeconds":'


def response_text(status: int, upstream_status: int) -> str:
    """The members of a line after the execution's time, to the name of the length."""
    return f',"status":{status or "null"},"upstreamStatus":{upstream_status or "null"},"bytes":'


@functools.cache
def response_texts() -> tuple[str, ...]:
    """Those of each status that the server's answer has, too; once for all logs."""
    return tuple(response_text(status, status) for status in range(_STATUSES))


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


_AT_ONCE: Final = waited_text(1, 0)
