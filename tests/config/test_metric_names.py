"""The metrics that the dashboard and the alerts read are those that a proxy has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from apfproxy.admin.metric_table import TABLE
from apfproxy.admin.metrics import page as text_of
from apfproxy.admin.state import ClusterState, ProcessState, WorkerState
from apfproxy.app.process import ProxyProcess
from apfproxy.flowcontrol.flow_limits import count_rejection
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.ticket import ONE_SEAT, RejectReason, Ticket
from apfproxy.request.attributes import ANONYMOUS, parse_attributes
from apfproxy.settings import (
    OBSERVE,
    AccessLogSettings,
    AuthenticationSettings,
    FlowControlSettings,
    ReviewSettings,
    TracingSettings,
)
from tests.config.expressions import CONFIG, alerting_rules, grouping_labels, selectors
from tests.fleet.views import fleet
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from apfproxy.flowcontrol.controller import Controller

ADDED_BY_PROMETHEUS = {"job", "instance", "namespace"}

OF_SEVERAL_CLUSTERS = {"cluster"}
"""Labels that there are only where there are several clusters."""

OPEN_LABELS = {"job", "instance", "priority_level", "flow_schema", "code"}
"""Holds those whose values are not the proxy's to choose."""

LATER_VALUES = {
    ("reason", "ban"),
    ("reason", "cancelled"),
    ("reason", "rate"),
    ("reason", "long-running"),
    ("class", "5xx"),
    ("state", "active"),
    ("name", "fleet"),
    ("name", "servers"),
    ("name", "workers"),
}
"""Values that are not on the page before they are needed."""

NEVER_ON_A_PAGE_AT_REST: dict[str, set[str]] = {
    "apfproxy_responses_total": {"code"},
    "apfproxy_upstream_answers_total": {"code"},
    "apfproxy_upstream_up": set(),
    "apfproxy_endpoint_answers_total": {"endpoint", "class"},
    "apfproxy_endpoint_connections": {"endpoint", "state"},
    "apfproxy_endpoint_ejections_total": {"endpoint"},
    "apfproxy_endpoint_failures_total": {"endpoint", "reason"},
    "apfproxy_endpoint_response_head_seconds_bucket": {"endpoint", "le"},
    "apfproxy_endpoint_seats": {"endpoint"},
    "apfproxy_endpoint_up": {"endpoint"},
    "apfproxy_certificate_expiry_timestamp_seconds": {"setting", "file"},
    "apfproxy_token_expiry_timestamp_seconds": {"setting", "file"},
    "apfproxy_token_issued_timestamp_seconds": {"setting", "file"},
}
"""Metrics whose series come with the first request, TLS or a second server, to their labels."""


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of the files, with where it is from."""
    for rule in alerting_rules():
        yield rule["alert"], rule["expr"]
    dashboard = json.loads((CONFIG / "grafana" / "apfproxy.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def use_a_flow_schema(controller: Controller) -> None:
    """Have requests of one execute, wait and be rejected: its series come with them."""
    pod = b"/api/v1/namespaces/default/pods/x"
    found = controller.classify(ANONYMOUS, parse_attributes("GET", pod))
    queue_set, counters = found.level.queue_set, found.flow.counters
    tickets = [
        queue_set.admit(found.flow, ONE_SEAT, lambda _: None)
        for _ in range(queue_set.concurrency_limit + 1)
    ]
    for ticket in tickets:
        assert isinstance(ticket, Ticket)
        queue_set.finish(ticket)
    for reason in RejectReason:
        count_rejection(queue_set, counters, reason)
    estimator = WorkEstimator(lambda _: None, lambda _: 3)
    estimator.estimate(parse_attributes("DELETE", pod), 0, counters)


async def metrics_page(tmp_path: Path) -> str:
    """The page of a proxy that has all its metrics."""
    settings = structs.replace(
        settings_for(9, FlowControlSettings(enforcement=OBSERVE)),
        access_log=AccessLogSettings(path=str(tmp_path / "access.log")),
        tracing=TracingSettings(endpoint="http://127.0.0.1:9"),
        authentication=AuthenticationSettings(token_review=ReviewSettings(is_enabled=True)),
    )
    process = ProxyProcess(settings)
    await process.start()
    use_a_flow_schema(process.cluster.controller)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{process.admin_port}/metrics") as response,
    ):
        text = await response.text()
    await process.stop()
    return text


async def page(tmp_path: Path) -> dict[str, dict[str, set[str]]]:
    """The samples of that page, of a fleet and of workers, by name, with their labels' values."""
    text = await metrics_page(tmp_path)
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for name, labels in NEVER_ON_A_PAGE_AT_REST.items():
        found[name] = {label: set() for label in labels}
    state = ProcessState(
        clusters=[ClusterState(is_serving=True, fleet=fleet())], workers=[WorkerState(name="1")]
    )
    text += b"".join(text_of(TABLE, {"": state})).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels_of = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels_of.setdefault(label, set()).add(value)
    return found


async def test_metrics_exist(tmp_path: Path) -> None:
    """Each metric is on the page of a proxy, with each of its labels and their values."""
    found = await page(tmp_path)
    wrong = []
    for where, expression in expressions():
        known: set[str] = ADDED_BY_PROMETHEUS | OF_SEVERAL_CLUSTERS
        for selector in selectors(expression):
            if selector.name not in found:
                wrong.append(f"{where}: no metric {selector.name}")
                continue
            labels = found[selector.name]
            known |= labels.keys()
            for label, operator, value in selector.matchers:
                if label not in labels.keys() | ADDED_BY_PROMETHEUS | OF_SEVERAL_CLUSTERS:
                    wrong.append(f"{where}: {selector.name} has no label {label}")
                elif label not in OPEN_LABELS | OF_SEVERAL_CLUSTERS:
                    values = value.split("|") if "~" in operator else [value]
                    wrong += [
                        f"{where}: {selector.name} has no {label} {one!r}"
                        for one in values
                        if one not in labels[label] and (label, one) not in LATER_VALUES
                    ]
        wrong += [
            f"{where}: nothing has the label {label}"
            for label in grouping_labels(expression) - known
        ]

    assert [] == wrong


async def test_every_metric_of_the_proxy_is_shown(tmp_path: Path) -> None:
    found = await page(tmp_path)
    read = {selector.name for _, each in expressions() for selector in selectors(each)}
    own = {
        name
        for name in found
        if name.startswith("apfproxy_") and not name.endswith(("_sum", "_count", "_created"))
    }

    assert own - read == {
        "apfproxy_config_last_success_timestamp_seconds",
        "apfproxy_flowcontrol_object_info",
        "apfproxy_tunnels_total",
        "apfproxy_upstream_connections_opened_total",
    }
