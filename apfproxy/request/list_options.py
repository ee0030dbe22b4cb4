"""The query of a LIST or WATCH, decoded as Kubernetes decodes `ListOptions`.

Source: kubernetes/apimachinery pkg/apis/meta/v1 and internalversion (conversion of url.Values),
kubernetes/apiserver pkg/storage/cacher/delegator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.objects.go_text import parse_int64
from apfproxy.objects.selectors import NAME, is_field_selector, is_label_selector, required_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    Query = Mapping[str, tuple[str, ...]]


class ListOptions:
    """What the cost of a LIST or of a WATCH's initial events depends on.

    Attributes:
        is_decodable: Whether the numbers can be decoded; all else means nothing if not.
        limit: Objects asked for at most; 0 or less for no limit.
        is_from_cache: kube-apiserver answers it from its watch cache.
        sends_initial_events: As a WATCH it begins with all objects that there are.
    """

    def __init__(
        self,
        *,
        is_decodable: bool = True,
        limit: int = 0,
        is_continuation: bool = False,
        is_from_cache: bool = False,
        has_selector: bool = False,
        sends_initial_events: bool = True,
    ) -> None:
        self.is_decodable = is_decodable
        self.limit = limit
        self.is_continuation = is_continuation
        self.is_from_cache = is_from_cache
        self.has_selector = has_selector
        self.sends_initial_events = sends_initial_events

    def __repr__(self) -> str:
        return (
            f"<ListOptions decodable={self.is_decodable} limit={self.limit}"
            f" continuation={self.is_continuation} cache={self.is_from_cache}"
            f" selector={self.has_selector} initial_events={self.sends_initial_events}>"
        )


NO_OPTIONS: Final = ListOptions()
NOT_DECODABLE: Final = ListOptions(is_decodable=False)


def list_options(query: Query) -> ListOptions:
    """Decode the options that estimates use."""
    if not query:
        return NO_OPTIONS
    try:
        limit = _int64(query, "limit")
        _int64(query, "timeoutSeconds")
    except ValueError:
        return NOT_DECODABLE
    version = first(query, "resourceVersion")
    sends_initial_events = query.get("sendInitialEvents")
    return ListOptions(
        limit=limit,
        is_continuation=bool(first(query, "continue")),
        is_from_cache=_is_from_cache(query, version, limit),
        has_selector=bool(first(query, "fieldSelector") or first(query, "labelSelector")),
        sends_initial_events=version in {"", "0"}
        or (sends_initial_events is not None and parse_bool(sends_initial_events[0])),
    )


def _is_from_cache(query: Query, version: str, limit: int) -> bool:
    """Whether a LIST is served by the watch cache.

    The most recent state (no version) counts as read from storage: the estimator supposes an etcd
    that cannot say how far its watches are.
    """
    match = first(query, "resourceVersionMatch")
    if match == "":
        is_exact = bool(first(query, "continue")) or (limit > 0 and version != "0")
        return not is_exact and version != ""
    return match == "NotOlderThan"


def watch_and_name(query: Query) -> tuple[bool, str]:
    """Whether a GET of a collection is a WATCH, and the one name it asks for, or ""."""
    watch, selector = query.get("watch"), first(query, "fieldSelector")
    is_watch = is_alone = False
    if watch is not None:
        is_watch = parse_bool(watch[0])
        is_alone = watch[0].lower() not in {"false", "0"}
    has_name = NAME in selector
    if is_watch == is_alone and not has_name:
        return is_watch, ""
    if not _is_decodable(query):
        return is_alone, ""  # `watch` is read by itself then, a little differently
    name = (required_value(selector, NAME) or "") if has_name else ""
    if name in {".", ".."} or "/" in name or "%" in name:
        name = ""  # not a path segment
    return is_watch, name


def required_field(query: Query, field: str) -> str:
    """The value that the field selector requires of a field; "" if none.

    A selector has no effect when any of the options cannot be decoded.
    """
    selector = first(query, "fieldSelector")
    if field not in selector or not _is_decodable(query):
        return ""
    return required_value(selector, field) or ""


def _is_decodable(query: Query) -> bool:
    try:
        _int64(query, "limit")
        _int64(query, "timeoutSeconds")
    except ValueError:
        return False
    return is_field_selector(first(query, "fieldSelector")) and is_label_selector(
        first(query, "labelSelector")
    )


def parse_bool(text: str) -> bool:
    """Decode a boolean: all but `0` and `false` are true, "" too.

    Letters that differ in case only are equal here, and Unicode has a second small s.
    """
    return text != "0" and text.replace("\N{LATIN SMALL LETTER LONG S}", "s").lower() != "false"


def first(query: Query, key: str) -> str:
    """The first value of a parameter, or ""."""
    values = query.get(key)
    return values[0] if values else ""


def _int64(query: Query, key: str) -> int:
    values = query.get(key)
    return parse_int64(values[0]) if values else 0
