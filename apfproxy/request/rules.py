"""How requests are read where that is a setting: which are long-running, and where APIs begin.

A long-running request may last as long as its client likes: it has no deadline, and takes no seats
unless it is a WATCH, which has them until it began.  What kube-apiserver takes for long-running is
in its code (kubernetes#73421, kubernetes#83200), so before aggregated servers it is often wrong.

A path is long-running that is one of some prefixes, or below one.  Deviation: one that some server
might take for another path, see 5 below, is not, since it would take no seats wherever it
leads to.

Prefixes of paths below which a server has APIs, such as `/clusters/{workspace}`:

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

Source: kubernetes/apiserver pkg/server/filters/longrunning.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTING: Final = "request.longRunning"
_OF_RESOURCES: Final = ("/api/", "/apis/")
PLAIN_PATH: Final = re.compile(r"(?:/(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]*+)*+")
SEGMENT: Final = r"(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()+,=:@-]+"
PATTERN: Final = re.compile(
    rf"(?=[^{{]*(?:{{[^{{]*)?\Z)(?:/(?:{SEGMENT}|{{[A-Za-z][A-Za-z0-9]*}})(?=/|\Z))+"
)
VALUE: Final = re.compile(SEGMENT)
_VARIABLE: Final = r"((?:[A-Za-z0-9._~!$&'()+,=:@-]|%[0-9A-Fa-f]{2})++)"


def is_plain_path(path: str) -> bool:
    """Whether every server takes the path, decoded once, for one below its beginning."""
    return PLAIN_PATH.fullmatch(path) is not None


def spelled(text: str) -> str:
    """A pattern of ASCII text of which any character may be escaped."""
    return "".join(f"(?:{re.escape(each)}|%(?i:{ord(each):02x}))" for each in text)


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
        if found is None or b"%2f" in found[0].lower():
            return "", ""
        # So both have the same segments.
        count = found[0].count(b"/")
        segments = path.split("/", count + 1)
        # The only group with a match; that of a pattern without a variable part is empty.
        group, value = found.lastindex or 0, ""
        if found[group]:
            value = segments[raw_path.count(b"/", 0, found.start(group))]
            if VALUE.fullmatch(value) is None:
                return "", ""
        return "/".join(segments[: count + 1]), value if is_plain_path(path) else ""


def _is_variable(part: str) -> bool:
    return part.startswith("{")


def _pattern_of(parts: list[str]) -> str:
    segments = ["/" + (_VARIABLE if _is_variable(part) else spelled(part)) for part in parts]
    group = "" if any(map(_is_variable, parts)) else "()"
    return f"{''.join(segments)}{group}(?=/|\\Z)"


class RequestRules:
    """Says what makes a request long-running, and where APIs begin; immutable.

    Args:
        verbs: Of Kubernetes, or methods in small letters.
        path_prefixes: Each begins with `/`, and is not `/`; one that ends with `/` is of the paths
            below it alone.
        api_prefixes: Patterns for `PathPrefixes`.

    Attributes:
        verbs, subresources, path_prefixes: Each to why it makes a request long-running, in words.
    """

    def __init__(
        self,
        verbs: Iterable[str] = (),
        subresources: Iterable[str] = (),
        path_prefixes: Iterable[str] = (),
        api_prefixes: Iterable[str] = (),
    ) -> None:
        self.verbs = {each: f"its verb is {each} ({SETTING}.verbs)" for each in verbs}
        self.subresources = {
            each: f"its subresource is {each} ({SETTING}.subresources)" for each in subresources
        }
        self.path_prefixes = {
            each: f"its path begins with {each} ({SETTING}.pathPrefixes)" for each in path_prefixes
        }
        patterns = tuple(api_prefixes)
        self.api_prefixes = PathPrefixes(patterns) if patterns else None
        self._below = tuple([f"{each.removesuffix('/')}/" for each in self.path_prefixes])
        self.has_resource_paths = any(below.startswith(_OF_RESOURCES) for below in self._below)

    def by_path(self, path: str) -> str:
        """Why a path makes a request long-running, in words; "" if it does not."""
        if path.startswith(self._below) and is_plain_path(path):
            reasons = zip(self._below, self.path_prefixes.values(), strict=True)
            return next(why for below, why in reasons if path.startswith(below))
        return self.path_prefixes.get(path, "")


APISERVER: Final = RequestRules(
    ("watch", "proxy"), ("attach", "exec", "log", "portforward", "proxy"), ("/debug/pprof/",)
)
"""kube-apiserver's own rules."""
KUBERNETES: Final = RequestRules(
    APISERVER.verbs, (*APISERVER.subresources, "instantiatebinary"), APISERVER.path_prefixes
)
"""`APISERVER` with OpenShift's builds, for which clients upload what is built."""
NONE: Final = RequestRules()
