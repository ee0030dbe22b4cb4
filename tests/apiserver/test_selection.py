"""Tests of `apfproxy.apiserver.selection`."""

from __future__ import annotations

import pytest

from apfproxy.api.selectors.fields import parse_field_selector
from apfproxy.api.selectors.labels import parse_label_selector
from apfproxy.apiserver.selection import Selection
from apfproxy.apiserver.store.entries import Entry

ENTRY = Entry("pods", "n", "p", 7, "u-1", {"app": "web"}, {"metadata.name": "p"}, b"{}")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(Selection(), True, id="all"),
        pytest.param(Selection(namespace="n"), True, id="namespace"),
        pytest.param(Selection(namespace="m"), False, id="other-namespace"),
        pytest.param(Selection(name="p"), True, id="name"),
        pytest.param(Selection(name="q"), False, id="other-name"),
        pytest.param(Selection(labels=parse_label_selector("app=web")), True, id="labels"),
        pytest.param(Selection(labels=parse_label_selector("app!=web")), False, id="other-labels"),
        pytest.param(Selection(fields=parse_field_selector("metadata.name=p")), True, id="fields"),
        pytest.param(
            Selection(fields=parse_field_selector("metadata.name!=p")), False, id="other-fields"
        ),
    ],
)
def test_matches(selection: Selection, expected: bool) -> None:
    """An object is selected if it is what every part asks for."""
    assert expected == selection.matches(ENTRY)


def test_is_whole() -> None:
    """Only a namespace leaves nothing out of it."""
    assert Selection(namespace="n").is_whole
    assert not Selection(name="p").is_whole
    assert not Selection(labels=parse_label_selector("a")).is_whole
