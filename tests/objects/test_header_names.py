"""Tests of the headers that annotations may name."""

from __future__ import annotations

import pytest

from apfproxy.objects.header_names import LONGEST_HEADER_NAME, HeaderUse, use_of


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("x-priority", HeaderUse.FIT),
        ("x" * LONGEST_HEADER_NAME, HeaderUse.FIT),
        ("x" * (LONGEST_HEADER_NAME + 1), HeaderUse.MALFORMED),
        ("", HeaderUse.MALFORMED),
        ("x_priority", HeaderUse.MALFORMED),
        ("-x", HeaderUse.MALFORMED),
        ("cookie", HeaderUse.SECRET),
        ("upgrade", HeaderUse.CONNECTION),
        ("x-remote-user", HeaderUse.IDENTITY),
        ("x-remote-extra-team", HeaderUse.IDENTITY),
        ("x-remote-users", HeaderUse.FIT),
    ],
)
def test_use(name: str, use: HeaderUse) -> None:
    """What can be forwarded, shown, and told apart by is fit."""
    assert use is use_of(name)
