"""The entry of the program."""

from __future__ import annotations

import importlib
import runpy
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from apfproxy.base import build
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.cli import commands
from apfproxy.cli.main import main
from apfproxy.proxy.http2 import available

if TYPE_CHECKING:
    from types import ModuleType


def test_as_module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m apfproxy` is the same program."""
    monkeypatch.setattr(sys, "argv", ["apfproxy", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("apfproxy", run_name="__main__")

    assert end.value.code == 0
    assert capsys.readouterr().out == f"apfproxy {build.version(available.version())}\n"


def test_interrupted_import(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGINT while a command is imported takes effect once that is done, in one line."""
    imported: list[str] = []

    def interrupted(name: str) -> ModuleType:
        signal.raise_signal(signal.SIGINT)
        imported.append(name)
        return importlib.import_module(name)

    monkeypatch.setattr(commands, "importlib", SimpleNamespace(import_module=interrupted))

    assert INTERRUPTED == main(["odds", "--help"])
    assert ["apfproxy.cli.odds"] == imported
    assert "apfproxy: interrupted" == capsys.readouterr().err.strip()


def test_interrupted_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a command to import is interrupted at its end."""

    def run(_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(commands, "run", run)

    assert INTERRUPTED == main([])
