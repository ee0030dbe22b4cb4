"""Controllers made of object files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from apfproxy.cli.errors import CommandError
from apfproxy.cli.offline import offline_controller, refuse_with_admin
from tests.sources.test_object_files import level

if TYPE_CHECKING:
    from pathlib import Path


def test_controller(tmp_path: Path) -> None:
    """The objects of the files are in force beside those that are built in."""
    (tmp_path / "a.yaml").write_text(level("a"))
    whole = offline_controller([], suggested_objects=None, server_concurrency_limit=None)
    small = offline_controller(
        [str(tmp_path)], suggested_objects=False, server_concurrency_limit=50, hash_seed=3
    )

    assert (600, True) == (whole.server_concurrency_limit, "workload-low" in whole.levels)
    assert (50, {"a", "catch-all", "exempt"}) == (
        small.server_concurrency_limit,
        set(small.levels),
    )


def test_problems(tmp_path: Path) -> None:
    """Objects with problems are not used; each problem is said on a line."""
    (tmp_path / "a.yaml").write_text(level("a").replace("7", "-1") + "---\nbroken: [")
    with pytest.raises(CommandError) as caught:
        offline_controller(
            [str(tmp_path), "/nowhere"], suggested_objects=None, server_concurrency_limit=None
        )

    assert len(caught.value.message.splitlines()) == 3
    assert "nominalConcurrencyShares" in caught.value.message


def test_flags_beside_admin() -> None:
    """Flags that a running proxy has answered are refused beside its address."""
    refuse_with_admin({"objects": (), "hash_seed": None})
    with pytest.raises(click.UsageError, match="give either --admin or --hash-seed: the proxy"):
        refuse_with_admin({"objects": (), "hash_seed": 0})
    with pytest.raises(click.UsageError, match="--suggested-objects"):
        refuse_with_admin({"suggested_objects": False})
