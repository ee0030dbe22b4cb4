"""Some hundred slow clients at once, by slowhttptest: all others are served, and nothing stays."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from loadtest.processes import BEYOND_A_LIMIT, ROOT, python_module
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", ["head", "body", "read"])
def test_slow_clients(mode: str, tmp_path: Path) -> None:
    """Heads, bodies and reads by the byte cost no one an answer, and no seat for good."""
    installed("slowhttptest")
    path = tmp_path / "slow.json"
    done = subprocess.run(  # noqa: S603  of this repository
        [
            *python_module("loadtest.soak"),
            *("--slow", "--only", mode, "--json", str(path)),
            *("--connections", "300", "--rate", "100", "--seconds", "4"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    # No test judges the figures.
    assert done.returncode in (0, BEYOND_A_LIMIT), done.stderr
    (findings,) = json.loads(path.read_text())["modes"]
    state = findings["state"]

    assert all(other["asked"] == other["answered"] > 0 for other in findings["others"].values())
    assert (0, 0, 0, 0, 0) == (
        state["seats"],
        state["executing"],
        state["waiting"],
        state["upstream_active"],
        state["downstream"],
    )
