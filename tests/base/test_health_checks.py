"""Health checks and the pages over them."""

from __future__ import annotations

import pytest

from apfproxy.base.health_checks import HEALTHZ, LIVEZ, PAGES, READYZ, HealthRegistry, HealthReport


@pytest.fixture
def health() -> HealthRegistry:
    """A registry as a process has it: the configuration does not block, shutdown is for readyz."""
    registry = HealthRegistry()
    registry.add("config", is_blocking=False)
    registry.add("shutdown", pages=(READYZ,))
    return registry


@pytest.mark.parametrize("page", PAGES)
def test_all_well(health: HealthRegistry, page: str) -> None:
    """Without anything wrong a page says ok and no more."""
    assert HealthReport(is_healthy=True, text="ok") == health.page(page, verbose=False)
    assert health.page(page, verbose=False).is_healthy


def test_verbose(health: HealthRegistry) -> None:
    """The verbose page lists its checks in the order in which they were added."""
    expected = "[+]ping ok\n[+]config ok\n[+]shutdown ok\nreadyz check passed\n"

    assert expected == health.page(READYZ, verbose=True).text


@pytest.mark.parametrize("verbose", [False, True])
def test_failure_lists_the_checks(health: HealthRegistry, *, verbose: bool) -> None:
    """A failing check fails its page, which then always says why, on one line a check."""
    health.report("shutdown", "process is\nshutting down")
    expected = (
        "[+]ping ok\n[+]config ok\n[-]shutdown failed: process is shutting down\n"
        "readyz check failed\n"
    )

    assert HealthReport(is_healthy=False, text=expected) == health.page(READYZ, verbose=verbose)
    assert not health.page(READYZ, verbose=False).is_healthy
    assert health.problem("shutdown") == "process is shutting down"


def test_check_that_looks_by_itself() -> None:
    """Each page shows what is wrong at that moment, on one line."""
    problems = ["no\nanswer", None]
    health = HealthRegistry()
    health.add("keys", pages=(READYZ,), is_blocking=False, look=lambda: problems[0])
    before = health.page(READYZ, verbose=True).text
    page = health.check_page(READYZ, "keys")
    problems.reverse()

    assert "[+]ping ok\n[-]keys failed: no answer\nreadyz check passed\n" == before
    assert HealthReport(is_healthy=True, text="internal server error: no answer\n") == page
    assert health.problem("keys") is None


@pytest.mark.parametrize("page", [LIVEZ, HEALTHZ])
def test_check_of_another_page_does_not_matter(health: HealthRegistry, page: str) -> None:
    """A process that shuts down is alive."""
    health.report("shutdown", "process is shutting down")

    assert health.page(page, verbose=False).is_healthy
    assert "shutdown" not in health.page(page, verbose=True).text


def test_check_that_does_not_block_is_only_listed(health: HealthRegistry) -> None:
    """A broken change of the configuration is shown, but traffic keeps coming."""
    health.report("config", "a.yaml: no such field")
    expected = (
        "[+]ping ok\n[-]config failed: a.yaml: no such field\n[+]shutdown ok\nreadyz check passed\n"
    )

    assert HealthReport(is_healthy=True, text="ok") == health.page(READYZ, verbose=False)
    assert HealthReport(is_healthy=True, text=expected) == health.page(READYZ, verbose=True)


def test_recovery(health: HealthRegistry) -> None:
    """A check that is reported well again is well."""
    health.report("shutdown", "not yet started")
    health.report("shutdown", None)

    assert health.page(READYZ, verbose=False).is_healthy


def test_excluded(health: HealthRegistry) -> None:
    """An excluded check does not matter; a name that matches none is pointed out."""
    health.report("shutdown", "process is shutting down")
    report = health.page(READYZ, verbose=True, excluded=("shutdown", "nothing"))
    expected = (
        "[+]ping ok\n[+]config ok\n[+]shutdown excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "nothing"\n'
        "readyz check passed\n"
    )

    assert HealthReport(is_healthy=True, text=expected) == report


def test_page_of_one_check(health: HealthRegistry) -> None:
    """Each check has an answer of its own on the pages that list it."""
    health.report("shutdown", "process is shutting down")

    assert HealthReport(is_healthy=True, text="ok") == health.check_page(READYZ, "ping")
    assert HealthReport(
        is_healthy=False, text="internal server error: process is shutting down\n"
    ) == health.check_page(READYZ, "shutdown")
    assert health.check_page(LIVEZ, "shutdown") is None
    assert health.check_page(LIVEZ, "nothing") is None


def test_check_page_that_does_not_block(health: HealthRegistry) -> None:
    """The page of a check alone says what is wrong even where that does not block."""
    health.report("config", "a.yaml: no such field")

    assert HealthReport(
        is_healthy=True, text="internal server error: a.yaml: no such field\n"
    ) == health.check_page(READYZ, "config")
