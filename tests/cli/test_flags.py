from __future__ import annotations

import click
import pytest

from apfproxy.cli.commands import COMMANDS, cli, give_variables, run, variable_of
from apfproxy.cli.serve import FLAGS, serve

GROUP = click.Context(cli)


def command_of(name: str) -> click.Command:
    command = cli.get_command(GROUP, name)
    assert command is not None
    return command


def options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_a_variable(name: str) -> None:
    command = command_of(name)
    variables = [str(each.envvar) for each in options_of(command)]

    assert variables == [variable_of(name, each) for each in options_of(command)]
    assert len(set(variables)) == len(variables)
    for option in options_of(command):
        flag = max(option.opts, key=len)
        spelt = str(option.envvar).removeprefix(f"APFPROXY_{name.upper()}_")
        assert flag == f"--{spelt.lower().replace('_', '-')}"


@click.command()
@click.option("--a-number", "number", type=int, default=1)
@click.option("--name", "names", multiple=True)
@click.option("--yes/--no", "is_yes", default=None)
def command(**flags: object) -> None:
    """Show what a flag is."""
    click.echo(repr(sorted(flags.items(), key=str)))


give_variables(command, "my-command")


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ("", "", (1, (), None)),
        ("", "A_NUMBER=7 YES=true", (7, (), True)),
        ("", "A_NUMBER= YES=", (1, (), None)),
        ("", "YES=0 NAME=a,b", (1, ("a", "b"), False)),
        ("--a-number=2 --no", "A_NUMBER=7 YES=1", (2, (), False)),
        ("--name=c", "NAME=a,b", (1, ("c",), None)),
    ],
)
def test_precedence(
    arguments: str,
    variables: str,
    expected: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A flag wins over its variable, which wins over the default; an empty one is none."""
    for variable in variables.split():
        name, _, value = variable.partition("=")
        monkeypatch.setenv(f"APFPROXY_MY_COMMAND_{name}", value.replace(",", " "))
    command.main(arguments.split(), standalone_mode=False)

    shown = [*zip(("number", "names", "is_yes"), expected, strict=True)]
    assert capsys.readouterr().out == f"{sorted(shown)!r}\n"


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

    assert run(["serve", "--upstream", "http://a", *arguments]) == 2
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

    assert run(["odds"]) == 0
    said = [] if hint is None else [f"apfproxy odds: the variable {variable} is of no flag{hint}"]
    assert said == capsys.readouterr().err.splitlines()


def test_sections() -> None:
    """Each flag of `serve` stands in one section of its help."""
    named = [name.replace("-", "_") for flags in FLAGS.values() for name in flags]

    assert sorted(str(each.name) for each in options_of(serve)) == sorted([*named, "settings_path"])
    text = serve.get_help(click.Context(serve))
    places = [text.index(f"\n{title}:\n") for title in (*FLAGS, "Other")]
    assert places == sorted(places)
