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


def test_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    """The suggestion keeps the bound for the most elephants; the odds of all are shown."""
    assert main(["odds", "--suggest", "--bound", "0.001", "--elephants", "4,16", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (239, 7) == (found["queues"], found["handSize"])
    assert [4, 16] == [each["elephants"] for each in found["squished"]]
    assert found["squished"][1]["probability"] <= 0.001
