"""Load tests, as far as no test of a fault or of slow clients runs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loadtest.processes import ROOT

MODULES = sorted(path.stem for path in (ROOT / "loadtest").glob("*.py"))


def test_every_module_can_be_imported() -> None:
    """From the root of a checkout, with what the extra installs."""
    imports = "; ".join(f"import loadtest.{name}" for name in MODULES)
    done = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", ["peers", "isolation"])
def test_wrong_arguments_get_one_line(name: str) -> None:
    """A program says in one line what is wrong with its command line."""
    done = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-m", f"loadtest.{name}", "--nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, 1) == (done.returncode, done.stderr.count("\n"))
