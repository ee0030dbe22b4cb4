"""Tests of `apfproxy.apiserver.patches`."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.patches import MERGE_PATCH, Patch


def test_patches_are_json() -> None:
    """What cannot be parsed is refused before any object is looked at."""
    with pytest.raises(StatusError) as error:
        Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, MERGE_PATCH, b"{", "Strict")

    assert 400 == error.value.code
