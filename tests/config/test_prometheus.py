"""The texts of the alerts for Prometheus; `tests/end_to_end/test_alerts.py` sees them fire."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.config.expressions import CONFIG, alerting_rules

ROOT = CONFIG.parent
DOCUMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
RUNBOOK = f"{DOCUMENTS.replace('/tree/', '/blob/')}/runbook.md"


@pytest.mark.parametrize("rule", alerting_rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Apfproxy")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]
    assert {"summary", "description", "runbook_url"} == rule["annotations"].keys()
    assert f"{RUNBOOK}#{rule['alert'].lower()}" == rule["annotations"]["runbook_url"]


def test_runbook() -> None:
    """The runbook has a section for each alert, in their order."""
    sections = re.findall(r"(?m)^### (\w+)$", (ROOT / "docs" / "runbook.md").read_text())

    assert [rule["alert"] for rule in alerting_rules()] == sections
