"""The dashboard for Grafana."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tests.config.expressions import CONFIG
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path

DASHBOARD = json.loads((CONFIG / "grafana" / "apfproxy.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
COLUMNS = 24

GRAFANAS_OWN = {"__rate_interval": "5m"}
"""Variables that Grafana itself has, with a value as it could be."""


def test_panels_have_their_places() -> None:
    overlaps = []
    for one, other in combinations(PANELS, 2):
        a, b = one["gridPos"], other["gridPos"]
        if (
            a["x"] < b["x"] + b["w"]
            and b["x"] < a["x"] + a["w"]
            and a["y"] < b["y"] + b["h"]
            and b["y"] < a["y"] + a["h"]
        ):
            overlaps.append((one["title"], other["title"]))

    assert [] == overlaps
    assert len(PANELS) == len({panel["id"] for panel in PANELS})
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= COLUMNS for panel in PANELS)


def test_variables() -> None:
    """Every variable that is used is there, and every one that is there is used."""
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD))) - GRAFANAS_OWN.keys()

    assert used == VARIABLES


def test_single_numbers_without_requests() -> None:
    first = "current_executing_seats|current_inqueue_requests|rate\\(.* / .*rate\\("
    found = {
        panel["title"]: panel["fieldConfig"]["defaults"].get("noValue")
        for panel in PANELS
        if panel["type"] == "stat"
        for target in panel["targets"]
        if re.search(first, target["expr"])
    }

    assert {"Seats in use", "Waiting", "Rejected"} == found.keys()
    assert None not in found.values()


def test_legends() -> None:
    """A legend names labels that its expression keeps."""
    wrong = []
    for panel in PANELS:
        for target in panel.get("targets", ()):
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            summed = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            kept = {label.strip() for each in summed for label in each.split(",")}
            is_plain = not re.search(r"\b(sum|max|min|histogram_quantile)\b", target["expr"])
            if not (labels <= kept or is_plain):
                wrong.append((panel["title"], target["legendFormat"]))

    assert [] == wrong


def test_expressions(tmp_path: Path) -> None:
    """Prometheus can read each expression, once Grafana has put in its variables."""
    program = installed("promtool")
    expressions = [target["expr"] for panel in PANELS for target in panel.get("targets", ())] + [
        annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]
    ]
    rules = []
    for index, expression in enumerate(expressions):
        text = re.sub(
            r"\$\{?(\w+)\}?", lambda match: GRAFANAS_OWN.get(match[1], "something"), expression
        )
        rules.append({"record": f"expression:{index}", "expr": text})
    path = tmp_path / "rules.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(  # noqa: S603 - a program that we name
        (program, "check", "rules", path), capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert f"{len(expressions)} rules found" in done.stdout
