"""Series of proxies for promtool, and a real Prometheus that scrapes them as its operator has it.

`promtool` runs the rules on series by its own clock, in which a page is a minute after the one
before: what was on the last one goes on for as long as an alert waits.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.config.expressions import CONFIG, alerting_rules, metrics_in
from tests.config.pods import with_monitoring
from tests.end_to_end.programs import free_port, installed
from tests.end_to_end.served import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Labels = tuple[tuple[str, str], ...]
Series = dict[Labels, float]
"""Values by all labels and `__name__`."""

RULES = CONFIG / "prometheus" / "prometheusrule.yaml"
READ = {name for rule in alerting_rules() for name in metrics_in(rule["expr"])}
"""Metrics that alerts read."""

FOR_S = {"m": 60, "h": 3600, "d": 86400}
MINUTE = 60
COUNTERS = ("_total", "_bucket")
FIRING = 'max by (alertname) (ALERTS{alertstate="firing"})'
LOOK_EVERY_S = 0.1
SCRAPED_EVERY = "250ms"


def series_of(page: str, **labels: str) -> Series:
    """The samples of a page of metrics with the labels of its target, as if it were time 0 now."""
    found: Series = {(("__name__", "up"), *sorted(labels.items())): 1.0}
    now = time.time()
    for family in text_string_to_metric_families(page):
        for each in family.samples:
            key = {**labels, **each.labels, "__name__": each.name}
            is_time = each.name.endswith("_timestamp_seconds")
            found[tuple(sorted(key.items()))] = each.value - now if is_time else each.value
    return found


class Prometheus:
    def __init__(self, port: int) -> None:
        self._port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression of PromQL."""
        asked = urllib.parse.urlencode({"query": expression})
        status, body = ask(self._port, f"/api/v1/query?{asked}")
        assert status == 200, body
        found: list[dict[str, Any]] = json.loads(body)["data"]["result"]
        return found


def operators_scrapes(folder: Path, ports: Sequence[int]) -> dict[str, Any]:
    """The job that the operator makes of the ServiceMonitor, whose targets are these.

    Source: prometheus-operator, `pkg/prometheus/promcfg.go`: a target has the labels of its place,
    the job is named by the Service's label `jobLabel`; what the monitor relabels comes last.
    """
    objects = with_monitoring("gateway", folder)
    monitor = objects["ServiceMonitor", "apfproxy"]["spec"]
    metadata = objects["Service", "apfproxy-admin"]["metadata"]
    assert monitor["selector"]["matchLabels"].items() <= metadata["labels"].items()
    [endpoint] = monitor["endpoints"]
    labels = {
        "namespace": metadata["namespace"],
        "service": metadata["name"],
        "pod": "apfproxy-0",
        "container": "apfproxy",
        "job": metadata["labels"][monitor["jobLabel"]],
        "endpoint": endpoint["port"],
    }
    return {
        "job_name": "serviceMonitor/apfproxy/apfproxy/0",
        "metrics_path": endpoint["path"],
        "scrape_interval": SCRAPED_EVERY,
        "scrape_timeout": SCRAPED_EVERY,
        "static_configs": [{"targets": [f"127.0.0.1:{each}" for each in ports], "labels": labels}],
        "relabel_configs": [
            {re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", k): v for k, v in each.items()}
            for each in endpoint["relabelings"]
        ],
    }


@contextlib.contextmanager
def prometheus(folder: Path, ports: Sequence[int]) -> Iterator[Prometheus]:
    """Run one that scrapes these admin listeners."""
    (folder / "monitored").mkdir()
    settings = {
        "scrape_configs": [operators_scrapes(folder / "monitored", ports)],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    listens = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - a program of the system, on files of the test
            [
                installed("prometheus"),
                f"--config.file={folder}/prometheus.yaml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{listens}",
            ],
            stderr=log,
        )
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                if ask(listens, "/-/ready")[0] == 200:
                    break
            assert process.poll() is None, (folder / "log").read_text()
            threading.Event().wait(LOOK_EVERY_S)
        yield Prometheus(listens)
    finally:
        process.kill()
        process.wait()


class Expected(NamedTuple):
    """Alerts that fire at a minute of promtool's clock, and no others: of all, or `of` some."""

    minute: int
    alerts: frozenset[str]
    of: str = ".+"


def minutes(duration: str) -> int:
    return int(duration[:-1]) * FOR_S[duration[-1]] // MINUTE


def _values(scrapes: Sequence[Series], key: Labels, first: int, total: int) -> Iterator[str]:
    """A value for each step: the first scrape until `first`, then the others; the last goes on."""
    name = dict(key)["__name__"]
    was_there = False
    last = scrapes[-1].get(key)
    before = scrapes[-2].get(key, 0.0) if len(scrapes) > 1 else last
    grows = name.endswith(COUNTERS) and last is not None and before is not None
    for step in range(total + 1):
        index = min(max(0, step - first), len(scrapes) - 1)
        value = scrapes[index].get(key)
        if value is None:
            yield "stale" if was_there else "_"
        else:
            if name.endswith("_timestamp_seconds"):
                value += MINUTE * (first + index)
            beyond = step - first - len(scrapes) + 1
            if grows and beyond > 0:
                assert last is not None
                assert before is not None
                value += beyond * (last - before)
            yield f"{value:.17g}"
        was_there = value is not None


def promtool(
    folder: Path,
    proxies: Mapping[str, Sequence[Series]],
    first: int,
    expected: Sequence[Expected],
    *,
    step: int = 1,
) -> None:
    """Let promtool run the rules as they are on the series that were scraped of proxies.

    The second scrape is in the minute after `first`; samples are `step` minutes apart.
    """
    total = max(each.minute for each in expected) // step
    series = [
        {
            "series": "{%s}" % ", ".join(f"{k}={json.dumps(v)}" for k, v in key),  # noqa: UP031 - braces
            "values": " ".join(_values(scrapes, key, first // step, total)),
        }
        for scrapes in proxies.values()
        for key in sorted(set().union(*scrapes))
        if dict(key)["__name__"] in READ
    ]
    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{step}m",
        "tests": [
            {
                "interval": f"{step}m",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": FIRING.replace("{", f'{{alertname=~"{each.of}", '),
                        "eval_time": f"{each.minute}m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1}
                            for name in sorted(each.alerts)
                        ],
                    }
                    for each in expected
                ],
            }
        ],
    }
    (folder / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(RULES.read_text())["spec"]))
    (folder / "tests.json").write_text(json.dumps(tests))  # JSON is YAML
    done = subprocess.run(  # noqa: S603 - a program that we name
        [installed("promtool"), "test", "rules", "tests.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
