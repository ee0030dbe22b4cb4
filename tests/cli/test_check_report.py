"""What a check prints."""

from __future__ import annotations

import pytest

from apfproxy.cli.check_report import (
    BUILT_IN,
    Entry,
    diff_line,
    entry_line,
    entry_of,
    finding_entry,
    problem_entries,
)
from apfproxy.lint.findings import DANGLING, NO_SUCH_SUBJECT, NOTHING_GIVEN, Finding
from apfproxy.objects.decode import Candidate, Problem
from apfproxy.objects.field_errors import FieldError, Reason
from apfproxy.sources.object_files import ObjectsRead

A = "FlowSchema", "a"
READ = ObjectsRead((), (), {A: "a.yaml"}, {A: Candidate({}, 7)})
GONE = Finding(DANGLING, "FlowSchema", "a", "spec.x", "gone")


@pytest.mark.parametrize(
    ("field", "verbs", "advice"),
    [
        ("nonResourceRules[1].verbs", ("get", "Post"), "apfproxy.io/match-methods: POST."),
        ("nonResourceRules[1].verbs", ("watch-it",), None),
        ("nonResourceRules[1].verbs", None, None),
        ("resourceRules[1].verbs", ("post",), None),
    ],
)
def test_methods_as_verbs(field: str, verbs: object, advice: str | None) -> None:
    """Who names an HTTP method as a verb is told how to choose by it."""
    error = FieldError(f"spec.rules[0].{field}", Reason.NOT_SUPPORTED, "", verbs)
    problem = Problem("a", (str(error),), 1, "FlowSchema", "b", (error,), (1,))
    (entry,) = problem_entries(problem)

    assert (advice is None) == ("advice" not in entry)
    assert advice is None or entry["advice"].endswith(advice)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        pytest.param(
            finding_entry(GONE, READ),
            "a.yaml:7: FlowSchema/a: spec.x: gone (\x1b[31merror\x1b[0m APF101)",
            id="given",
        ),
        pytest.param(
            finding_entry(Finding(DANGLING, "FlowSchema", "b", "", "gone"), READ),
            f"{BUILT_IN}: FlowSchema/b: gone (\x1b[31merror\x1b[0m APF101)",
            id="built-in",
        ),
        pytest.param(
            finding_entry(Finding(NO_SUCH_SUBJECT, *A, "", "\x1b]0;x\x07 is nobody"), READ),
            r"a.yaml:7: FlowSchema/a: \x1b]0;x\x07 is nobody (" + "\x1b[33mwarning\x1b[0m APF111)",
            id="escaped",
        ),
        pytest.param(
            problem_entries(Problem("a.yaml", ("not YAML",), 3))[0],
            "a.yaml:3: not YAML (\x1b[31merror\x1b[0m APF001)",
            id="problem",
        ),
        pytest.param(
            entry_of(NOTHING_GIVEN, "x/", "there is no object in it"),
            "x/: there is no object in it (\x1b[33mwarning\x1b[0m APF002)",
            id="nothing",
        ),
    ],
)
def test_entry_line(entry: Entry, line: str) -> None:
    """A line says where and what, with colour for the severity alone."""
    assert line == entry_line(entry)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("--- a", "\x1b[1m--- a\x1b[0m", id="heading"),
        pytest.param("-a", "\x1b[31m-a\x1b[0m", id="gone"),
        pytest.param("+a", "\x1b[32m+a\x1b[0m", id="new"),
        pytest.param("@@ -1 +1 @@", "\x1b[36m@@ -1 +1 @@\x1b[0m", id="place"),
        pytest.param(" a", " a", id="same"),
    ],
)
def test_diff_line(line: str, expected: str) -> None:
    """A diff has the usual colours."""
    assert expected == diff_line(line)
