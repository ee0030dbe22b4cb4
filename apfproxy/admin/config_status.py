"""Counts of configuration loads: written by the loader, read at scrape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConfigStatus:
    """Counts of reloads and the state of the last one.

    Attributes:
        succeeded, failed: Loads since start; one that skips an object has failed, though the rest
            of it is in force.
        problems: Objects that the last load skipped, and files that it could not read.
        last_success_unix_s: When a load last succeeded, in seconds since 1970; 0 before.
    """

    succeeded: int = 0
    failed: int = 0
    problems: int = 0
    last_success_unix_s: float = 0.0

    def loaded(self, problems: int, unix_s: float) -> None:
        """Count one load, now, which succeeded if there are no problems."""
        self.problems = problems
        if problems:
            self.failed += 1
        else:
            self.succeeded += 1
            self.last_success_unix_s = unix_s
