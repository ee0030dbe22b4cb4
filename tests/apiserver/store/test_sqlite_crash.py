"""Tests that a writer that is killed loses nothing that it was told is kept."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.store.crash import State, Write, problems, read_back

KILLS = 50


@pytest.mark.e2e
def test_nothing_answered_is_lost(tmp_path: Path) -> None:
    """Killed 50 times at random points, the store has every answered write, whole and in order."""
    path = tmp_path / "store.db"
    chance = random.Random(20)  # noqa: S311  nothing secret
    state = State(1)
    answered_before = found = 0
    with subprocess.Popen(  # noqa: S603  names what it starts itself
        [sys.executable, "-m", "tests.apiserver.store.crash", str(path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for seed in range(KILLS):
            writer.stdin.write(f"{seed}\n")
            writer.stdin.flush()
            # None: in the midst of opening the file, at first of making it.
            patience = chance.choice([0, chance.randrange(100), chance.randrange(350)])
            lines: list[dict[str, Any]] = []
            pid = 0
            is_killed = False
            while not lines or "status" not in lines[-1]:
                lines.append(json.loads(writer.stdout.readline()))
                # The first answers may come before the parent of the writer says its number.
                pid = lines[-1].get("pid", pid)
                if pid and len(lines) > patience and not is_killed:
                    os.kill(pid, signal.SIGKILL)
                    is_killed = True
            answered = [Write(**line) for line in lines if "key" in line]
            seen, after = read_back(path, state.resource_version)

            assert {"status": signal.SIGKILL} == lines[-1]
            assert [] == problems(state, answered, seen, after)
            answered_before += len(answered)
            found += len(seen)
            state = after
        writer.stdin.close()

    assert answered_before > 1000
    assert found >= answered_before


@pytest.mark.parametrize(
    ("answered", "seen", "kept", "count"),
    [
        pytest.param(None, Write(6, "a", "x"), Write(6, "a", "x"), 0, id="kept-unanswered"),
        pytest.param(Write(6, "a", None), Write(6, "a", None), None, 0, id="deleted"),
        pytest.param(Write(6, "a", "x"), None, Write(5, "a", "w"), 1, id="lost"),
        pytest.param(
            Write(6, "a", "x"), Write(6, "a", "y"), Write(6, "a", "y"), 1, id="other-value"
        ),
        pytest.param(None, Write(7, "a", "x"), Write(7, "a", "x"), 1, id="gap"),
        pytest.param(None, Write(6, "a", "x"), Write(5, "a", "w"), 1, id="not-applied"),
        pytest.param(Write(4, "a", "x"), None, Write(5, "a", "w"), 1, id="reused"),
    ],
)
def test_problems(
    answered: Write | None, seen: Write | None, kept: Write | None, count: int
) -> None:
    """The check sees what it is there for."""
    before = State(5, {"a": Write(5, "a", "w")})
    after = State(seen.resource_version if seen else 5, {kept.key: kept} if kept else {})
    found = problems(before, [answered] if answered else [], [seen] if seen else [], after)

    assert count == len(found), found
