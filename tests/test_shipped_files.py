"""The files of `config/` in a checkout; `tests/end_to_end` has those of a wheel."""

from __future__ import annotations

from apfproxy.shipped_files import shipped


def test_checkout() -> None:
    """In a checkout they are those of `config/`."""
    assert shipped("kubernetes/gateway/deployment.yaml").is_file()
    assert shipped("starters").is_dir()
