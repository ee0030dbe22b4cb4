"""Plot the requests to each server behind a gateway, or limits that found themselves.

The results are of `gateway --json`, or of `auto_limit --seeds N --json`, of which `--runs` are
some.

python -m loadtest.plots gateway.json gateway.png
python -m loadtest.plots auto_limit.json auto_limit.svg --runs 1:30,2:550
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

from loadtest.auto_limit import CHANGE_S
from loadtest.program import Parser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BIN_S = 0.25
plt.rcParams["svg.fonttype"] = "none"


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


def plot_auto_limit(path: Path, results: Mapping[str, Any], runs: Sequence[str]) -> None:
    figure, panels = plt.subplots(
        2, len(runs), figsize=(4.5 * len(runs), 4.2), layout="constrained", sharex=True,
        squeeze=False,
    )  # fmt: skip
    for (limits, rates), name in zip(panels.T, runs, strict=True):
        seed, _, initial = name.partition(":")
        of_seed = results[f"seed {seed}"]
        run, places = of_seed[initial], of_seed["places"]
        limits.plot(*zip(*run["limits"], strict=True), label="limit", linewidth=1.2)
        limits.set_yscale("log")
        before, after = places
        limits.plot(
            [0, CHANGE_S, CHANGE_S, len(run["seconds"])], [before, before, after, after],
            label="places of the server", color="grey", linestyle="dotted",
        )  # fmt: skip
        limits.set_title(f"{before} places, then {after}; begins with {initial}", fontsize=9)
        limits.legend(fontsize=8)
        rates.plot(run["seconds"], linewidth=1.2, label="responses a second")
        rates.set_ylim(bottom=0)
        rates.set_xlabel("seconds")
        rates.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__, has_results=False)
    parser.add_argument("results", type=Path, help="its JSON file")
    parser.add_argument("output", type=Path, help="a PNG or SVG file")
    parser.add_argument("--runs", help="of auto_limit: SEED:INITIAL, with commas")
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_text())
    if options.runs is None:
        plot_gateway(options.output, results)
    else:
        plot_auto_limit(options.output, results, options.runs.split(","))
    return 0


if __name__ == "__main__":
    sys.exit(main())
