"""The kinds of findings themselves."""

from __future__ import annotations

import re

import pytest

from apfproxy.lint import findings
from apfproxy.lint.findings import DANGLING, FINDING_KINDS, Finding, FindingKind, Severity


def test_all_kinds_are_listed() -> None:
    """A kind that is defined can be looked up, in the order of the ids."""
    defined = [each for each in vars(findings).values() if isinstance(each, FindingKind)]

    assert list(FINDING_KINDS.values()) == sorted(defined, key=lambda each: each.id)


@pytest.mark.parametrize("kind", FINDING_KINDS.values(), ids=lambda kind: kind.id)
def test_words(kind: FindingKind) -> None:
    """Each has an id of one form, and sentences to read."""
    assert re.fullmatch(r"APF[0-5][0-9]{2}", kind.id)
    assert not kind.title.endswith(".")
    assert kind.meaning.endswith(".")
    assert kind.advice.endswith(".")


def test_ranks() -> None:
    """The worst comes first."""
    assert sorted(Severity, key=lambda each: each.rank) == ["error", "warning", "info"]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        pytest.param("spec.x", "APF101 FlowSchema/a: spec.x: gone", id="field"),
        pytest.param("", "APF101 FlowSchema/a: gone", id="object"),
    ],
)
def test_str(field: str, text: str) -> None:
    """A finding can be read in a log."""
    assert text == str(Finding(DANGLING, "FlowSchema", "a", field, "gone"))
