"""The files of the live page and of the overview."""

from __future__ import annotations

from apfproxy.admin.page_files import CONTENT_TYPES, PAGE, page_files


def test_files() -> None:
    """All that a page needs is served, and nothing else."""
    found = page_files()

    assert {"index.html", "clusters.html", "main.js", "clusters.js"} <= found.keys()
    assert {path.suffix for path in map(PAGE.joinpath, found)} == set(CONTENT_TYPES)
    assert found is page_files()
