"""A plot of a soak: what each proxy held over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PANELS: tuple[tuple[str, Callable[[dict[str, Any]], float]], ...] = (
    ("resident memory, MiB", lambda sample: sample["rss_bytes"] / (1 << 20)),
    ("file descriptors", lambda sample: sample["descriptors"]),
    ("seats in use", lambda sample: sample["state"]["seats"]),
)


def plot_soak(path: Path, proxies: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw memory, descriptors and seats, one line for each proxy.

    Args:
        path: The PNG file to write.
        proxies: Name to `samples`, `before` and `after`, as in the results.
    """
    figure, rows = plt.subplots(len(PANELS), 1, figsize=(7, 7), sharex=True, layout="constrained")
    for axes, (label, value) in zip(rows, PANELS, strict=True):
        for name, proxy in proxies.items():
            samples = [*proxy["samples"]]
            axes.plot(
                [each["at_s"] / 60 for each in samples],
                [value(each) for each in samples],
                label=name,
            )
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    rows[0].legend()
    rows[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=120)
    plt.close(figure)
