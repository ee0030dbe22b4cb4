"""Controllers made of object files."""

from __future__ import annotations

import click
import pytest

from apfproxy.cli.offline import is_offline, objects_options
from apfproxy.cli.parameters import admin_option


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
