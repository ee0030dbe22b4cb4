"""Plots of isolation, of a gateway and of a soak, from the results that their `--json` writes.

python -m loadtest.plots gateway gateway.json gateway.png
python -m loadtest.plots soak soak.json soak.png
python -m loadtest.plots isolation isolation.json isolation/
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
from matplotlib.ticker import NullFormatter

from loadtest.program import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BIN_S = 0.25
PANELS: tuple[tuple[str, Callable[[dict[str, Any]], float]], ...] = (
    ("resident memory, MiB", lambda sample: sample["rss_bytes"] / (1 << 20)),
    ("file descriptors", lambda sample: sample["descriptors"]),
    ("seats in use", lambda sample: sample["state"]["seats"]),
)


def save(figure: Any, path: Path) -> None:  # noqa: ANN401 - matplotlib has types of its own
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_isolation(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    for setting in results:
        title, flows = setting["title"], setting["flows"]
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        for label, numbers in setting["modest_ms"].items():
            shares = [(rank + 1) / len(numbers) for rank in range(len(numbers))]
            axes.step(sorted(numbers), shares, where="post", label=label)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.axhline(0.99, color="grey", linewidth=0.5, linestyle="dotted")
        axes.set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("latency of a request of a modest flow, ms")
        axes.set_ylabel("share of requests")
        axes.set_title(f"Modest flows beside a greedy one: {title}", fontsize=10)
        axes.legend(loc="center")
        save(figure, path / f"{setting['scenario']}-latency.png")
        runs = ("beside", "without", "equal")
        figure, row = plt.subplots(1, len(runs), figsize=(12, 4), layout="constrained")
        for axes, run in zip(row, runs, strict=True):
            mine = [flow for flow in flows if flow["load"] == run]
            colors = ["tab:blue" if "modest" in flow["user"] else "tab:red" for flow in mine]
            rates = [flow["requests_per_s"] for flow in mine]
            bars = axes.bar(range(len(mine)), rates, color=colors)
            axes.bar_label(bars, fmt="%.0f", fontsize=7)
            names = [flow["user"].rpartition(":")[2] for flow in mine]
            axes.set_xticks(range(len(mine)), names, rotation=60, ha="right", fontsize=7)
            axes.set_ylabel("requests per second")
            axes.set_title(run, fontsize=9)
        figure.suptitle(f"Throughput by flow: {title}", fontsize=10)
        save(figure, path / f"{setting['scenario']}-throughput.png")


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
    save(figure, path)


def plot_soak(path: Path, results: Mapping[str, Any]) -> None:
    figure, rows = plt.subplots(len(PANELS), 1, figsize=(7, 7), sharex=True, layout="constrained")
    for axes, (label, value) in zip(rows, PANELS, strict=True):
        for name, proxy in results["proxies"].items():
            samples = proxy["samples"]
            minutes = [each["at_s"] / 60 for each in samples]
            axes.plot(minutes, [value(each) for each in samples], label=name)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    rows[0].legend()
    rows[-1].set_xlabel("minutes")
    save(figure, path)


PLOTS: dict[str, Callable[[Path, Any], None]] = {
    "gateway": plot_gateway,
    "isolation": plot_isolation,
    "soak": plot_soak,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__, has_results=False)
    parser.add_argument("of", choices=tuple(PLOTS), help="the load test")
    parser.add_argument("results", type=Path, help="its JSON file")
    parser.add_argument("output", type=Path, help="a PNG file; of isolation a directory")
    options = parser.parse_args(arguments)
    if options.of == "isolation":
        options.output.mkdir(parents=True, exist_ok=True)
    PLOTS[options.of](options.output, json.loads(options.results.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
