"""What holds for the flags of every command: variables of the environment, and sections of help.

Each flag is also a variable, `APFPROXY_COMMAND_FLAG`: `--log-level` of `serve` is
`APFPROXY_SERVE_LOG_LEVEL`.  The command is part of it, since flags of the same name mean different
things, and one environment may be that of several commands.  A flag wins over its variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    example = options[0]
    text = f"Each flag is also a variable: {example.envvar} for {example.opts[0]}.  The flag wins."
    command.epilog = f"{command.epilog or ''}\n\n{text}"


def name_variable(error: click.BadParameter) -> None:
    """Have an error say which variable is wrong, if it was not a flag."""
    if error.ctx is None or error.param is None or error.param.name is None:
        return
    source = error.ctx.get_parameter_source(error.param.name)
    if source is ParameterSource.ENVIRONMENT and isinstance(error.param.envvar, str):
        error.param_hint = f"variable {error.param.envvar}"


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
