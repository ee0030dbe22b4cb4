"""Tests of what a check prints."""

from __future__ import annotations

import pytest

from apfproxy.cli.check import problem_entries
from apfproxy.objects.decode import Candidate, Problem
from apfproxy.objects.field_errors import FieldError, Reason
from apfproxy.sources.object_files import ObjectsRead

A = "FlowSchema", "a"
READ = ObjectsRead((), (), {A: "a.yaml"}, {A: Candidate({}, 7)})


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
    error = FieldError(f"spec.rules[0].{field}", Reason.NOT_SUPPORTED, "", verbs)
    problem = Problem("a", (str(error),), 1, "FlowSchema", "b", (error,), (1,))
    (entry,) = problem_entries(problem)

    assert (advice is None) == ("advice" not in entry)
    assert advice is None or entry["advice"].endswith(advice)
