"""Flags of every command: variables of the environment, and sections of help.

Each flag is also a variable, `APFPROXY_COMMAND_FLAG`: `--log-level` of `serve` is
`APFPROXY_SERVE_LOG_LEVEL`.  The command is part of it, since flags of the same name mean different
things, and one environment may be that of several commands.  A flag wins over its variable.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from apfproxy.objects.field_errors import closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PREFIX = "APFPROXY"


def variable_of(command: str, option: click.Option) -> str:
    """The variable of an option: its longest flag, in capitals with `_`."""
    flag = max(option.opts, key=len).lstrip("-")
    return f"{PREFIX}_{command}_{flag}".upper().replace("-", "_")


def give_variables(command: click.Command, name: str) -> None:
    """Let each flag of a command be a variable, too, and its help say so; harmless once done."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    if not options or options[0].envvar is not None:
        return
    for option in options:
        option.envvar = variable_of(name, option)
    if (callback := command.callback) is not None:

        @functools.wraps(callback)
        def called(*arguments: Any, **values: Any) -> Any:  # noqa: ANN401 - as click has it
            for line in unknown_variables(command, name, os.environ):
                click.echo(f"apfproxy {name}: {line}", err=True)
            return callback(*arguments, **values)

        command.callback = called
    example = options[0]
    text = f"Each flag is also a variable: {example.envvar} for {example.opts[0]}.  The flag wins."
    command.epilog = f"{command.epilog or ''}\n\n{text}"


def unknown_variables(
    command: click.Command, name: str, environment: Iterable[str]
) -> Iterator[str]:
    """A line for each variable that looks like a flag of the command, and is none.

    It is no error: in Kubernetes a Service adds variables of its name.
    """
    known = {each.envvar for each in command.params if isinstance(each.envvar, str)}
    prefix = f"{PREFIX}_{name}_".upper().replace("-", "_")
    for variable in sorted(environment):
        of_command = variable.replace(f"{PREFIX}_", prefix, 1)
        if variable in known or not variable.startswith(f"{PREFIX}_"):
            continue
        if variable.startswith(prefix):
            # By what differs: the prefix alone would make any two alike.
            flags = [each.removeprefix(prefix) for each in known]
            close = closest(variable.removeprefix(prefix), flags)
            meant = prefix + close if close else ""
        elif of_command in known:
            meant = of_command
        else:
            continue
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"the variable {variable} is of no flag{hint}"


def name_variable(error: click.BadParameter) -> None:
    """Have an error say which variable is wrong, if it was not a flag."""
    if error.ctx is None or error.param is None or error.param.name is None:
        return
    source = error.ctx.get_parameter_source(error.param.name)
    if source is ParameterSource.ENVIRONMENT and isinstance(error.param.envvar, str):
        error.param_hint = f"variable {error.param.envvar}"


def with_advice(error: click.UsageError) -> click.UsageError:
    """The error, which says what flag, or what value of a choice, is probably meant."""
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        nearest = difflib.get_close_matches(error.option_name, error.possibilities, 1, 0.0)
        return click.NoSuchOption(error.option_name, possibilities=nearest, ctx=error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None:
        given = re.match(r"'([^']*)' is not one of ", error.message)
        choices = getattr(error.param.type, "choices", ())
        if given is not None and (meant := closest(given[1], map(str, choices), 0.6)):
            text = f"{error.message.removesuffix('.')}; did you mean {meant}?"
            return click.BadParameter(text, error.ctx, error.param, error.param_hint)
    return error


class SectionedCommand(click.Command):
    """A command whose help lists its flags in sections.

    Args:
        sections: A section's title to the names of its flags' parameters; flags in none of them
            stand at the end.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as click has it
        sections: Mapping[str, Sequence[str]],
        **rest: Any,  # noqa: ANN401 - as click has it
    ) -> None:
        super().__init__(*arguments, **rest)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        lines = {
            str(parameter.name): line
            for parameter in self.get_params(ctx)
            if (line := parameter.get_help_record(ctx)) is not None
        }
        rest = [name for name in lines if not any(name in each for each in self.sections.values())]
        for title, names in {**self.sections, "Other": rest}.items():
            with formatter.section(title):
                formatter.write_dl([lines[name] for name in names if name in lines])
