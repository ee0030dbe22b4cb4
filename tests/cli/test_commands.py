"""The command line as a whole."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest

from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.cli import commands
from apfproxy.cli.commands import COMMANDS, cli, imported
from apfproxy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help has an example and exit codes, and fits into 80 columns; each flag is a variable."""
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert COMMANDS[name] in text
    assert f"apfproxy {name} " in text
    assert "Example" in text
    assert "Exit codes: 0 ok, 1 failed, 2 wrong usage" in " ".join(text.split())
    assert [] == [line for line in text.splitlines() if len(line) > 80]
    for option in imported(name).params:
        if isinstance(option, click.Option):
            flag = max(option.opts, key=len).removeprefix("--")
            assert f"APFPROXY_{name}_{flag}".upper().replace("-", "_") == option.envvar


@pytest.mark.parametrize(
    ("flags", "variables", "first"),
    [
        ("", "QUEUES=128 HAND_SIZE=", "128 queues, hands of 8"),
        ("--queues 99", "QUEUES=128 HAND_SIZE=7", "99 queues, hands of 7"),
    ],
)
def test_variables(
    flags: str,
    variables: str,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A flag wins over its variable, which wins over the default; an empty one is none."""
    for variable in variables.split():
        name, _, value = variable.partition("=")
        monkeypatch.setenv(f"APFPROXY_ODDS_{name}", value)

    assert main(["odds", *flags.split()]) == 0
    assert capsys.readouterr().out.startswith(f"{first}\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [([], "variable APFPROXY_SERVE_LISTEN"), (["--listen", "y"], "'--listen'")],
)
def test_wrong_value(
    arguments: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("APFPROXY_SERVE_LISTEN", "x")

    assert main(["serve", "--upstream", "http://a", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"apfproxy serve: Invalid value for {named}: expected HOST:PORT")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("APFPROXY_ODDS_QEUES", "; did you mean APFPROXY_ODDS_QUEUES?"),
        ("APFPROXY_ODDS_USES", ""),  # a little like queues
        ("APFPROXY_QUEUES", "; did you mean APFPROXY_ODDS_QUEUES?"),
        ("APFPROXY_SERVICE_HOST", None),  # of a Service in Kubernetes
        ("APFPROXY_SERVE_LISTEN", None),  # of another command
    ],
)
def test_variables_of_no_flag_are_named(
    variable: str,
    hint: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "1")

    assert main(["odds"]) == 0
    said = [] if hint is None else [f"apfproxy odds: the variable {variable} is of no flag{hint}"]
    assert said == capsys.readouterr().err.splitlines()


def raise_(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (click.ClickException("one\ntwo"), 1, "apfproxy: one\napfproxy: two\n"),
        (KeyboardInterrupt(), 130, "apfproxy: interrupted\n"),
        (FileNotFoundError(2, "no such file", "x"), None, ""),
    ],
)
def test_failure(
    error: BaseException,
    code: int | None,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failure has a line on stderr for each problem; a fault of the program is shown."""
    monkeypatch.setitem(cli.commands, "fail", click.Command("fail", callback=raise_(error)))

    if code is None:
        with pytest.raises(type(error)):
            main(["fail"])
    else:
        assert main(["fail"]) == code
    assert capsys.readouterr().err.lstrip("\n") == text  # click ends a line that ^C interrupted


@pytest.mark.parametrize(
    ("redirection", "arguments", "expected"),
    [
        pytest.param("<&-", ["check", "-"], (0, ""), id="no-input"),
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
    program = [sys.executable, "-m", "apfproxy", *arguments]
    ended = subprocess.run(  # noqa: S603 - this interpreter
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert expected == (ended.returncode, ended.stderr)


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        pytest.param("apfproxy s", ["serve", "simulate"], id="commands"),
        pytest.param("apfproxy --v", ["--version"], id="flags"),
        pytest.param("apfproxy serve --enforcement ", ["enforce", "observe"], id="values"),
        pytest.param("apfproxy config print d", ["dashboard"], id="arguments"),
    ],
)
def test_completion(
    words: str,
    proposed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    monkeypatch.setenv("_APFPROXY_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit, match="0"):
        main([])
    lines = capsys.readouterr().out.splitlines()

    assert proposed == [line.removeprefix("plain,") for line in lines]


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help comes on stderr, since nothing was done."""
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


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
