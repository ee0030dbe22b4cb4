"""Every state that a small fleet can get into within some steps is checked."""

from __future__ import annotations

import pytest

from tests.fleet.states import Rules, Search


@pytest.mark.parametrize(
    "rules",
    [
        Rules(2, 2),
        Rules(2, 2, is_prompt=True, is_whole=True),
        Rules(2, 3, is_prompt=True),
        Rules(2, 4, 2, is_prompt=True),
        Rules(3, 2),
        Rules(3, 4, is_prompt=True),
    ],
    ids=repr,
)
def test_all_states(rules: Rules) -> None:
    """The first thousands; more by hand."""
    count, depth, is_all = Search(rules).states(2500)

    assert count >= 2500
    assert depth >= 4
    assert not is_all
