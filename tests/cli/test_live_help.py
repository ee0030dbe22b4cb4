"""The help of top."""

from __future__ import annotations

from apfproxy.cli.live_help import HELP, help_screen
from apfproxy.cli.live_view import SORTS


def test_keys() -> None:
    """Each key that sorts is explained."""
    keys = {word for line in HELP.split("LEVELS")[0].splitlines() for word in line.split()[:4]}

    assert set(SORTS) <= keys


def test_headings() -> None:
    """Headings are bold."""
    first = next(iter(help_screen().renderables))

    assert "bold" in str(getattr(first, "spans", ""))
