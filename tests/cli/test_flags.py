from __future__ import annotations

import click
import pytest

from apfproxy.cli.commands import COMMANDS, cli, run
from apfproxy.cli.flags import SectionedCommand, give_variables, variable_of
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
    """It has the name of the command and of the flag, and none is that of another flag."""
    command = command_of(name)
    variables = [str(each.envvar) for each in options_of(command)]

    assert variables == [variable_of(name, each) for each in options_of(command)]
    assert len(set(variables)) == len(variables)
    for option in options_of(command):
        flag = max(option.opts, key=len)
        spelt = str(option.envvar).removeprefix(f"APFPROXY_{name.upper()}_")
        assert flag == f"--{spelt.lower().replace('_', '-')}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_of_variables_once(name: str) -> None:
    """However often a command is looked up; there are none without flags."""
    command_of(name)
    text = " ".join(command_of(name).get_help(click.Context(command_of(name))).split())

    assert bool(options_of(command_of(name))) == text.count(f"APFPROXY_{name.upper()}_")


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
        pytest.param([], {}, (1, (), None), id="neither"),
        pytest.param([], {"A_NUMBER": "7", "YES": "true"}, (7, (), True), id="variables"),
        pytest.param([], {"A_NUMBER": "", "YES": ""}, (1, (), None), id="empty"),
        pytest.param([], {"YES": "0", "NAME": "a b"}, (1, ("a", "b"), False), id="several"),
        (["--a-number=2", "--no"], {"A_NUMBER": "7", "YES": "1"}, (2, (), False)),
        pytest.param(["--name=c"], {"NAME": "a b"}, (1, ("c",), None), id="both-of-several"),
    ],
)
def test_precedence(
    arguments: list[str],
    variables: dict[str, str],
    expected: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A flag wins over its variable, which wins over the default; an empty one is none."""
    for name, value in variables.items():
        monkeypatch.setenv(f"APFPROXY_MY_COMMAND_{name}", value)
    command.main(arguments, standalone_mode=False)

    number, names, is_yes = expected
    shown = [("is_yes", is_yes), ("names", names), ("number", number)]
    assert capsys.readouterr().out == f"{shown!r}\n"


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
        ("APFPROXY_ODDS_XYZ", ""),
        ("APFPROXY_ODDS_USES", ""),  # a little like queues
        ("APFPROXY_QUEUES", "; did you mean APFPROXY_ODDS_QUEUES?"),
        ("APFPROXY_SERVICE_HOST", None),  # of a Service in Kubernetes
        ("APFPROXY_SERVE_LISTEN", None),  # of another command
        ("OTHER", None),
    ],
)
def test_unknown_variables(
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
    assert isinstance(serve, SectionedCommand)
    named = [name.replace("-", "_") for flags in FLAGS.values() for name in flags]

    assert sorted(str(each.name) for each in options_of(serve)) == sorted([*named, "settings_path"])
    text = serve.get_help(click.Context(serve))
    places = [text.index(f"\n{title}:\n") for title in (*FLAGS, "Other")]
    assert places == sorted(places)
