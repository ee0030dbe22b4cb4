"""Measures the commits of a store's backend, and reports failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.store.entries import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apfproxy.apiserver.counters import ApiServerCounters
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.apiserver.store.store import Backend, Loaded


class MeasuredBackend:
    """A backend whose commits are counted.

    `on_problem` is called in the store's thread when writing begins to fail, with the reason, and
    with None when it works again.
    """

    def __init__(
        self,
        backend: Backend,
        counters: ApiServerCounters,
        now_ns: Callable[[], int],
        on_problem: Callable[[str | None], None],
    ) -> None:
        self._backend = backend
        self._counters = counters
        self._now_ns = now_ns
        self._on_problem = on_problem
        self._problem: str | None = None

    def load(self) -> Loaded:
        """Everything that is kept."""
        return self._backend.load()

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        """Keep changes, all or none; StoreError if none."""
        started_ns = self._now_ns()
        try:
            self._backend.write(changes, floors)
        except StoreError as error:
            self._counters.commit_failures += 1
            self._tell(str(error))
            raise
        self._counters.commit_ns.observe(self._now_ns() - started_ns)
        self._counters.committed_changes += len(changes)
        self._tell(None)

    def close(self) -> None:
        """Release all resources."""
        self._backend.close()

    def _tell(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            self._on_problem(problem)
