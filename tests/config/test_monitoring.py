"""The dashboard and the alerts; `tests/end_to_end` has real servers show and fire them."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import combinations
from typing import Any

import pytest

from apfproxy.admin.metric_table import TABLE
from apfproxy.flowcontrol.ticket import RejectReason
from tests.config.expressions import CONFIG, alerting_rules, metrics_in

ROOT = CONFIG.parent
DOCUMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
RUNBOOK = f"{DOCUMENTS.replace('/tree/', '/blob/')}/runbook.md"
DASHBOARD = json.loads((CONFIG / "grafana" / "apfproxy.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
COLUMNS = 24
FIRST = re.compile(r"current_executing_seats|current_inqueue_requests|rate\(.* / .*rate\(")
"""Numbers that there are not before the first request."""
AGGREGATION = re.compile(r"\b(sum|max|min|histogram_quantile)\b")
NOT_SHOWN = {
    "apfproxy_config_last_success_timestamp_seconds",
    "apfproxy_flowcontrol_object_info",
    "apfproxy_listener_responses_total",
    "apfproxy_paced_seconds_total",
    "apfproxy_tunnels_total",
    "apfproxy_unrouted_requests_total",
    "apfproxy_upstream_connections_opened_total",
}


def test_metrics() -> None:
    """All metrics that are read exist, and all of the proxy's own are read."""
    expressions = [rule["expr"] for rule in alerting_rules()]
    expressions += [each["expr"] for panel in PANELS for each in panel.get("targets", ())]
    expressions += [each["expr"] for each in DASHBOARD["annotations"]["list"]]
    expressions += [each["query"] for each in VARIABLES if each["type"] == "query"]
    read = {
        re.sub("_(bucket|sum|count)$", "", name)
        for each in expressions
        for name in metrics_in(each)
    }
    names = {family.name for family in TABLE}

    assert read - names == {"up"}
    assert {each for each in names - read if each.startswith("apfproxy_")} == NOT_SHOWN


def test_panels_have_their_places() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in PANELS]
    overlaps = [
        (one, other)
        for (one, a), (other, b) in combinations(places, 2)
        if all(a[x] < b[x] + b[w] and b[x] < a[x] + a[w] for x, w in ("xw", "yh"))
    ]

    assert [] == overlaps
    assert len(PANELS) == len({panel["id"] for panel in PANELS})
    assert all(place["x"] + place["w"] <= COLUMNS for _, place in places)


def test_variables() -> None:
    """Every variable that is used is there, and every one that is there is used."""
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD))) - {"__rate_interval"}

    assert used == {variable["name"] for variable in VARIABLES}


def test_single_numbers_without_requests() -> None:
    found = {
        panel["title"]: panel["fieldConfig"]["defaults"].get("noValue")
        for panel in PANELS
        if panel["type"] == "stat" and any(FIRST.search(each["expr"]) for each in panel["targets"])
    }

    assert {"Seats in use", "Waiting", "Rejected"} == found.keys()
    assert None not in found.values()


def test_legends() -> None:
    """A legend names labels that its expression keeps."""
    wrong = []
    for target in (each for panel in PANELS for each in panel.get("targets", ())):
        labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        summed = re.findall(r"\bby \(([^)]*)\)", target["expr"])
        kept = {label.strip() for each in summed for label in each.split(",")}
        if not labels <= kept and AGGREGATION.search(target["expr"]):
            wrong.append((target["expr"], target["legendFormat"]))

    assert [] == wrong


@pytest.mark.parametrize("rule", alerting_rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Apfproxy")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]
    assert {"summary", "description", "runbook_url"} == rule["annotations"].keys()
    assert f"{RUNBOOK}#{rule['alert'].lower()}" == rule["annotations"]["runbook_url"]


def test_rejections_that_objects_ask_for() -> None:
    """They raise no alert, whichever annotation brings them."""
    [rule] = [each for each in alerting_rules() if each["alert"] == "ApfproxyRequestsRejected"]
    of_seats = {RejectReason.CONCURRENCY_LIMIT, RejectReason.QUEUE_FULL, RejectReason.TIME_OUT}
    left_out = [set(each.split("|")) for each in re.findall(r'reason!~"(.+?)"', rule["expr"])]

    assert [{"cancelled", *RejectReason} - of_seats] * 2 == left_out


def test_runbook() -> None:
    """The runbook has a section for each alert, in their order."""
    sections = re.findall(r"(?m)^### (\w+)$", (ROOT / "docs" / "runbook.md").read_text())

    assert [rule["alert"] for rule in alerting_rules()] == sections
