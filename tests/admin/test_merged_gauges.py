"""What the gauges of several workers are together."""

from __future__ import annotations

import ast
import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import apfproxy.admin
from apfproxy.admin.merged_gauges import RULES, Rule, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

OBSERVE = Path(apfproxy.admin.__file__).parent
OTHERS = {"apiserver_metrics", "families", "worker_metrics"}
"""Modules with gauges that no worker has."""
MAKERS = {"gauge", "gauge_parts"}
OF_THE_PROCESS = {
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
}
"""Those of prometheus_client."""


def gauges_of(path: Path) -> Iterator[str]:
    """The names of gauges that a module makes, from its tables and its calls."""
    module = importlib.import_module(f"apfproxy.admin.{path.stem}")
    prefix = getattr(module, "PREFIX", "")
    for name, value in vars(module).items():
        if name.endswith("GAUGES"):
            names = (key if isinstance(key, str) else key[0] for key in value)
            yield from (prefix + series for series in names)
        elif name.endswith("S_BOUNDS") and isinstance(value, dict):
            yield from (prefix + series for series in value)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MAKERS:
            with contextlib.suppress(NameError):  # the name is of a table above
                yield eval(ast.unparse(node.args[0]), vars(module))  # noqa: S307 - our own module


def gauges() -> set[str]:
    """All gauges of a worker."""
    paths = [path for path in OBSERVE.glob("*.py") if path.stem not in OTHERS]
    return {name for path in paths for name in gauges_of(path)} | OF_THE_PROCESS


def test_every_gauge_has_a_rule() -> None:
    """It has to be said of each gauge what it is of several workers, and of no other name."""
    assert gauges() == RULES.keys()


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        pytest.param("apfproxy_tunnels_open", "gauge", Rule.SUM, id="amount"),
        pytest.param("apfproxy_upstream_up", "gauge", Rule.MIN, id="all-have-to-be-well"),
        pytest.param("apfproxy_loop_delay_seconds", "gauge", Rule.MAX, id="the-worst"),
        pytest.param("of_a_newer_version", "gauge", Rule.SUM, id="unknown"),
        pytest.param("apfproxy_build_info", "gauge", Rule.MAX, id="information"),
        pytest.param("apfproxy_traces_total", "counter", Rule.SUM, id="counter"),
        pytest.param("apfproxy_upstream_response_head_seconds", "histogram", Rule.SUM, id="times"),
    ],
)
def test_rule_of(name: str, kind: str, rule: Rule) -> None:
    """The rule is the gauge's own; counts add up, and information stays as it is."""
    assert rule == rule_of(name, kind)
