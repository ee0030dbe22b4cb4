"""The entry of the program."""

from __future__ import annotations

import runpy
import sys

import pytest

from apfproxy import __version__


def test_as_module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m apfproxy` is the same program."""
    monkeypatch.setattr(sys, "argv", ["apfproxy", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("apfproxy", run_name="__main__")

    assert end.value.code == 0
    assert capsys.readouterr().out == f"apfproxy, version {__version__}\n"
