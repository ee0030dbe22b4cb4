"""Costs of requests, learned from the responses that pass through.

kube-apiserver knows how many objects it stores and how large they are.  A proxy sees answers, so
for each resource, and for LISTs of one namespace and of all apart, it keeps moving averages of

- the bytes of whole LISTs: no limit, no selector;
- the bytes per object of pages, from a LIST's bytes and its limit (a page that is not full makes
  objects seem small, so the fullest lately counts);
- the bytes of LISTs with a selector, which say how much there is at least.

They are turned into a number of objects and a size of one, and the estimate goes on as in
Kubernetes: 100 kB a seat.  A LIST of one name teaches nothing, nor does the rest of a LIST that a
`continue` token asks for: its last page may hold any number of objects.

Counts read from the server's own metrics go before learned ones while they are fresh.  Outdated
ones are left out, not taken for a sign of trouble as by Kubernetes: a metrics page that cannot be
reached says nothing about the server's load.

WATCHes are counted by resource, namespace and name.

Source: kubernetes/apiserver pkg/util/flowcontrol/watch_tracker.go for WATCHes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from apfproxy.request.attributes import RequestAttributes, required_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LONGEST_KEY = 512
"""Characters of a resource and its group; Kubernetes' have 317 at most."""
MAX_KEYS = 4096
"""Resources and scopes remembered: a large cluster has a few hundred resources."""
WEIGHT = 0.2
"""The newest LIST's in the average: five LISTs are half forgotten after three more."""
ASSUMED_OBJECT_BYTES = 1000
"""Until a size is learned: 100 objects a seat, as Kubernetes estimated before it knew sizes."""
MIN_OBJECT_BYTES = 100
"""No object is smaller; else a page that is nearly empty would say so."""
MAX_PAGE_OBJECTS = 10_000
"""A larger limit is as good as none: clients ask for pages of 500 or so."""
OBJECT_COUNTS_FRESH_NS = 180_000_000_000
"""Age of object counts after which they are left out: 3 min, Kubernetes' own threshold."""

READ_ONLY_VERBS = frozenset({"get", "list", "watch", "proxy"})

INDEXED_FIELDS = {"pods": "spec.nodeName"}
"""Fields by which kube-apiserver finds WATCHes: one that requires a value hears of few writes."""


class ObjectStats(msgspec.Struct, frozen=True, gc=False):
    """How many objects a resource has, and the bytes of one in memory; 0 if unknown."""

    count: int
    average_bytes: int


@dataclass(slots=True)
class LearnedList:
    """Holds what LISTs of one resource and scope have taught, in bytes of bodies; 0 is unknown.

    `object_bytes` are those of the fullest page lately, `page_objects` what the last one was asked
    to hold.
    """

    whole_bytes: float = 0.0
    selected_bytes: float = 0.0
    object_bytes: float = 0.0
    page_objects: int = 0


class LearnedCosts:
    """Learns what LISTs cost and counts WATCHes.

    Memory is bounded: by `max_keys` resources and scopes for LISTs, of which the least recently
    used are forgotten, and by the open WATCHes.
    """

    def __init__(self, now_ns: Callable[[], int], max_keys: int = MAX_KEYS) -> None:
        self._now_ns = now_ns
        self._max_keys = max_keys
        self._lists: dict[tuple[str, bool], LearnedList] = {}  # least recently used first
        self._watches: dict[tuple[str, str, str], int] = {}
        self._object_counts: dict[str, int] = {}
        self._counted_ns = 0

    def list_finished(self, attributes: RequestAttributes, body_bytes: int) -> None:
        """Learn from the response to a LIST, whole and successful; nothing else teaches."""
        options = attributes.list_options
        if (
            attributes.verb != "list"
            or options is None
            or not options.is_decodable
            or options.is_continuation
            or attributes.name
            or len(attributes.stored_as) > LONGEST_KEY
        ):
            return
        learned = self._learned(attributes)
        if learned is None:
            learned = LearnedList()
            self._lists[attributes.stored_as, attributes.namespace != ""] = learned
            if len(self._lists) > self._max_keys:
                del self._lists[next(iter(self._lists))]
        if 0 < options.limit <= MAX_PAGE_OBJECTS:
            object_bytes = max(body_bytes / options.limit, MIN_OBJECT_BYTES)
            learned.object_bytes = max(_moved(learned.object_bytes, object_bytes), object_bytes)
            learned.page_objects = options.limit
        elif options.has_selector:
            learned.selected_bytes = _moved(learned.selected_bytes, body_bytes)
        else:
            learned.whole_bytes = _moved(learned.whole_bytes, body_bytes)

    def object_stats(self, attributes: RequestAttributes) -> ObjectStats | None:
        """Estimate the objects that a LIST or WATCH goes through; None if nothing is known."""
        resource = attributes.stored_as
        learned = self._learned(attributes)
        counted = self._object_counts.get(resource)
        if counted is not None and self._now_ns() - self._counted_ns > OBJECT_COUNTS_FRESH_NS:
            counted = None
        if counted is None:
            if learned is None:
                return None
            return _stats(learned, learned.object_bytes or ASSUMED_OBJECT_BYTES)
        everywhere = self._lists.get((resource, False))
        if everywhere is not None and everywhere.whole_bytes and counted:
            object_bytes = everywhere.whole_bytes / counted
        else:
            object_bytes = (learned and learned.object_bytes) or ASSUMED_OBJECT_BYTES
        if attributes.namespace and learned is not None and learned.whole_bytes:
            return _stats(learned, object_bytes)  # counts are of all namespaces
        return ObjectStats(counted, math.ceil(object_bytes))

    def _learned(self, attributes: RequestAttributes) -> LearnedList | None:
        """Find what LISTs like this one have taught, and mark it as used."""
        key = (attributes.stored_as, attributes.namespace != "")
        learned = self._lists.pop(key, None)
        if learned is not None:
            self._lists[key] = learned
        return learned

    def set_object_counts(self, counts: Mapping[str, int], now_ns: int) -> None:
        """Replace the object counts, by resource such as `deployments.apps`; below 0 is unknown."""
        known = ((resource, count) for resource, count in counts.items() if count >= 0)
        self._object_counts = dict(islice(known, self._max_keys))
        self._counted_ns = now_ns

    def watch_started(self, attributes: RequestAttributes) -> None:
        key = _watch_key(attributes)
        if key is not None:
            self._watches[key] = self._watches.get(key, 0) + 1

    def watch_ended(self, attributes: RequestAttributes) -> None:
        key = _watch_key(attributes)
        if key is not None:
            self._watches[key] -= 1
            if not self._watches[key]:
                del self._watches[key]

    def watch_count(self, attributes: RequestAttributes) -> int:
        """How many open WATCHes a write is of interest to; 0 for a read."""
        watches = self._watches
        if not watches or attributes.verb in READ_ONLY_VERBS:
            return 0
        resource, namespace = attributes.stored_as, attributes.namespace
        count = watches.get((resource, "", ""), 0)
        if namespace:
            count += watches.get((resource, namespace, ""), 0)
        if attributes.name:
            count += watches.get((resource, namespace, attributes.name), 0)
        return count


def _stats(learned: LearnedList, object_bytes: float) -> ObjectStats:
    size = math.ceil(object_bytes)
    if learned.whole_bytes:
        return ObjectStats(math.ceil(learned.whole_bytes / size), size)
    return ObjectStats(max(math.ceil(learned.selected_bytes / size), learned.page_objects), size)


def _moved(average: float, value: float) -> float:
    return average + WEIGHT * (value - average) if average else value


def _watch_key(attributes: RequestAttributes) -> tuple[str, str, str] | None:
    """The key of the writes that a WATCH is counted for; None for none."""
    if attributes.verb != "watch":
        return None
    field = INDEXED_FIELDS.get(attributes.resource)
    if field is not None and required_field(attributes.query, field):
        return None
    return attributes.stored_as, attributes.namespace, attributes.name
