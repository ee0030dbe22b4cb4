"""A plot of a gateway's run: what each server got over time, and when requests failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from loadtest.gateway_servers import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BIN_S = 0.25


def plot_gateway(path: Path, results: Mapping[str, Any]) -> None:
    """Draw requests a second to each server, with the phases.

    Args:
        path: The PNG file to write.
        results: `phases` and `journals`, as the load test gives them.
    """
    phases = results["phases"]
    from_s, to_s = phases[0]["begun_s"], phases[-1]["end_s"]
    figure, axes = plt.subplots(figsize=(11, 4.5), layout="constrained")
    for name, times in zip(NAMES, results["journals"], strict=False):
        bins = Counter(int((at_s - from_s) / BIN_S) for at_s in times if from_s <= at_s < to_s)
        count = int((to_s - from_s) / BIN_S)
        axes.plot(
            [at * BIN_S for at in range(count)],
            [bins[at] / BIN_S for at in range(count)],
            label=f"server {name}",
            linewidth=1.2,
        )
    for phase in phases:
        at_s = phase["begun_s"] - from_s
        axes.axvline(at_s, color="grey", linewidth=0.6, linestyle="dotted")
        label = phase["event"]
        if phase["victim"] is not None:
            label += f" {NAMES[phase['victim']]}"
        axes.text(
            at_s + 0.1, 1.0, label, fontsize=8, va="bottom", transform=axes.get_xaxis_transform()
        )
    axes.set_xlim(0, to_s - from_s)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("requests a second")
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
