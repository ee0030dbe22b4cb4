"""Prefixes of paths below which a server has APIs, such as `/clusters/{workspace}`.

1. A pattern has segments; one of them may be `{NAME}`, the variable part.
2. It is found in a path as it came, segment by segment, where letters may be escaped.  An escaped
   slash divides no segments, and is in none: to some servers `/clusters/a%2Fb` is below `a`.
3. The variable part has letters, digits and `-._~!$&'()+,=:@`, and not only dots.
4. Of several patterns the one with the most segments counts, then the one with a constant where
   others have the variable part.
5. A path that some server might take for another one has no value: its request may be to what is
   below another prefix.  Such paths are those with dot segments, and those with a character that is
   not unreserved or a delimiter by RFC 3986: escapes that are decoded a second time, backslashes,
   `;` with what belongs to a segment, and whatever is no ASCII, which may become it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.request.target import decode_path, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN_PATH: Final = re.compile(r"(?:/(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]*+)*+")
SEGMENT: Final = r"(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()+,=:@-]+"
PATTERN: Final = re.compile(
    rf"(?=[^{{]*(?:{{[^{{]*)?\Z)(?:/(?:{SEGMENT}|{{[A-Za-z][A-Za-z0-9]*}})(?=/|\Z))+"
)
"""All patterns that there may be."""
VALUE: Final = re.compile(SEGMENT)
_VARIABLE: Final = r"((?:[A-Za-z0-9._~!$&'()+,=:@-]|%[0-9A-Fa-f]{2})++)"


def is_plain_path(path: str) -> bool:
    """Whether every server takes the path, decoded once, for one below its beginning."""
    return PLAIN_PATH.fullmatch(path) is not None


class PathPrefixes:
    """Finds the prefix of a path; immutable."""

    def __init__(self, patterns: Iterable[str]) -> None:
        divided = [pattern.split("/")[1:] for pattern in patterns]
        divided.sort(key=lambda parts: (-len(parts), [_is_variable(part) for part in parts]))
        self._any = re.compile("|".join(map(_pattern_of, divided)).encode())

    def find(self, raw_path: bytes, path: str) -> tuple[str, str]:
        """The prefix that a path has, decoded, and its variable part; both "" if it has none.

        The escapes of `raw_path` are right; `path` is the same, decoded.
        """
        found = self._any.match(raw_path)
        if found is None:
            return "", ""
        # The only group with a match; that of a pattern without a variable part is empty.
        value = decode_path(found[found.lastindex or 0])
        if value and VALUE.fullmatch(value) is None:
            return "", ""
        return decode_path(found[0]), value if is_plain_path(path) else ""


def _is_variable(part: str) -> bool:
    return part.startswith("{")


def _pattern_of(parts: list[str]) -> str:
    """A regular expression for the segments of a pattern, with one group."""
    segments = ["/" + (_VARIABLE if _is_variable(part) else spelled(part)) for part in parts]
    group = "" if any(map(_is_variable, parts)) else "()"
    return f"{''.join(segments)}{group}(?=/|\\Z)"
