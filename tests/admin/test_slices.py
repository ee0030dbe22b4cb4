"""Pages that are made slice by slice; `test_responses` sees how often the loop goes round."""

from __future__ import annotations

import gzip

import pytest

from apfproxy.admin.slices import encoded


@pytest.mark.parametrize("is_gzip", [False, True], ids=["plain", "gzip"])
async def test_encoded(is_gzip: bool) -> None:
    """All slices come, and none is empty."""
    found = [each async for each in encoded([b"one", b"", b"two"], is_gzip=is_gzip)]
    body = b"".join(found)

    assert all(found)
    assert b"onetwo" == (gzip.decompress(body) if is_gzip else body)
