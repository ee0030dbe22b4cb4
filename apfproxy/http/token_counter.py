"""Counts the tokens of a completion in its response, as the bytes pass.

The APIs of OpenAI, Anthropic and Ollama, and the servers that speak them, say in three forms what
a model has made:

1. Server-sent events, mostly one a token.  Each has one line `data:`; OpenAI's last one is no token
   but `[DONE]`.
2. Lines of JSON (NDJSON), one a token.
3. One JSON body, when all is made.

Each may say its usage, in numbers of the prompt's tokens and the completion's: in the last event or
line, in the first one too, behind all else of a body.  The names of these numbers are looked for
with their quotes, which the text of a model cannot hold: JSON has a backslash before each.  The
last number counts, with the events or lines after it, of which one may only end the response.
These are also what is known of a response that has not said its usage, or was cut.  What is
compressed, or in another form, has no counter.

The counter keeps `KEPT_BYTES` of the body, and is linear in it.

Source: OpenAI's API reference (chat, completions, responses), Anthropic's (messages), Ollama's
docs/api.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece

UNKNOWN: Final = -1

_FORM: Final = re.compile(
    rb"\r\nContent-Type:[ \t]*(?:(text/event-stream)|(application/(?:x-)?(?:ndjson|jsonl))"
    rb"|application/json)[ \t]*[;\r]",
    re.IGNORECASE,
)
_CODED: Final = re.compile(rb"\r\nContent-Encoding:[ \t]*+(?!identity\b|\r)", re.IGNORECASE)

_DATA: Final = b"\ndata:"
_DONE: Final = re.compile(rb"\ndata: ?\[DONE\]")
_USAGE: Final = re.compile(
    rb'"(?:(prompt_tokens|input_tokens|prompt_eval_count)'
    rb'|completion_tokens|output_tokens|eval_count)"\s{0,8}:\s{0,8}([0-9]{1,12})[,}\s]'
)
KEPT_BYTES: Final = 64
"""Between two reads, for what stands in both: more than the longest match has."""


class TokenCounter:
    """Takes a body piece by piece.

    Attributes:
        events: Events or lines so far; 0 of a body that is no stream.
        prompt_tokens, completion_tokens: By the usage that the response says; else `UNKNOWN`.
    """

    def __init__(self, *, has_events: bool, has_lines: bool) -> None:
        self._has_events = has_events
        self._has_lines = has_lines
        self.is_stream = has_events or has_lines
        self.events = 0
        self.prompt_tokens = UNKNOWN
        self.completion_tokens = UNKNOWN
        self._later = 0
        """Events or lines since the completion's usage was said last."""
        self._kept = b"\n"

    @property
    def tokens(self) -> int:
        """The completion's tokens, as well as they are known; `UNKNOWN` if they are not."""
        if self.completion_tokens == UNKNOWN:
            return self.events if self.is_stream else UNKNOWN
        return self.completion_tokens + (self._later if self._later > 1 else 0)

    def feed(self, pieces: Sequence[Piece]) -> int:
        """Take a further part of the body; how many events or lines it has ended or begun."""
        kept = self._kept
        window = b"".join((kept, *pieces))
        self._kept = window[-KEPT_BYTES:]
        events = self._events(window, len(kept))
        self.events += events
        self._later += events
        # Their names are rare; from the right is faster, as it looks for the rare first byte.
        if window.rfind(b'_tokens"') >= 0 or window.rfind(b'_count"') >= 0:
            self._read_usage(window)
        return events

    def _read_usage(self, window: bytes) -> None:
        end = 0
        for found in _USAGE.finditer(window):
            if found[1] is None:
                self.completion_tokens = int(found[2])
                end = found.end()
            else:
                self.prompt_tokens = int(found[2])
        if end:
            self._later = self._events(window, end)

    def _events(self, window: bytes, start: int) -> int:
        """How many events begin, or lines end, with a byte from `start` on."""
        if self._has_lines:
            return window.count(b"\n", start)
        if not self._has_events:
            return 0
        events = window.count(_DATA, max(0, start + 1 - len(_DATA)))
        if window.rfind(b"[DONE]") >= 0:
            events -= len([1 for found in _DONE.finditer(window) if found.end() > start])
        return events

    def __repr__(self) -> str:
        return f"<TokenCounter {self.prompt_tokens}, {self.tokens}, {self.events}>"


def token_counter(lines: bytes) -> TokenCounter | None:
    """A counter for the body of a response with these header lines; None if it can have none."""
    form = _FORM.search(lines)
    if form is None or _CODED.search(lines) is not None:
        return None
    return TokenCounter(has_events=form[1] is not None, has_lines=form[2] is not None)
