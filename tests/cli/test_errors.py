"""What ends a command."""

from __future__ import annotations

import pytest

from apfproxy.cli.errors import CommandError, SettingsFileError


@pytest.mark.parametrize(("kind", "exit_code"), [(CommandError, 1), (SettingsFileError, 2)])
def test_exit_codes(kind: type[CommandError], exit_code: int) -> None:
    """A settings file that cannot be used is wrong usage; all else has failed."""
    error = kind("one", "two")

    assert (error.exit_code, error.message) == (exit_code, "one\ntwo")
