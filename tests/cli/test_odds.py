from __future__ import annotations

import json
import re

import pytest

from apfproxy.cli.main import main
from apfproxy.cli.odds import one_in


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The documentation's row for the default sizes."""
    assert main(["odds"]) == 0
    first, _, _, *rows = capsys.readouterr().out.splitlines()

    assert first == "64 queues, hands of 8"
    assert ["1", "4", "16"] == [row.split()[0] for row in rows]
    assert ["1 in 4.4 billion", "1 in 2,046", "1 in 2.8"] == [
        re.split("  +", row.strip())[1] for row in rows
    ]
    assert [float(row.split()[-1]) for row in rows] == pytest.approx(
        [2.25929199850899e-10, 0.0004886697053040446, 0.35935114681123076], rel=1e-14
    )


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.0, "never"),
        (1e-18, "1 in 1000.0 quadrillion"),
        (2.5e-13, "1 in 4.0 trillion"),
        (5e-7, "1 in 2.0 million"),
        (1.234e-6, "1 in 810,373"),
        (0.1, "1 in 10"),
        (0.5, "1 in 2.0"),
        (0.97, "nearly always"),
        (1.0, "always"),
    ],
)
def test_words(chance: float, words: str) -> None:
    """A probability is told as people say it."""
    assert words == one_in(chance)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["odds", "--queues", "2", "--hand-size", "1", "--elephants", "1,2,1", "-o", "json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {
        "queues": 2,
        "handSize": 1,
        "squished": [{"elephants": 1, "probability": 0.5}, {"elephants": 2, "probability": 0.75}],
    }


def test_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    """The suggestion keeps the bound for the most elephants; the odds of all are shown."""
    assert main(["odds", "--suggest", "--bound", "0.001", "--elephants", "4,16", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (239, 7) == (found["queues"], found["handSize"])
    assert [4, 16] == [each["elephants"] for each in found["squished"]]
    assert found["squished"][1]["probability"] <= 0.001


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param("--queues 0", 2, "expected a whole number from 1 to 10000000", id="queues"),
        pytest.param("--queues 4", 2, "expected a hand of 1 to 4 queues", id="hand"),
        pytest.param("--queues 512", 2, "with so many queues a hand can be 6", id="entropy"),
        pytest.param("--elephants 0", 2, "expected numbers from 1 to 10000", id="no-elephant"),
        pytest.param("--elephants 1,,2", 2, "expected numbers from 1 to 10000", id="no-number"),
        pytest.param(
            f"--elephants {'9' * 5000}", 2, "expected numbers from 1 to 10000", id="long-number"
        ),
        pytest.param(
            f"--elephants {'1,' * 40}1", 2, "expected at most 32 numbers, not 41", id="many"
        ),
        pytest.param("--bound 0.1", 2, "--bound goes with --suggest", id="bound"),
        pytest.param("--suggest", 2, "--suggest needs --bound", id="no-bound"),
        ("--suggest --bound 0.1 --queues 8", 2, "leave theirs out"),
        pytest.param("--suggest --bound 1", 2, "above 0 and below 1, not '1'", id="certain"),
        pytest.param("--suggest --bound nan", 2, "expected a number above 0", id="nan"),
        pytest.param("--queues x", 2, "expected a whole number from 1 to", id="text"),
        pytest.param("--suggest --bound 1e-30", 1, "at or below 1e-30 with 16", id="impossible"),
    ],
)
def test_wrong_input(
    arguments: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["odds", *arguments.split()]) == code
    (line,) = capsys.readouterr().err.splitlines()

    assert message in line
