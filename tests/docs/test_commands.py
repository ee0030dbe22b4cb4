"""Each command and each flag that a document names is one that the program has."""

from __future__ import annotations

import re

import click
import pytest

from apfproxy.cli.commands import COMMANDS, cli, imported
from tests.docs.pages import ROOT, Page, page, pages

FLAGS_OF_OTHERS = {
    "--advertise-address": "kube-apiserver",
    "--audit-log-path": "kube-apiserver",
    "--bind-address": "kube-apiserver",
    "--disable-admission-plugins": "kube-apiserver",
    "--enable-priority-and-fairness": "kube-apiserver",
    "--grace-period": "kubectl",
    "--goaway-chance": "kube-apiserver",
    "--http2-max-streams-per-connection": "kube-apiserver",
    "--health-cmd": "docker",
    "--max-concurrent-requests": "TGI",
    "--max-mutating-requests-inflight": "kube-apiserver",
    "--max-num-seqs": "vLLM",
    "--parallel": "llama.cpp",
    "--max-requests-inflight": "kube-apiserver",
    "--requestheader-client-ca-file": "kube-apiserver",
    "--secure-port": "kube-apiserver",
    "--shutdown-delay-duration": "kube-apiserver",
    "--token": "kubectl",
}
"""Flags of other programs that documents name alone."""

FOLDERS = ("tests/", ".ci/", "config/", "docs/", "loadtest/")
"""A word that begins so is a path of the repository."""


def problem_of(words: list[str]) -> str | None:
    for word in words:
        if word.startswith(FOLDERS) and not (ROOT / word.partition("::")[0]).exists():
            return f"no file {word}"
    program = words[0].rpartition("/")[2]
    if "apfproxy" in words and words[0] == "docker":
        words = words[words.index("apfproxy") :]
        program = "apfproxy" if words[1:2] != ["."] else "docker"
    if program == "apfproxy":
        return problem_of_command(words[1:])
    if program.startswith("python") and words[1:2] == ["-m"]:
        return problem_of_module(words[2], words[3:])
    if words[0].startswith("--"):
        return problem_of_flag(words[0].partition("=")[0])
    return None


def problem_of_command(words: list[str]) -> str | None:
    name, *arguments = words or ["--help"]
    command: click.Command = cli
    if name.startswith("-"):
        arguments = words
    elif name in COMMANDS:
        command = imported(name)
    else:
        return f"no command {name}"
    try:
        command.make_parser(click.Context(command)).parse_args(arguments)
    except click.NoSuchOption as error:
        return f"{name}: {error.message}"
    except click.UsageError:
        return None  # an option is named without its value
    return None


def problem_of_module(name: str, arguments: list[str]) -> str | None:
    if name.partition(".")[0] not in ("loadtest", "tests", "apfproxy"):
        return None
    path = ROOT.joinpath(*name.split("."))
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.exists():
        return f"no module {name}"
    sources = file.read_text() + (ROOT / "loadtest" / "program.py").read_text()
    flags = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    unknown = [flag for flag in flags if f'"{flag}"' not in sources]
    return f"{name}: no {unknown}" if unknown else None


def problem_of_flag(flag: str) -> str | None:
    known = set(FLAGS_OF_OTHERS)
    for source in (ROOT / "loadtest").glob("*.py"):
        known.update(re.findall(r'"(--[a-z-]+)"', source.read_text()))
    for command in (cli, *map(imported, COMMANDS)):
        for parameter in command.get_params(click.Context(command)):
            known.update(parameter.opts, parameter.secondary_opts)
    return None if flag in known else f"no command has {flag}"


@pytest.mark.parametrize("document", pages(), ids=[each.name for each in pages()])
def test_commands(document: Page) -> None:
    """Each command line parses."""
    assert [] == [
        (words, problem) for words in document.commands() if (problem := problem_of(words))
    ]


def test_readme_lists_all_commands() -> None:
    """The README has a row for each command."""
    readme = page("README.md")

    assert [] == [name for name in COMMANDS if f"| `apfproxy {name}` |" not in readme.text]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["apfproxy", "server"], id="no-command"),
        pytest.param([".venv/bin/apfproxy", "serve", "--upstreams", "x"], id="no-flag"),
        pytest.param(["docker", "run", "apfproxy", "serve", "--lisen", "x"], id="in-a-container"),
        pytest.param(["python", "-m", "loadtest.peer"], id="no-module"),
        pytest.param(["python", "-m", "tests.fuzz.run", "--minutes", "1"], id="no-flag-of-it"),
        pytest.param(["--no-such-flag"], id="alone"),
        pytest.param(["kubectl", "apply", "-f", "config/kubernetes/x.yaml"], id="no-file"),
    ],
)
def test_wrong_commands_are_found(words: list[str]) -> None:
    """A command or flag that does not exist is a problem."""
    assert problem_of(words) is not None
