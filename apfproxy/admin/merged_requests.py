"""What waits and executes in a priority level of several workers, as one list of each."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from apfproxy.admin.live_requests import MAX_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.admin.live_recent import State

KINDS = ("waiting", "executing")


def merged_requests(pages: Sequence[tuple[str, Mapping[str, Any]]]) -> State:
    """The oldest of all workers, each with the name of its worker, and how many there are."""
    found: State = {}
    for kind in KINDS:
        lists = [[{**each, "worker": name} for each in page[kind]] for name, page in pages]
        merged = heapq.merge(*lists, key=lambda each: -each["seconds"])
        found[kind] = list(merged)[:MAX_REQUESTS]
    for kind in KINDS:
        found[f"{kind}Count"] = sum(page[f"{kind}Count"] for _, page in pages)
    return found
