"""The health pages of several workers as one."""

from __future__ import annotations

from apfproxy.admin.merged_health import (
    CheckLine,
    excluded_for,
    lines_of,
    merged_check,
    merged_report,
)
from apfproxy.admin.worker_answers import Answer, Asked, WorkerAdmin
from apfproxy.base.health_checks import HealthRegistry

FIRST, SECOND = (WorkerAdmin(index, "path", "serving", index) for index in (1, 2))
WELL = Answer(200, "text/plain", b"[+]ping ok\n[+]sweep ok\nlivez check passed\n")
ILL = Answer(500, "text/plain", b"[+]ping ok\n[-]sweep failed: late\nlivez check failed\n")


def test_lines_of() -> None:
    """Checks are read with what is wrong with them; other lines are none."""
    text = "[+]a ok\n[+]b excluded: ok\n[-]c failed: no: way\nwarn: x\nreadyz check failed\n"

    assert lines_of(text) == [
        CheckLine("a", None, is_excluded=False),
        CheckLine("b", None, is_excluded=True),
        CheckLine("c", "no: way", is_excluded=False),
    ]


def test_excluded_for() -> None:
    """A worker gets its own exclusions and those of all."""
    assert excluded_for(1, ["a", "worker/1/b", "worker/2/c", "worker/2"]) == ["a", "b"]


def test_merged_report() -> None:
    """One worker that is well is enough; what fails is listed by worker."""
    own = HealthRegistry()
    asked = [Asked(FIRST, WELL), Asked(SECOND, ILL)]

    assert merged_report("livez", own, asked, verbose=False).text == "ok"
    assert merged_report("livez", own, asked, verbose=True).text.splitlines() == [
        "[+]ping ok",
        "[+]worker/1 ok",
        "[-]worker/2 failed: livez check failed",
        "[-]worker/2/sweep failed: late",
        "livez check passed",
    ]
    assert not merged_report("livez", own, asked[1:], verbose=False).is_healthy


def test_without_workers() -> None:
    """Nothing is well where nothing serves."""
    own = HealthRegistry()

    assert not merged_report("readyz", own, [], verbose=False).is_healthy
    silent = [Asked(FIRST, problem="no\nanswer")]
    report = merged_report("readyz", own, silent, verbose=False)
    assert not report.is_healthy
    assert "[-]worker/1 failed: no answer\n" in report.text


def test_merged_check() -> None:
    """A check is of the workers that have it."""
    missing = Answer(404, "text/plain", b"404")

    assert merged_check([Asked(FIRST, missing), Asked(SECOND, problem="away")]) is None
    nobody = merged_check([Asked(SECOND, problem="away")])
    assert nobody is not None
    assert (nobody.is_healthy, nobody.text) == (False, "worker/2: away\n")
    ok = Answer(200, "text/plain", b"ok")
    found = merged_check([Asked(FIRST, missing), Asked(SECOND, ok)])
    assert found is not None
    assert (found.is_healthy, found.text) == (True, "ok")
