"""What workers have counted, also those that are gone: totals of all that never go down.

Where a worker ends, the sum of the counters would fall by its part, and a reader takes that for a
restart of all: the rates of the next minutes would be those of months.  So the counts of a worker
that is gone stay in the sum: what it handed over at its end, else as they were when it was asked
last, and what it counted after that is lost.  A worker that does not answer just now has its last
counts in the sum, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.merged_metrics import Page, counts_of, merged_slices, page_of

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_GONE_BYTES: Final = 16 << 20
"""Of what is kept of workers that are gone: a hundred times what a page has.  Labels that come and
go, such as the addresses of servers, could make it any size; above this it begins anew."""


class WorkerTotals:
    """The last counts of workers."""

    def __init__(self) -> None:
        self._last: dict[Any, Page] = {}
        self._gone: Page = {}
        self._buried: set[Any] = set()  # since the last page; they may have been asked for it

    def __repr__(self) -> str:
        return f"<WorkerTotals of {len(self._last)} workers>"

    def take(self, pages: Mapping[Any, Page | None]) -> list[Page]:
        """What to merge, by what the workers that there are answered; None for no answer.

        Keys tell processes apart, so that the next one in a worker's place has another key.
        """
        pages = {key: page for key, page in pages.items() if key not in self._buried}
        self._buried.clear()
        for key in [key for key in self._last if key not in pages]:
            self._add(self._last.pop(key))
        found = [page for page in pages.values() if page is not None]
        found += [
            self._last[key] for key, page in pages.items() if page is None and key in self._last
        ]
        self._last |= {key: counts_of(page) for key, page in pages.items() if page is not None}
        return [*found, self._gone] if self._gone else found

    def bury(self, key: Any, page: Page) -> None:  # noqa: ANN401 - as above
        """Take the last counts of a worker that has ended."""
        self._last.pop(key, None)
        self._buried.add(key)
        self._add(counts_of(page))

    def _add(self, counts: Page) -> None:
        """Add the counts of a worker that is gone."""
        if not self._gone:
            self._gone = counts
            return
        text = b"".join(merged_slices([self._gone, counts]))
        self._gone = page_of(text) if len(text) <= MAX_GONE_BYTES else counts
