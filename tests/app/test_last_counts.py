"""What a worker leaves for its parent at its end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.metrics import ScrapedPage, counter
from apfproxy.app import last_counts
from apfproxy.app.last_counts import END, leave_counts, take_counts

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ScrapedPage([counter("served_total", "real", "x")], lambda: [{"": 5}])


def test_counts(tmp_path: Path) -> None:
    """They come once."""
    path = tmp_path / "counts"
    leave_counts(str(path), PAGE)
    found = take_counts(str(path))

    assert b"# TYPE served_total counter\nserved_total 5.0\n" in found
    assert b"" == take_counts(str(path))


@pytest.mark.parametrize("data", [b"", b"# HELP", END, b"# HELP\n" + END + b"# HELP\n"])
def test_what_is_not_whole(tmp_path: Path, data: bytes) -> None:
    """It is not taken, and removed."""
    path = tmp_path / "counts"
    path.write_bytes(data)

    assert b"" == take_counts(str(path))
    assert not path.exists()


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound, and nothing is left then."""
    monkeypatch.setattr(last_counts, "MAX_BYTES", 10)
    path = tmp_path / "counts"
    with pytest.raises(OSError, match="more than 10 bytes"):
        leave_counts(str(path), PAGE)

    assert not path.exists()


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe is not waited for, and a link is not followed."""
    leave_counts(str(tmp_path / "counts"), PAGE)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("counts")

    assert [b"", b""] == [take_counts(str(tmp_path / name)) for name in ("pipe", "link")]


def test_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of more than anybody leaves is not read to its end."""
    path = tmp_path / "counts"
    leave_counts(str(path), PAGE)
    monkeypatch.setattr(last_counts, "MAX_BYTES", 10)

    assert b"" == take_counts(str(path))
