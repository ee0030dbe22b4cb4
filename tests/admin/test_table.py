"""Text tables in the layout of kube-apiserver's debug pages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.admin.table import cell_text, table_json, table_text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """A column has room for its widest cell, a comma and a space, and for eight characters."""
    expected = (
        "Name,            A,      Last\n"
        "service-account, 1,      true\n"
        "x,               -1,     a longer one\n"
    )

    assert expected == table_text(
        ("Name", "A", "Last"), [("service-account", 1, True), ("x", -1, "a longer one")]
    )


def test_table_without_rows() -> None:
    """Only the header is left, with columns as wide as its own cells."""
    expected = "PriorityLevelName, Index,  Sum\n"

    assert expected == table_text(("PriorityLevelName", "Index", "Sum"), [])


def test_width_counts_characters() -> None:
    """A cell outside ASCII takes as many columns as it has characters."""
    expected = "User,        Verb\nж-кузнецова, get\né,           get\n"

    assert expected == table_text(("User", "Verb"), [("ж-кузнецова", "get"), ("é", "get")])


def test_empty_last_cell_leaves_its_padding_before_it() -> None:
    """An empty cell at the end shows only as the padding of the one before."""
    expected = "A,      B\n1,      \n"

    assert expected == table_text(("A", "B"), [(1, "")])


@given(cells=st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_no_cell_adds_a_line(cells: list[tuple[str, str]]) -> None:
    """Whatever a user is called, the table has a line for each row and no more."""
    assert len(cells) + 1 == len(table_text(("A", "B"), cells).splitlines())


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param("a\nb", "a\\u000ab", id="line"),
        pytest.param("\x1b[2J\x9b2J", "\\u001b[2J\\u009b2J", id="cursor"),
        pytest.param("\u2028", "\\u2028", id="separator"),
        pytest.param("a\u202eb", "a\\u202eb", id="direction"),
        pytest.param("a\u200bb", "a\\u200bb", id="no-width"),
        pytest.param("a\U000e0001", "a\\U000e0001", id="beyond-16-bits"),
        pytest.param("a\udcff", "a\\udcff", id="no-unicode"),
        pytest.param("\u05d0 ж é", "\u05d0 ж é", id="letters"),
    ],
)
def test_cell_text_escapes_what_cannot_be_printed(cell: str, expected: str) -> None:
    """What could move the cursor, begin a line or turn one around is shown as an escape."""
    assert expected == cell_text(cell)


def test_table_json_keeps_types() -> None:
    """Numbers and truth values stay what they are, under the names of the columns."""
    expected = [{"Name": "a", "Index": 0, "IsIdle": True}]

    assert expected == json.loads(table_json(("Name", "Index", "IsIdle"), [("a", 0, True)]))
