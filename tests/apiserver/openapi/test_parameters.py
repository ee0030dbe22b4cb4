"""Tests of the parameters of operations."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.openapi import parameters
from apfproxy.apiserver.openapi.parameters import QUERY

SETS = (
    parameters.WRITE,
    parameters.PATCH,
    parameters.READ,
    parameters.DELETE,
    parameters.DELETE_COLLECTION,
    parameters.LIST,
)


@pytest.mark.parametrize("names", SETS)
def test_sets_are_sorted_and_known(names: tuple[str, ...]) -> None:
    """Each sort of operation names parameters that are described, in order."""
    assert sorted(names) == list(names)
    assert set() == set(names) - QUERY.keys()


def test_all_parameters_are_used() -> None:
    """No parameter is described for nothing."""
    assert QUERY.keys() == {name for names in SETS for name in names}
