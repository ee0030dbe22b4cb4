"""The access log: which requests have a line, and the lines, each a JSON object.

1. Of requests without an error a part is drawn, as the settings say.
2. Of requests that were never sent on (rejected, malformed, unauthenticated, ...) some a second
   are logged of each flow and reason: a client can repeat such a request at once.
3. All lines of a process have so many bytes a second.  Lines that exceed them are paid for by those
   that follow.
4. What is left out by 2 and 3 is counted, by flow and reason, for a line once a second.

The event loop decides only that; lines are made in the thread that writes them.  What depends on
user and header fields is kept with the header block, and what depends on the classification here;
the rest is one formatting.  Never in a line: credentials, cookies, bodies, and of the query
anything but what Kubernetes' API gives a meaning.  Every text is escaped, and cut.
"""

from __future__ import annotations

import enum
import random
import time
from functools import partial
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.tracing import MAX_AUDIT_ID, made_id, read_traces
from apfproxy.settings import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.http.request_head import RequestHead
    from apfproxy.proxy.request import HeaderBlock
    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.request.attributes import RequestAttributes, User
    from apfproxy.settings import AccessLogSettings

    Write = Callable[[Callable[[], bytes], int, int], None]

MAX_TEXT: Final = 256
"""Characters of a name; Kubernetes' names have 253 at most."""
MAX_PATH: Final = 1024
"""Characters of a path, and of a selector."""
MAX_GROUPS: Final = 16
MAX_FLOWS: Final = 8
"""Flows that are named of those of which something was left out."""
MAX_KEPT_TEXT: Final = 768
"""Characters that are kept with a header block; longer ones are made each time."""
MAX_KEPT_CLASSES = 4096
"""Classifications whose texts are kept, of half a KiB at most."""
CUT: Final = "..."

PARAMETERS: Final = {
    **dict.fromkeys(("limit", "resourceVersion", "resourceVersionMatch", "watch"), MAX_TEXT),
    **dict.fromkeys(("sendInitialEvents", "allowWatchBookmarks"), MAX_TEXT),
    **dict.fromkeys(("timeout", "timeoutSeconds"), MAX_TEXT),
    **dict.fromkeys(("labelSelector", "fieldSelector"), MAX_PATH),
}
"""Parameters whose values say what a request costs, and no secret; at most so long."""

SECOND_NS: Final = 1_000_000_000
_US_PER_S: Final = 1_000_000
_DIGITS: Final = tuple(f"{number:03d}" for number in range(1000))
_NOBODY: Final = '"user":null,"groups":null'
_NO_HEAD: Final = f'Z",{_NOBODY},"userAgent":null,"protocol":null'
_NO_TARGET: Final = ',"verb":null,"method":null,"path":null'
_NO_CLASS: Final = ',"flowSchema":null,"priorityLevel":null,"flow":null,"seats":'
_AT_ONCE: Final = '1,"waitSeconds":0,"executionSeconds":'

Key = tuple[str, str, str, str]
"""Reason, FlowSchema, priority level and flow; the last three are empty if they are not known."""


class LogLines:
    def __init__(self, clock: Clock, on_error: Callable[[Exception], None], cluster: str) -> None:
        """`on_error` gets the error for which a record has no line."""
        self._begin = f'{{"cluster":"{cluster}","time":"' if cluster else '{"time":"'
        self._clock = clock
        self._on_error = on_error
        self._second_ns = -SECOND_NS
        self._second_text = ""
        self._statuses = tuple(_text_of_status(status, status) for status in range(1000))
        self._classes: dict[Classification | None, str] = {}
        self._generation = -1

    def of_records(self, records: list[RequestRecord]) -> bytes:
        """The lines of some requests; `on_error` gets those of which none can be made."""
        try:
            return self._lines(records)
        except Exception:  # noqa: BLE001  one request must not cost the others their lines
            lines = b""
            for record in records:
                try:
                    lines += self._lines([record])
                except Exception as error:  # noqa: BLE001  as above
                    self._on_error(error)
            return lines

    def of_omissions(
        self, now_ns: int, refused: Mapping[Key, int], over_bytes: Mapping[str, int]
    ) -> bytes:
        reasons = dict(over_bytes)
        for key, number in refused.items():
            reasons[key[0]] = reasons.get(key[0], 0) + number
        by_reason = ",".join(f'"{reason}":{number}' for reason, number in reasons.items())
        known = [each for each in refused.items() if each[0][1]]
        known.sort(key=itemgetter(1), reverse=True)
        flows = ",".join(
            f'{{"flowSchema":"{schema}","priorityLevel":"{level}","flow":{quoted(flow)},'
            f'"reason":"{reason}","leftOut":{number}}}'
            for (reason, schema, level, flow), number in known[:MAX_FLOWS]
        )
        self._find_second(now_ns)
        return (
            f'{self._second_text}{(now_ns - self._second_ns) // 1000:06d}Z",'
            f'"leftOut":{sum(reasons.values())},"overBytes":{sum(over_bytes.values())},'
            f'"reasons":{{{by_reason}}},"flows":[{flows}]}}\n'
        ).encode()

    def _lines(self, records: list[RequestRecord]) -> bytes:
        """The lines, in one loop; what can be looked up, with names around it, is not formatted."""
        lines: list[str] = []
        digits, statuses, classes = _DIGITS, self._statuses, self._classes
        second_ns, second_text = self._second_ns, self._second_text
        for record in records:
            asked_ns, sent_ns, ended_ns = record.asked_ns, record.sent_ns, record.ended_ns
            begun_ns = record.begun_ns or asked_ns
            begun_us = (begun_ns - second_ns) // 1000
            if not 0 <= begun_us < _US_PER_S:
                self._find_second(begun_ns)
                second_ns, second_text = self._second_ns, self._second_text
                begun_us = (begun_ns - second_ns) // 1000
            head, block = record.head, record.block
            user, attributes = record.user, record.attributes
            if head is None or block is None or attributes is None:
                who, what = _NO_HEAD, _NO_TARGET
            else:
                kept = block.logged
                if kept is not None and kept[0] is user:
                    who = kept[1]
                else:
                    who = _text_of_block(head, block, user)
                what = text_of_target(head.method, head.target, attributes)
            found, seats = record.classification, record.seats
            where = classes.get(found) or self._text_of_class(found)
            if sent_ns == asked_ns and seats == 1:
                waited = _AT_ONCE
            else:
                wait_ns = (sent_ns or ended_ns) - asked_ns
                wait = f"{wait_ns / SECOND_NS:.6f}" if wait_ns else "0"
                waited = f'{seats},"waitSeconds":{wait},"executionSeconds":'
            took_us = (ended_ns - sent_ns) // 1000 if sent_ns else 0
            took_s = "0"
            if took_us >= _US_PER_S:
                took_s = str(took_us // _US_PER_S)
                took_us %= _US_PER_S
            status = record.status
            if status == record.upstream_status:
                came = statuses[status]
            else:
                came = _text_of_status(status, record.upstream_status)
            endpoint, trace_id, why = record.endpoint, record.trace_id, record.why
            by = f',"upstream":{quoted(endpoint)}' if endpoint else ""
            if trace_id:
                by += f',"traceId":"{trace_id:032x}"'
            tokens = "" if record.completion_tokens < 0 else _text_of_tokens(record)
            because = f',"why":{quoted(why)}' if why else ""
            made = record.audit_line
            audit_id = f'","auditId":"{made_id(made)}' if made else ""
            lines.append(
                f"{second_text}{digits[begun_us // 1000]}{digits[begun_us % 1000]}{who}{what}"
                f"{where}{waited}{took_s}.{digits[took_us // 1000]}{digits[took_us % 1000]}{came}"
                f'{record.body_bytes}{tokens}{by},"reason":"{record.reason}"{because},'
                f'"client":"{record.client_address}{audit_id}"}}\n'
            )
        return "".join(lines).encode()

    def _text_of_class(self, found: Classification | None) -> str:
        if found is None:
            return _NO_CLASS
        classes, flow = self._classes, found.flow
        # Names of Kubernetes' objects need no escapes.
        text = (
            f',"flowSchema":"{flow.counters.flow_schema}","priorityLevel":"{found.level.name}",'
            f'"flow":{quoted(flow.distinguisher)},"seats":'
        )
        if found.generation != self._generation or len(classes) >= MAX_KEPT_CLASSES:
            self._generation = found.generation
            classes.clear()
        classes[found] = text
        return text

    def _find_second(self, now_ns: int) -> None:
        # Once a second this looks at the wall clock, which may have been set.
        offset_ns = time.time_ns() - self._clock.now_ns()
        second, ns = divmod(now_ns + offset_ns, SECOND_NS)
        self._second_ns = now_ns - ns
        self._second_text = self._begin + time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))


def _text_of_block(head: RequestHead, block: HeaderBlock, user: User | None) -> str:
    """The end of a line's time, and the members of the user; kept with the block if short."""
    who = _NOBODY
    if user is not None:
        groups = ",".join(map(quoted, user.groups[:MAX_GROUPS]))
        who = f'"user":{quoted(user.name)},"groups":[{groups}]'
    traces = read_traces(head.forwarded_fields)
    agent = quoted(traces.user_agent) if traces.user_agent else "null"
    text = f'Z",{who},"userAgent":{agent}'
    if traces.audit_id:
        text += f',"auditId":{quoted(traces.audit_id[:MAX_AUDIT_ID])}'
    if traces.traceparent:
        text += f',"traceparent":"{traces.traceparent}"'
    text += f',"protocol":"{head.fields.protocol}"'
    if user is not None and len(text) <= MAX_KEPT_TEXT:
        block.logged = (user, text)
    return text


def text_of_target(method: str, target: bytes, attributes: RequestAttributes) -> str:
    """The members that say what is asked for, first comma included; `query` if any is known."""
    path, query, verb, name = attributes.path, attributes.query, attributes.verb, attributes.name
    group, version, resource = attributes.api_group, attributes.api_version, attributes.resource
    subresource, namespace = attributes.subresource, attributes.namespace
    if (
        len(path) > MAX_TEXT
        or '"' in path
        or "\\" in path
        # A target has no controls; ASCII that stands there as it is needs no other escapes.
        or not path.isascii()
        or not target.startswith(path.encode())
    ):
        path, method = _escaped(path, MAX_PATH), _escaped(method)
        verb, group, version, resource = map(_escaped, (verb, group, version, resource))
        subresource, namespace, name = map(_escaped, (subresource, namespace, name))
    elif query:  # all else that comes from such a path needs no escapes, nor any cutting
        name = _escaped(name)
    asked = _text_of_query(query) if query else ""
    text = f',"verb":"{verb}","method":"{method}","path":"{path}"{asked}'
    if not attributes.is_resource_request:
        return text
    return (
        f'{text},"apiGroup":"{group}","apiVersion":"{version}","resource":"{resource}",'
        f'"subresource":"{subresource}","namespace":"{namespace}","name":"{name}"'
    )


def _text_of_query(query: Mapping[str, tuple[str, ...]]) -> str:
    """The member `query`: each known parameter's first value; of `continue` that it is there."""
    members = ""
    for name, values in query.items():
        if not values:
            continue
        if name == "continue":
            members += ',"continue":true'
        elif (most := PARAMETERS.get(name)) is not None:
            members += f',"{name}":{quoted(values[0], most)}'
    return f',"query":{{{members[1:]}}}' if members else ""


def _text_of_status(status: int, upstream_status: int) -> str:
    return f',"status":{status or "null"},"upstreamStatus":{upstream_status or "null"},"bytes":'


def _text_of_tokens(record: RequestRecord) -> str:
    prompt = record.prompt_tokens if record.prompt_tokens >= 0 else "null"
    return f',"promptTokens":{prompt},"completionTokens":{record.completion_tokens}'


def cut(text: str, most: int = MAX_TEXT) -> str:
    """The text, cut to so many characters; U+FFFD for what is no Unicode."""
    if len(text) > most:
        text = text[: most - len(CUT)] + CUT
    # A header may carry text that is no Unicode, which Python keeps as lone surrogates.
    return text.encode(errors="surrogatepass").decode(errors="replace")


def quoted(text: str, most: int = MAX_TEXT) -> str:
    """The text as JSON in ASCII, cut as by `cut`."""
    if len(text) > most or not text.isascii():
        text = cut(text, most)
    return encode_basestring_ascii(text)


def _escaped(text: str, most: int = MAX_TEXT) -> str:
    return quoted(text, most)[1:-1]


FLUSH_PERIOD_NS: Final = 100_000_000
MAX_RECORDS: Final = 64
"""Requests whose lines are made at once, which takes a third of the time of one by one."""
MAX_KEYS: Final = 256
"""Flows and reasons that are told apart in a second; further ones count together by reason."""
EXPECTED_BYTES: Final = 512
"""Length of a line that is not made yet."""


class Omission(enum.StrEnum):
    """Why a request has no line, by rule 2 or 3; the label `cause` of the metric."""

    REFUSED = "refused"
    BYTES = "bytes"


class LogBudget:
    def __init__(self, settings: AccessLogSettings) -> None:
        self._per_second = settings.max_bytes_per_second
        self._left_bytes = self._per_second or 0
        self._looked_ns = 0
        self._corrections = 0
        """Sum of what `correct` was told, by the thread; the loop has seen so much of it:"""
        self._corrected = 0
        self.left_out: dict[str, int] = dict.fromkeys(Omission, 0)

    def configure(self, settings: AccessLogSettings) -> None:
        if settings.max_bytes_per_second != self._per_second:
            self._per_second = settings.max_bytes_per_second
            self._left_bytes = self._per_second or 0

    def refill(self, now_ns: int) -> bool:
        """Add what the time since the last call brought; whether anything is left."""
        per_second = self._per_second
        if per_second is None:
            return True
        corrections = self._corrections
        self._left_bytes -= corrections - self._corrected
        self._corrected = corrections
        elapsed_ns = now_ns - self._looked_ns
        # What is less than a byte is not lost.
        brought, rest = divmod(per_second * elapsed_ns, SECOND_NS)
        self._looked_ns = now_ns - rest // per_second
        self._left_bytes = min(self._left_bytes + brought, per_second)
        return self._left_bytes > 0

    def spend(self, size: int) -> None:
        self._left_bytes -= size

    def correct(self, size: int) -> None:
        """Take what lines have beyond that, which may be negative; called by the thread."""
        self._corrections += size


class RequestLog:
    """Takes the records of one cluster's requests, or of what is no cluster's."""

    def __init__(
        self,
        settings: AccessLogSettings,
        clock: Clock,
        write: Write,
        budget: LogBudget,
        on_error: Callable[[Exception], None],
        cluster: str = "",
    ) -> None:
        """Make a log, which shares its budget with others.

        `write` gets a function that makes some lines, called in the thread that writes them; their
        number; and the bytes that are kept until then.  `on_error` gets an error that cost a line.
        """
        self._clock = clock
        self._lines = LogLines(clock, on_error, cluster)
        self._write = write
        self._budget = budget
        self._records: list[RequestRecord] = []
        self._kept_bytes = 0
        self._timer: Timer | None = None
        self._saying: Timer | None = None
        self._logged: dict[Key, int] = {}
        """Refused requests that have a line, in the second that ends then:"""
        self._until_ns = 0
        # What was left out since it was said last.
        self._refused: dict[Key, int] = {}
        """The reason alone is the key of those that found no room among the keys."""
        self._over_bytes: dict[str, int] = {}
        """By reason; "" for those that had none."""
        self._sampled = sampled_part(settings)
        self._refused_per_second = settings.refused_per_second

    def take(self, record: RequestRecord) -> None:
        reason, head = record.reason, record.head
        if reason:
            if not record.sent_ns and not self._admit_refused(record):
                self._say_soon()
                return
        elif self._sampled < 1 and record.status < 400 and random.random() >= self._sampled:  # noqa: S311 - a sample, not a secret
            return
        if head is not None:
            self._kept_bytes += head.size
        records = self._records
        records.append(record)
        if len(records) >= MAX_RECORDS:
            self.flush()
        elif self._timer is None:
            self._timer = self._clock.call_at(
                self._clock.now_ns() + FLUSH_PERIOD_NS, self._on_timer
            )

    def _admit_refused(self, record: RequestRecord) -> bool:
        per_second = self._refused_per_second
        if per_second is None:
            return True
        if record.ended_ns >= self._until_ns:
            self._until_ns = record.ended_ns + SECOND_NS
            self._logged.clear()
        key = alone = (record.reason, "", "", "")
        if (found := record.classification) is not None:
            flow = found.flow
            key = (record.reason, flow.counters.flow_schema, found.level.name, flow.distinguisher)
        if _is_full(self._logged, key):
            key = alone
        number = self._logged.get(key, 0)
        if number < per_second:
            self._logged[key] = number + 1
            return True
        if _is_full(self._refused, key):
            key = alone
        self._refused[key] = self._refused.get(key, 0) + 1
        self._budget.left_out[Omission.REFUSED] += 1
        return False

    def flush(self) -> None:
        """Hand on all records that there are, if there are bytes for their lines."""
        records, self._records = self._records, []
        kept_bytes, self._kept_bytes = self._kept_bytes, 0
        if not records:
            return
        if self._budget.refill(self._clock.now_ns()):
            self._hand_on(partial(self._lines.of_records, records), len(records), kept_bytes)
            return
        for record in records:
            self._over_bytes[record.reason] = self._over_bytes.get(record.reason, 0) + 1
        self._budget.left_out[Omission.BYTES] += len(records)
        self._say_soon()

    def _hand_on(self, make: Callable[[], bytes], lines: int, kept_bytes: int = 0) -> None:
        self._budget.spend(EXPECTED_BYTES * lines)
        self._write(partial(self._made, make, lines), lines, kept_bytes)

    def _made(self, make: Callable[[], bytes], lines: int) -> bytes:
        data = make()
        self._budget.correct(len(data) - EXPECTED_BYTES * lines)
        return data

    def close(self) -> None:
        self.flush()
        self._say_left_out()
        for timer in (self._timer, self._saying):
            if timer is not None:
                timer.cancel()
        self._timer = self._saying = None

    def _on_timer(self) -> None:
        self._timer = None
        self.flush()

    def _say_soon(self) -> None:
        if self._saying is None:
            self._saying = self._clock.call_at(self._clock.now_ns() + SECOND_NS, self._on_saying)

    def _on_saying(self) -> None:
        self._saying = None
        self.flush()
        self._say_left_out()

    def _say_left_out(self) -> None:
        refused, self._refused = self._refused, {}
        over_bytes, self._over_bytes = self._over_bytes, {}
        if refused or over_bytes:
            now_ns = self._clock.now_ns()
            self._hand_on(partial(self._lines.of_omissions, now_ns, refused, over_bytes), 1)


def sampled_part(settings: AccessLogSettings) -> float:
    """The part of the requests without an error that are logged; 1 for all."""
    return 0.0 if settings.requests == ERRORS else settings.sampled_percent / 100


def _is_full(counts: dict[Key, int], key: Key) -> bool:
    return key not in counts and len(counts) >= MAX_KEYS
