"""Metrics of errors of the program itself."""

from __future__ import annotations

from apfproxy.faults import Faults, Part
from apfproxy.observe.fault_metrics import fault_families


def test_every_part_has_a_series() -> None:
    """Also those without an error, so that the first one is an increase."""
    faults = Faults()
    faults.totals[Part.SWEEP] = 3
    (family,) = fault_families(faults)

    assert "apfproxy_internal_errors" == family.name
    assert {part: 3.0 if part is Part.SWEEP else 0.0 for part in Part} == {
        sample.labels["part"]: sample.value for sample in family.samples
    }
