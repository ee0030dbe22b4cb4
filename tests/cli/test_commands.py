"""The command line as a whole."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest

from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.cli import commands
from apfproxy.cli import main as main_module
from apfproxy.cli.commands import COMMANDS, cli
from apfproxy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command's help has an example and its exit codes, and fits into 80 columns."""
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert COMMANDS[command] in text
    assert f"apfproxy {command} " in text
    assert "Example" in text
    assert "Exit codes: 0 ok, 1 failed, 2 wrong usage" in " ".join(text.split())
    assert [] == [line for line in text.splitlines() if len(line) > 80]


def raise_(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (click.ClickException("one\ntwo"), 1, "apfproxy: one\napfproxy: two\n"),
        (KeyboardInterrupt(), 130, "apfproxy: interrupted\n"),
    ],
)
def test_failure(
    error: BaseException,
    code: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command that fails says so on stderr, a line for each problem."""
    monkeypatch.setitem(cli.commands, "fail", click.Command("fail", callback=raise_(error)))

    assert main(["fail"]) == code
    assert capsys.readouterr().err.lstrip("\n") == text  # click ends a line that ^C interrupted


def run_closing(redirection: str, *arguments: str) -> tuple[int, str]:
    """Exit code and errors of the program, its streams changed by the shell."""
    program = f"import sys; from {main_module.__name__} import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(  # noqa: S603 - this interpreter
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("redirection", "arguments", "expected"),
    [
        pytest.param("<&-", ["check", "-"], (0, ""), id="no-input"),
        ("<&-", ["explain", "-"], (1, "apfproxy: <stdin>: there is no")),
        pytest.param(">&-", ["odds"], (0, ""), id="no-output"),
        pytest.param("2>&-", ["check", "/nowhere"], (1, ""), id="no-errors"),
        (
            ">/dev/full",
            ["odds"],
            (1, "apfproxy: cannot write the output: No space left on device\n"),
        ),
    ],
)
def test_standard_streams(
    redirection: str, arguments: list[str], expected: tuple[int, str]
) -> None:
    """Closed streams are as if they were the null device; a full disk gets one line."""
    code, errors = run_closing(redirection, *arguments)

    assert expected == (code, errors[: len(expected[1])])
    assert errors.count("\n") <= 1


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        pytest.param("apfproxy ", sorted(COMMANDS), id="all"),
        pytest.param("apfproxy s", ["serve", "simulate"], id="some"),
        pytest.param("apfproxy --v", ["--version"], id="flags"),
        pytest.param("apfproxy serve --enforcement ", ["enforce", "observe"], id="values"),
        pytest.param("apfproxy config print d", ["dashboard"], id="arguments"),
    ],
)
def test_completion(words: str, proposed: list[str]) -> None:
    """A shell proposes commands, flags and their values."""
    code = "import sys\nfrom apfproxy.cli.main import main\nsys.argv[0] = 'apfproxy'\nmain()"
    given = words.split(" ")
    environment = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(given) - 1),
        "_APFPROXY_COMPLETE": "bash_complete",
    }
    found = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert proposed == [line.removeprefix("plain,") for line in found.stdout.splitlines()]


def test_interrupted_start() -> None:
    """SIGINT while the entry itself is imported ends in one line, too."""
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'apfproxy.base.held_signals': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "import apfproxy.cli.main\n"
    )
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (INTERRUPTED, b"apfproxy: interrupted\n") == (done.returncode, done.stderr)


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help comes on stderr, since nothing was done."""
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


def test_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system that no output explains is a fault of the program, and shown."""
    failing = click.Command("fail", callback=raise_(FileNotFoundError(2, "no such file", "x")))
    monkeypatch.setitem(cli.commands, "fail", failing)

    with pytest.raises(FileNotFoundError):
        main(["fail"])


def test_interrupted_import(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGINT while a command is imported takes effect once that is done, in one line."""
    # As in a foreground process: a shell's jobs in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    imported: list[str] = []

    def interrupted(name: str) -> ModuleType:
        signal.raise_signal(signal.SIGINT)
        imported.append(name)
        return importlib.import_module(name)

    monkeypatch.setattr(commands, "importlib", SimpleNamespace(import_module=interrupted))

    code = main(["odds", "--help"])
    signal.signal(signal.SIGINT, before)

    assert INTERRUPTED == code
    assert ["apfproxy.cli.odds"] == imported
    assert "apfproxy: interrupted" == capsys.readouterr().err.strip()
