"""Retry-After against the reference vectors."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.flowcontrol.priority_level import RetryAfter
from tests.conformance import vectors

CASES = vectors.load("retry_after")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_retry_after(case: list[dict[str, Any]]) -> None:
    """After the drops of every second Retry-After is what Kubernetes says."""
    retry_after = RetryAfter()
    for second in case:
        for _ in range(second["drops"]):
            retry_after.record_drop(second["unix_s"])

        assert second["retry_after_s"] == retry_after.get()
