"""Controllers made of object files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from apfproxy.cli.errors import CommandError
from apfproxy.cli.offline import is_offline, objects_options, offline_controller
from apfproxy.cli.parameters import admin_option
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
    assert (50, {"a", "catch-all", "exempt"}) == (small.server_concurrency_limit, set(small.levels))


def test_problems(tmp_path: Path) -> None:
    """Objects with problems are not used; each problem is said on a line."""
    (tmp_path / "a.yaml").write_text(level("a").replace("7", "-1") + "---\nbroken: [")
    with pytest.raises(CommandError) as caught:
        offline_controller(
            [str(tmp_path), "/nowhere"], suggested_objects=None, server_concurrency_limit=None
        )

    assert len(caught.value.message.splitlines()) == 3
    assert "nominalConcurrencyShares" in caught.value.message


@click.command
@objects_options
@admin_option
@click.option("--hash-seed", envvar="SEED")
def asked(**_: object) -> bool:
    """Whether no proxy is asked."""
    return is_offline("objects", "suggested_objects", "hash_seed")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("--admin :1", False, id="admin"),
        pytest.param("--offline", True, id="offline"),
        pytest.param("--objects a --objects b", True, id="objects"),
        pytest.param("--no-suggested-objects", True, id="switch"),
        pytest.param("--hash-seed 0", True, id="number"),
    ],
)
def test_who_is_asked(arguments: str, expected: bool) -> None:
    """A flag that a proxy has a value of its own for means that none is asked."""
    assert expected is asked.main(arguments.split(), standalone_mode=False)


def test_variables_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment, perhaps for the proxy itself, ask for nothing."""
    monkeypatch.setenv("SEED", "1")

    assert asked.main([], standalone_mode=False) is False
    assert asked.main(["--admin", ":1"], standalone_mode=False) is False


@pytest.mark.parametrize("flag", ["--offline", "--hash-seed=1", "--suggested-objects"])
def test_flags_beside_admin(flag: str) -> None:
    """Flags for an answer without a proxy are refused beside a proxy's address."""
    with pytest.raises(click.UsageError, match=f"with {flag.partition('=')[0]} no proxy is asked"):
        asked.main([flag, "--admin", ":1"], standalone_mode=False)
