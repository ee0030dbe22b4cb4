"""Holds what expressions of PromQL name, as far as the files in config/ use that language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CONFIG = Path(__file__).parents[2] / "config"

SELECTOR = re.compile(r"\b((?:apfproxy|apiserver|process)_\w+|up)\b(?:\s*\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric that an expression reads.

    Attributes:
        name: Of its samples.
        matchers: Label, operator and value of each.
    """

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def alerting_rules() -> list[dict[str, Any]]:
    """All alerts."""
    spec = yaml.safe_load((CONFIG / "prometheus" / "prometheusrule.yaml").read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"]]


def selectors(expression: str) -> list[Selector]:
    """The metrics that an expression reads."""
    return [
        Selector(match[1], tuple(MATCHER.findall(match[2] or "")))
        for match in SELECTOR.finditer(expression)
    ]


def grouping_labels(expression: str) -> set[str]:
    """The labels by which an expression joins or sums."""
    return {
        label.strip()
        for match in GROUPING.finditer(expression)
        for label in match[1].split(",")
        if label.strip()
    }
