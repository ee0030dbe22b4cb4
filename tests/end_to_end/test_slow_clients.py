"""Some hundred slow clients at once, by slowhttptest: all others are served, and nothing stays."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from loadtest.processes import ROOT, python_module
from loadtest.program import BEYOND_A_LIMIT
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path


def test_slow_clients(tmp_path: Path) -> None:
    """Heads, bodies and reads by the byte cost no one an answer, and no seat for good."""
    installed("slowhttptest")
    path = tmp_path / "slow.json"
    done = subprocess.run(  # noqa: S603  of this repository
        [
            *python_module("loadtest.soak"),
            *("--slow", "--json", str(path)),
            *("--connections", "200", "--rate", "100", "--seconds", "2"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    # No test judges the figures.
    assert done.returncode in (0, BEYOND_A_LIMIT), done.stderr
    modes = json.loads(path.read_text())["modes"]

    assert 3 == len(modes)
    for each in modes:
        state = each["state"]
        assert all(other["asked"] == other["answered"] > 0 for other in each["others"].values())
        assert (0, 0, 0, 0, 0) == (
            state["seats"],
            state["executing"],
            state["waiting"],
            state["upstream_active"],
            state["downstream"],
        )
