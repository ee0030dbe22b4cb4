"""Alerts of the files in config/, and the metrics that an expression of PromQL names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

CONFIG = Path(__file__).parents[2] / "config"
METRIC = re.compile(r"\b((?:apfproxy|apiserver|process)_\w+|up)\b")


def alerting_rules() -> list[dict[str, Any]]:
    spec = yaml.safe_load((CONFIG / "prometheus" / "prometheusrule.yaml").read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"]]


def metrics_in(expression: str) -> list[str]:
    return METRIC.findall(expression)
