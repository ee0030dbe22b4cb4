"""Finds the entries of a log, JSON objects, in what programs wrap them in.

One may stand on a line, behind a prefix (syslog's, CRI's, columns of CSV) or not; in several lines,
in lists and objects (an EventList, what CloudWatch returns); in a string of JSON (Docker's `log`,
AKS's `properties.log`, Fluent Bit's `message`), to any depth, and cut into several (CRI's `P`,
Docker's without an end of line).

Of a list that is long each item is read as it comes; anything else has `MAX_BYTES`.  A line without
an entry is left out where it is a wrapper's; any other is broken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Entry = TypeVar("Entry")

MAX_BYTES: Final = 64 << 20
"""Bytes of a value that has not ended; an audit event with large bodies has a few MiB."""
SMALL_BYTES: Final = 256 << 10
"""A larger value is taken apart before it is read: as Python's objects it is ten times as large."""
DEEPEST: Final = 64
"""Open brackets of a value in several lines, and wrappers of a line."""
MAX_MESSAGE: Final = 160
UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""Errors of a decoder; the latter where JSON is too deep."""

BOM: Final = b"\xef\xbb\xbf"
CRI = re.compile(rb"\S+ (?:stdout|stderr) ([FP])\S* ?(.*)", re.DOTALL)
JSON = re.compile(rb'\{\s*(?:["}]|$)|\[\s*(?:["\[{\]]|$)')
"""The beginning of an object, or of a list that may have one."""
OBJECT = re.compile(rb'\{\s*"')
OF_CSV: Final = b'{""'
OTHER_TEXT = re.compile(
    rb"(?:<[0-9]{1,3}>)?(?:[0-9]{1,2} )?"
    rb"(?:[A-Z][a-z]{2} +[0-9]{1,2} |[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])[0-9]{2}:[0-9]{2}"
    rb"|[IWEF][0-9]{4} [0-9]{2}:|-- |\[[A-Z0-9]"
)
"""Text of other programs, by its time or level: a line of syslog, journald or klog."""
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]')
"""A string, the beginning of one that does not end, or a bracket."""
PAIRS: Final = {b"}": b"{", b"]": b"["}

WRAPPERS = frozenset(
    {
        *("@message", "_raw", "_source", "attributes", "body", "content", "data", "entries"),
        *("event", "events", "fields", "hits", "items", "json", "jsonpayload", "kubernetes"),
        *("line", "log", "log_processed", "log_s", "logevents", "logjson", "message", "msg"),
        *("parsed", "payload", "properties", "protopayload", "raw", "records", "result"),
        *("results", "streams", "text", "textpayload", "value", "values"),
    }
)
"""Members of objects that may have entries, in small letters."""
GOOGLE: Final = "protopayload"
DOCKER = frozenset({"attrs", "log", "stream", "time"})


class Format(NamedTuple, Generic[Entry]):
    """The entries of one kind of log.

    Attributes:
        kind: The type of an entry.
        marker: A member that every entry has.
        entry_of: The entry that an object is meant as; None if it is none.
        is_other: Whether an object is an entry of another kind of log, which is left out.
    """

    kind: type[Entry]
    marker: str
    entry_of: Callable[[dict[str, Any]], dict[str, Any] | None]
    is_other: Callable[[dict[str, Any]], bool]


class WrappedLines(Generic[Entry]):
    """Reads lines, and hands over the entries in them.

    Args:
        wanted: The kind of log.
        take: Gets each, or raises ValueError.
        refuse: Gets the number of a line and what is wrong with it.

    Attributes:
        left_out: Lines and items of wrappers without an entry.
        foreign: Items among them of Google Cloud's own audit log.
        misfits: Entries of another kind of log.
    """

    def __init__(
        self,
        wanted: Format[Entry],
        take: Callable[[Entry], None],
        refuse: Callable[[int, str], None],
    ) -> None:
        self._format = wanted
        self._decode = msgspec.json.Decoder(wanted.kind).decode
        self._take = take
        self._refuse = refuse
        self.left_out = self.foreign = self.misfits = 0
        self._number = 0
        self._piece = b""  # of an entry that was cut into several lines
        self._open: Open | None = None

    def read(self, lines: Iterable[bytes]) -> None:
        for self._number, line in enumerate(lines, 1):
            text = line.strip()
            if self._number == 1:
                text = text.removeprefix(BOM)
            if not text:
                continue
            if self._open is not None and not self._open.can_go_on(text):
                self._give_up(self._open)
            if self._open is not None:
                self._go_on(self._open, text)
            elif JSON.match(text) is not None:
                self._one(text, may_go_on=True)
            else:
                self._text(text)
        if self._open is not None:
            self._give_up(self._open)
        if self._piece:
            self._break("the log ends within an entry")

    def _break(self, problem: Exception | str) -> None:
        self._refuse(self._number, message_of(problem))

    def _give_up(self, opened: Open) -> None:
        self._open = None
        self._refuse(opened.number, opened.problem)

    def _text(self, text: bytes) -> None:
        cri = CRI.fullmatch(text)
        if cri is not None:
            self._piece += cri[2]
            if cri[1] == b"P" and len(self._piece) <= MAX_BYTES:
                return
            text, self._piece = self._piece.strip(), b""
        if OF_CSV in text:
            start, end = text.index(OF_CSV), text.rfind(b"}") + 1
            self._one(text[start:end].replace(b'""', b'"'), is_wrapped=True)
        elif (found := OBJECT.search(text)) is not None:
            self._one(text[found.start() :], is_wrapped=True)
        else:
            self._one(text, is_wrapped=cri is not None or OTHER_TEXT.match(text) is not None)

    def _go_on(self, opened: Open, text: bytes) -> None:
        for item in opened.items_in(text):
            self._one(item)
        if opened.is_refused:
            self._give_up(opened)
        elif opened.end >= 0:
            self._open = None
            if not opened.has_items:
                self._one(opened.text())
            rest = text[opened.end :].lstrip(b" \t,")
            if JSON.match(rest) is not None:
                self._one(rest, may_go_on=True)
            elif rest:
                self._break("there is text behind the end of a value")

    def _one(self, text: bytes, *, is_wrapped: bool = False, may_go_on: bool = False) -> None:
        """Read a value; any other is left out if it is wrapped, or may end on a later line."""
        try:
            self._take(self._decode(text))
        except UNREADABLE as error:
            flaw = flaw_of(text) if may_go_on else None
            if may_go_on and (flaw is not None or len(text) > SMALL_BYTES):
                self._open = Open(self._number, message_of(flaw or error))
                self._go_on(self._open, text)
            else:
                self._other(text, error, is_wrapped=is_wrapped)
        except ValueError as error:
            self._break(error)

    def _other(self, text: bytes, error: Exception, *, is_wrapped: bool) -> None:
        try:
            value = msgspec.json.decode(text)
        except UNREADABLE:
            if is_wrapped and f'"{self._format.marker}"'.encode() not in text:
                self.left_out += 1
            else:
                self._break(error)
            return
        if isinstance(value, dict) and value.keys() <= DOCKER and type(value.get("log")) is str:
            self._docker(value["log"].encode(errors="replace"))
            return
        misfits = self.misfits
        found = list(self._entries_in(value))
        for each in found:
            try:
                self._take(msgspec.convert(each, self._format.kind))
            except (msgspec.ValidationError, ValueError) as flaw:
                self._break(flaw)
        if found:
            return
        names = names_in(value)
        if is_wrapped or self.misfits > misfits or all(WRAPPERS & each for each in names):
            self.left_out += 1
            self.foreign += any(GOOGLE in each for each in names)
        else:
            self._break(error)

    def _docker(self, log: bytes) -> None:
        is_whole = flaw_of(log) is None
        if self._piece and is_whole:
            self._break("the entry before has no end")
            self._piece = b""
        self._piece += log
        has_ended = is_whole or log.endswith(b"\n")
        if not has_ended and self._piece[:1] == b"{" and len(self._piece) <= MAX_BYTES:
            return
        text, self._piece = self._piece.strip(), b""
        found = OBJECT.search(text)
        self._one(text[found.start() :] if found is not None else text, is_wrapped=True)

    def _entries_in(self, value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
        """The entries in a value, and in JSON in its strings."""
        if depth > DEEPEST:
            return
        if isinstance(value, dict):
            if (entry := self._format.entry_of(value)) is not None:
                yield entry
                return
            if self._format.is_other(value):
                self.misfits += 1
                return
            value = list(value.values())
        elif isinstance(value, str):
            value = values_in(value)
        if isinstance(value, list):
            for each in value:
                yield from self._entries_in(each, depth + 1)


class Open:
    """A value that is taken apart, whose end may be on a later line.

    Attributes:
        number: Of its first line.
        problem: What to say if it never ends.
        has_items: Whether it has items that are read alone.
        is_refused: Whether it does not go on as JSON does, or is too large.
        end: Where it ends on its last line; below 0 before.
    """

    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        self.problem = problem
        self.has_items = self.is_refused = False
        self.end = -1
        self._stack = bytearray()
        self._kept = bytearray()  # of the item that is open, or else of the whole
        self._is_in_item = False
        self._last = b""

    def can_go_on(self, text: bytes) -> bool:
        """Whether JSON goes on with a line: an object stands behind a colon, or in a list."""
        before = (b":",) if self._stack[-1:] == b"{" else (b"[", b",")
        return text[:1] != b"{" or self._last in before

    def items_in(self, text: bytes) -> Iterator[bytes]:
        """The objects that end on a line, and are items of the whole or of a member of it."""
        stack, start = self._stack, 0
        for token in TOKEN.finditer(text):
            bracket = token[0]
            if len(bracket) > 1:
                continue
            if bracket in PAIRS and stack[-1:] == PAIRS[bracket]:
                stack.pop()
                if self._is_in_item and is_list(stack):
                    yield bytes(self._kept + text[start : token.end()])
                    self._is_in_item, start = False, token.end()
                    self._kept.clear()
                elif not stack:
                    self.end = token.end()
                    break
            elif bracket not in b"{[" or len(stack) > DEEPEST:
                self.is_refused = True
                return
            else:
                if bracket == b"{" and is_list(stack):
                    self._is_in_item = self.has_items = True
                    start = token.start()
                    self._kept.clear()
                stack += bracket
        if self._is_in_item or not self.has_items:
            self._kept += text[start : self.end] if self.end >= 0 else text[start:] + b"\n"
        self._last = text[-1:]
        if len(self._kept) > MAX_BYTES:
            self.is_refused = True
            self.problem = f"a value has more than {MAX_BYTES >> 20} MiB"

    def text(self) -> bytes:
        return bytes(self._kept)


def is_list(stack: bytearray) -> bool:
    return bytes(stack) in (b"[", b"{[")


def flaw_of(text: bytes) -> Exception | None:
    """Why a text is not one value of JSON; None if it is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except UNREADABLE as error:
        return error
    return None


def values_in(text: str) -> list[object]:
    """The JSON in a string: all of it, all from its first brace on, or that of its lines."""
    start = 0 if text.lstrip()[:1] == "[" else text.find("{")
    if start < 0:
        return []
    try:
        return [msgspec.json.decode(text[start:])]
    except UNREADABLE:
        lines = text.splitlines()
    return [value for line in lines for value in values_in(line)] if len(lines) > 1 else []


def names_in(value: object) -> list[set[str]]:
    """The names of the members of an object, or of each item of a list, in small letters."""
    values = value if isinstance(value, list) else [value]
    return [{name.lower() for name in each} if isinstance(each, dict) else set() for each in values]


def message_of(error: Exception | str) -> str:
    return " ".join(str(error).split())[:MAX_MESSAGE]
