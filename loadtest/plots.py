"""Plots of isolation: how long a modest flow waits, and who gets how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def plot_latencies(path: Path, title: str, latencies_ms: Mapping[str, Sequence[float]]) -> None:
    """Draw how the latencies of the modest flows are distributed, one line for each run.

    Args:
        path: The PNG file to write.
        title: What was measured.
        latencies_ms: Label of the run to its latencies, at least one.
    """
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, numbers in latencies_ms.items():
        ranked = sorted(numbers)
        shares = [(rank + 1) / len(ranked) for rank in range(len(ranked))]
        axes.step(ranked, shares, where="post", label=label)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.axhline(0.99, color="grey", linewidth=0.5, linestyle="dotted")
    axes.set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("latency of a request of a modest flow, ms")
    axes.set_ylabel("share of requests")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="center")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_throughput(
    path: Path, title: str, per_s: Mapping[str, Mapping[str, float]], modest: str
) -> None:
    """Draw how many requests per second each flow got, one panel for each run.

    Args:
        path: The PNG file to write.
        title: What was measured.
        per_s: Label of the run to flow to requests per second; at least one run.
        modest: What the labels of modest flows begin with; the others are drawn as greedy.
    """
    figure, row = plt.subplots(
        1, len(per_s), figsize=(4 * len(per_s), 4), layout="constrained", squeeze=False
    )
    for axes, (label, flows) in zip(row[0], per_s.items(), strict=True):
        colors = ["tab:blue" if name.startswith(modest) else "tab:red" for name in flows]
        bars = axes.bar(range(len(flows)), list(flows.values()), color=colors)
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
        axes.set_xticks(range(len(flows)), list(flows), rotation=60, ha="right", fontsize=7)
        axes.set_ylabel("requests per second")
        axes.set_title(label, fontsize=9)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)
