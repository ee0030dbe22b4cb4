"""Tests of leases; `tests/conformance` has what Kubernetes answers."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.coordination import LEASE, check_lease


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"leaseDurationSeconds": 1, "leaseTransitions": 0}, []),
        ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds"]),
        ({"leaseTransitions": -1}, ["spec.leaseTransitions"]),
    ],
)
def test_numbers(spec: dict[str, int], fields: list[str]) -> None:
    """A lease has a duration, and cannot have changed hands less than never."""
    assert fields == [error.field for error in check_lease({"spec": spec})]


def test_cells() -> None:
    """The row of a lease has its holder, if there is one."""
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}

    assert ("l", "me", "<unknown>") == LEASE.cells(lease, 0)
    assert "" == LEASE.cells({**lease, "spec": {}}, 0)[1]
