"""Named health checks, and the pages `/livez`, `/readyz` and `/healthz` over them.

Other parts report into a `HealthRegistry` when something changes; a page only reads what was
reported or is at hand, so a request for it is cheap.  The wording is kube-apiserver's, except for
the reason of a failure, which it withholds (the admin listener is the operator's own), and for
`[!]` before a problem that does not fail the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

LIVEZ = "livez"
READYZ = "readyz"
HEALTHZ = "healthz"
PAGES = (LIVEZ, READYZ, HEALTHZ)


@dataclass(slots=True)
class HealthCheck:
    """A health check, named as on pages and in the path of its own page.

    Attributes:
        pages: Which of `PAGES` list it.
        is_blocking: Whether its failure fails the page; otherwise it is only listed there.
        look: Says what is wrong by itself, at no cost; None where it is `reported`.
    """

    name: str
    pages: tuple[str, ...]
    is_blocking: bool
    reported: str | None
    look: Callable[[], str | None] | None = None

    @property
    def problem(self) -> str | None:
        return one_line(self.reported if self.look is None else self.look())


@dataclass(frozen=True, slots=True)
class HealthReport:
    is_healthy: bool
    text: str


class HealthChecks:
    """Checks, in the order in which they were added; other parts may have theirs in `checks`, too.

    A prefix is of the names of one of several clusters, whose checks are on `/readyz` and never
    fail it: requests to the others are to come.
    """

    def __init__(self, checks: dict[str, HealthCheck], prefix: str = "") -> None:
        self._checks = checks
        self._prefix = prefix
        self._is_closed = False

    def add(
        self,
        name: str,
        *,
        pages: tuple[str, ...] = PAGES,
        is_blocking: bool = True,
        problem: str | None = None,
        look: Callable[[], str | None] | None = None,
    ) -> None:
        """Add a check, whose name no other has; see `HealthCheck`.

        One that is not blocking is what an operator must see but no traffic should leave for, such
        as a broken change of the configuration while the last good one serves.
        """
        if self._is_closed:
            return
        if self._prefix:
            name, pages, is_blocking = self._prefix + name, (READYZ,), False
        assert name not in self._checks, f"two health checks are named {name}"
        self._checks[name] = HealthCheck(name, pages, is_blocking, problem, look)

    def discard(self, name: str) -> None:
        if not self._is_closed:
            self._checks.pop(self._prefix + name, None)

    def report(self, name: str, problem: str | None) -> None:
        if not self._is_closed:
            self._checks[self._prefix + name].reported = problem

    def problem(self, name: str) -> str | None:
        return self._checks[self._prefix + name].problem


class ClusterHealth(HealthChecks):
    """The checks of one of several clusters, under its name.

    They are there from `publish` on: a cluster that is to take another's place has the same names.
    """

    def __init__(self, published: dict[str, HealthCheck], cluster: str) -> None:
        super().__init__({}, f"cluster/{cluster}/")
        self._published = published

    def publish(self) -> None:
        if not self._is_closed and self._checks is not self._published:
            self._published |= self._checks
            self._checks = self._published

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._checks is self._published:
            for name in [each for each in self._checks if each.startswith(self._prefix)]:
                del self._checks[name]


class HealthRegistry(HealthChecks):
    """The checks of a process, by default `ping`, which never fails."""

    def __init__(self, checks: Iterable[HealthCheck] = ()) -> None:
        super().__init__({check.name: check for check in checks})
        if not self._checks:
            self.add("ping")

    def of_cluster(self, name: str) -> ClusterHealth:
        return ClusterHealth(self._checks, name)

    def page(self, page: str, *, verbose: bool, excluded: Collection[str] = ()) -> HealthReport:
        """Respond for a page; a failure, or `verbose`, lists the checks but for those excluded."""
        is_healthy = True
        lines = []
        unmatched = list(dict.fromkeys(excluded))
        for check in [each for each in self._checks.values() if page in each.pages]:
            if check.name in unmatched:
                unmatched.remove(check.name)
                lines.append(f"[+]{check.name} excluded: ok")
            elif (problem := check.problem) is None:
                lines.append(f"[+]{check.name} ok")
            elif check.is_blocking:
                lines.append(f"[-]{check.name} failed: {problem}")
                is_healthy = False
            else:
                lines.append(f"[!]{check.name}: {problem}")
        if unmatched:
            names = ", ".join(f'"{one_line(name)}"' for name in sorted(unmatched))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if is_healthy and not verbose:
            return HealthReport(is_healthy=True, text="ok")
        lines.append(f"{page} check {'passed' if is_healthy else 'failed'}")
        return HealthReport(is_healthy=is_healthy, text="\n".join(lines) + "\n")

    def check_page(self, page: str, name: str) -> HealthReport | None:
        """Respond for one check of a page; None if the page has no check of that name."""
        check = self._checks.get(name)
        if check is None or page not in check.pages:
            return None
        if (problem := check.problem) is None:
            return HealthReport(is_healthy=True, text="ok")
        text = f"internal server error: {problem}\n"
        return HealthReport(is_healthy=not check.is_blocking, text=text)

    def __iter__(self) -> Iterator[HealthCheck]:
        return iter(self._checks.values())


def one_line(text: str | None) -> str | None:
    """The text with each run of white space as one space, so that it cannot fake a line."""
    return None if text is None else " ".join(text.split())
