"""How apfproxy's CPU per request relates to HAProxy's: targets, and ratios committed in a file.

The file is JSON: mix to proxy to the median of the rounds' ratios.  A mix over TLS has a name of
its own, such as `cluster+tls`; over HTTP/2 it is `cluster+h2+tls`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import msgspec

from loadtest.processes import LoadTestError
from loadtest.site import COMPILED, INTERPRETED

if TYPE_CHECKING:
    from pathlib import Path

Ratios = dict[str, dict[str, Annotated[float, msgspec.Meta(gt=0)]]]

TARGETS: dict[str, dict[str, float]] = {
    COMPILED: {"cluster": 1.5, "cluster+h2+tls": 1.6, "varied": 1.8, "same": 1.15},
    INTERPRETED: {"cluster": 2.5, "varied": 3.0},
}
"""Holds what builds are to stay within, per mix as `mix_name` has it."""

WORSE_BY = 0.10
"""By how much a ratio may exceed the committed one."""


def mix_name(mix: str, *, tls: bool, upstream_tls: bool) -> str:
    return mix + "+tls" * tls + "+upstream-tls" * upstream_tls


def read_ratios(path: Path) -> Ratios:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ratios)
    except OSError as error:
        raise LoadTestError(f"{path}: {error.strerror}; --write {path} makes one") from None
    except msgspec.MsgspecError as error:
        raise LoadTestError(
            f"{path} has no ratios: {error}; remove it, and --write {path} makes one"
        ) from None


def write_ratios(path: Path, measured: Ratios) -> None:
    kept = read_ratios(path) if path.exists() else {}
    merged = {mix: {**kept.get(mix, {}), **measured.get(mix, {})} for mix in {**kept, **measured}}
    rounded = {
        mix: {name: round(ratio, 2) for name, ratio in of.items()} for mix, of in merged.items()
    }
    path.write_text(json.dumps(rounded, indent=2) + "\n")


def compare_ratios(measured: Ratios, committed: Ratios) -> tuple[list[str], bool]:
    """Say of each measured ratio whether it is better or worse than the committed one."""
    lines, is_worse = [], False
    for mix, of in measured.items():
        for name, ratio in of.items():
            known = committed.get(mix, {}).get(name)
            if known is None:
                lines.append(f"{name}, {mix}: {ratio:.2f} times HAProxy, not in the file")
                continue
            change = ratio / known - 1
            verdict = "better" if change <= 0 else "worse"
            if change > WORSE_BY:
                is_worse = True
                verdict = f"worse, BEYOND the limit of {WORSE_BY:.0%}"
            lines.append(
                f"{name}, {mix}: {ratio:.2f} times HAProxy, committed {known:.2f}: "
                f"{abs(change):.1%} {verdict}"
            )
    return lines, is_worse
