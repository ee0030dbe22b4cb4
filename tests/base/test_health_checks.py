"""Health checks and the pages over them."""

from __future__ import annotations

import pytest

from apfproxy.base.health_checks import HEALTHZ, LIVEZ, READYZ, HealthRegistry, HealthReport

SHUTDOWN, BROKEN = "process is\nshutting down", "a.yaml: no such field"
ALL_WELL = "[+]ping ok\n[+]config ok\n[+]shutdown ok\nreadyz check passed\n"
FAILED = (
    "[+]ping ok\n[+]config ok\n[-]shutdown failed: process is shutting down\nreadyz check failed\n"
)
LISTED = f"[+]ping ok\n[!]config: {BROKEN}\n[+]shutdown ok\nreadyz check passed\n"
EXCLUDED = (
    "[+]ping ok\n[+]config ok\n[+]shutdown excluded: ok\n"
    'warn: some health checks cannot be excluded: no matches for "nothing"\n'
    "readyz check passed\n"
)


def checks(**problems: str) -> HealthRegistry:
    registry = HealthRegistry()
    registry.add("config", is_blocking=False)
    registry.add("shutdown", pages=(READYZ,))
    for name, problem in problems.items():
        registry.report(name, problem)
    return registry


OTHER_PAGE = "[+]ping ok\n[+]config ok\nlivez check passed\n"


@pytest.mark.parametrize(
    ("problems", "page", "excluded", "is_healthy", "text", "verbose"),
    [
        ({}, READYZ, (), True, "ok", ALL_WELL),
        ({"shutdown": SHUTDOWN}, READYZ, (), False, FAILED, FAILED),
        ({"shutdown": SHUTDOWN}, LIVEZ, (), True, "ok", OTHER_PAGE),
        ({"config": BROKEN}, READYZ, (), True, "ok", LISTED),
        ({"shutdown": SHUTDOWN}, READYZ, ("shutdown", "nothing"), True, "ok", EXCLUDED),
    ],
    ids=["well", "blocks", "of-another-page", "is-only-listed", "excluded"],
)
def test_failure_that_blocks_fails_its_pages(
    problems: dict[str, str],
    page: str,
    excluded: tuple[str, ...],
    is_healthy: bool,
    text: str,
    verbose: str,
) -> None:
    health = checks(**problems)

    assert HealthReport(is_healthy, text) == health.page(page, verbose=False, excluded=excluded)
    assert HealthReport(is_healthy, verbose) == health.page(page, verbose=True, excluded=excluded)


@pytest.mark.parametrize(
    ("page", "name", "expected"),
    [
        (READYZ, "ping", HealthReport(is_healthy=True, text="ok")),
        (
            READYZ,
            "shutdown",
            HealthReport(
                is_healthy=False, text="internal server error: process is shutting down\n"
            ),
        ),
        (READYZ, "config", HealthReport(True, f"internal server error: {BROKEN}\n")),
        (LIVEZ, "shutdown", None),
        (HEALTHZ, "nothing", None),
    ],
)
def test_page_of_one_check(page: str, name: str, expected: HealthReport | None) -> None:
    assert expected == checks(shutdown=SHUTDOWN, config=BROKEN).check_page(page, name)


def test_check_that_looks_by_itself_shows_the_problem_of_the_moment() -> None:
    problems = ["no\nanswer", None]
    health = HealthRegistry()
    health.add("keys", pages=(READYZ,), is_blocking=False, look=lambda: problems[0])
    before = health.page(READYZ, verbose=True).text
    problems.reverse()

    assert "[+]ping ok\n[!]keys: no answer\nreadyz check passed\n" == before
    assert health.problem("keys") is None
