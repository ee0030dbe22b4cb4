"""Builds of apfproxy that are compared: this checkout, another, or what is installed elsewhere."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from loadtest.processes import ROOT, LoadTestError

ANSWER_WITHIN_S = 60
COMPILED, INTERPRETED = "compiled", "interpreted"


class Build(NamedTuple):
    """An apfproxy that can be started."""

    python: str
    """The interpreter."""

    path: str
    """Where the interpreter looks for packages first; empty for what is installed with it."""

    def command(self) -> list[str]:
        # -P: the package in the current directory is this checkout's.
        return [self.python, "-P", "-m", "apfproxy"]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": self.path}

    def version(self) -> str:
        """What it says of itself, in one line."""
        done = subprocess.run(
            [*self.command(), "--version"],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_WITHIN_S,
        )
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise LoadTestError(f"{' '.join(self.command())} does not run: {words}")
        return done.stdout.strip()


THIS = Build(sys.executable, str(ROOT))
"""The package of this checkout, in this interpreter."""


def kind_of(version: str) -> str:
    return COMPILED if f"({COMPILED}" in version else INTERPRETED


def named_build(text: str) -> tuple[str, Build]:
    """Read an argument NAME=PYTHON or NAME=CHECKOUT.

    Args:
        text: A name of lower-case letters, digits and `-`, and the path of an interpreter that has
            apfproxy installed, or of the root of a checkout.
    """
    name, _, place = text.partition("=")
    path = Path(place)
    if re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no name of at most 20 letters a-z, digits and '-': NAME=PYTHON"
        )
    if place and (path / "apfproxy").is_dir():
        return name, Build(sys.executable, str(path.resolve()))
    if place and path.is_file():
        # Not resolved: the link itself is what tells which virtual environment it is of.
        return name, Build(str(path.absolute()), "")
    if not place:
        raise argparse.ArgumentTypeError(f"{text!r} names no interpreter: NAME=PYTHON")
    raise argparse.ArgumentTypeError(f"{place!r} is no interpreter, nor a checkout of apfproxy")
