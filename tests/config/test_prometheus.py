"""The alerts for Prometheus, checked and run by its own tool."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

from tests.config.expressions import CONFIG
from tests.end_to_end.programs import installed

FOLDER = CONFIG / "prometheus"
RULES = "apfproxy-alerts.yaml"
TESTS = "apfproxy-alerts-test.yaml"


def read(name: str) -> Any:  # noqa: ANN401 - any YAML
    """One of the files."""
    return yaml.safe_load((FOLDER / name).read_text())


def rules() -> list[dict[str, Any]]:
    """All alerts."""
    return [rule for group in read(RULES)["groups"] for rule in group["rules"]]


@pytest.mark.e2e
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("check", "rules", RULES), id="check"),
        pytest.param(("test", "rules", TESTS), id="test"),
    ],
)
def test_promtool(arguments: tuple[str, ...]) -> None:
    """Prometheus takes the rules, and they alert when they should and only then."""
    program = installed("promtool")
    done = subprocess.run(  # noqa: S603 - a program that we name
        (program, *arguments), cwd=FOLDER, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr), done.stdout


def test_every_alert_is_tested() -> None:
    """Each alert is seen to come, and at rest, and too early, not to come."""
    tests = read(TESTS)["tests"]
    firing = set()
    quiet: dict[str, int] = {}
    for test in tests:
        for case in test["alert_rule_test"]:
            if case["exp_alerts"]:
                firing.add(case["alertname"])
            else:
                quiet[case["alertname"]] = quiet.get(case["alertname"], 0) + 1
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)
    assert set(names) == firing
    assert set(names) == {name for name, times in quiet.items() if times > 1}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    """Each alert has a name of ours, a severity, a time that it waits, and a text."""
    assert rule["alert"].startswith("Apfproxy")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]
    assert {"summary", "description"} == rule["annotations"].keys()
