"""Plot the requests to each server behind a gateway, from the results of `gateway --json`.

python -m loadtest.plots gateway.json gateway.png
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from loadtest.program import Parser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BIN_S = 0.25


def plot_gateway(path: Path, results: Mapping[str, Any]) -> None:
    phases = results["phases"]
    from_s, to_s = phases[0]["begun_s"], phases[-1]["end_s"]
    figure, axes = plt.subplots(figsize=(11, 4.5), layout="constrained")
    for name, times in results["journals"].items():
        bins = Counter(int((at_s - from_s) / BIN_S) for at_s in times if from_s <= at_s < to_s)
        count = int((to_s - from_s) / BIN_S)
        axes.plot(
            [at * BIN_S for at in range(count)],
            [bins[at] / BIN_S for at in range(count)],
            label=f"server {name}",
            linewidth=1.2,
        )
    names = list(results["journals"])
    for phase in phases:
        at_s = phase["begun_s"] - from_s
        axes.axvline(at_s, color="grey", linewidth=0.6, linestyle="dotted")
        label = phase["event"]
        if phase["victim"] is not None:
            label += f" {names[phase['victim']]}"
        place = axes.get_xaxis_transform()
        axes.text(at_s + 0.1, 1.0, label, fontsize=8, va="bottom", transform=place)
    axes.set_xlim(0, to_s - from_s)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("requests a second")
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__, has_results=False)
    parser.add_argument("results", type=Path, help="its JSON file")
    parser.add_argument("output", type=Path, help="a PNG file")
    options = parser.parse_args(arguments)
    plot_gateway(options.output, json.loads(options.results.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
