"""The command line, `apfproxy COMMAND`: a command's module is imported when it runs.

Each flag is also a variable, `APFPROXY_COMMAND_FLAG`: `--log-level` of `serve` is
`APFPROXY_SERVE_LOG_LEVEL`.  The command is part of it, since flags of the same name mean different
things, and one environment may be that of several commands.  A flag wins over its variable.
"""

from __future__ import annotations

import difflib
import errno
import functools
import gc
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from apfproxy.base import build
from apfproxy.base.held_signals import INTERRUPTED, release, release_interrupt
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, USAGE
from apfproxy.objects.field_errors import closest
from apfproxy.proxy.http2 import available

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PREFIX = "APFPROXY"
OUTPUT_ERRORS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing to the standard output that are no fault of the program."""

EPILOG = f"""\b
Examples:
  apfproxy serve --upstream http://127.0.0.1:8000 --listen 127.0.0.1:8080
  apfproxy serve --upstream https://a:6443 --upstream https://b:6443
  apfproxy apiserver --listen 127.0.0.1:6443

Each flag is also a variable, APFPROXY_COMMAND_FLAG: --log-level of serve is
APFPROXY_SERVE_LOG_LEVEL.  A flag wins over its variable, and both over a settings file.

{EXIT_CODES}"""

COMMANDS = {
    "apiserver": "Serve a small Kubernetes API, for tests and load tests.",
    "ban": "Stop a user's requests, or slow them down.",
    "check": "Validate and lint objects in files, or check a settings file.",
    "config": "Print files that come with apfproxy: settings, alerts and so on.",
    "demo": "Show what each client gets with and without flow control.",
    "explain": "Explain how a request is classified, and what happens to it.",
    "find-limit": "Load a server of yours, and see which limit it should have.",
    "init": "Write settings, manifests and the steps to try them.",
    "limits": "Show how the seats are divided among the priority levels.",
    "odds": "Compute the odds that large flows crowd out a small one.",
    "serve": "Forward requests to one or more servers, with flow control.",
    "simulate": "Replay requests through one or two configurations.",
    "top": "Show levels, queues and flows of a running proxy.",
    "unban": "Take a ban or a rate of a user back.",
}
"""The first line of the help of each."""
LISTED = f"one of {', '.join(COMMANDS)}"
MODULES = {
    "config": "config_command",
    "find-limit": "find_limit",
    "limits": "limits_command",
    "unban": "ban",
}
"""The modules of commands that have other names than these."""
HANDLE_SIGNALS = frozenset({"apiserver", "serve"})
"""The commands that handle all the signals that `main` holds back."""


def imported(name: str) -> click.Command:
    """Import a command of `COMMANDS`, and let signals that `main` held back through to it."""
    # Objects that modules make stay: a look for garbage in them would take a tenth of a start.
    gc.disable()
    try:
        module = importlib.import_module(f"apfproxy.cli.{MODULES.get(name, name)}")
    finally:
        gc.freeze()
        gc.enable()
    if name in HANDLE_SIGNALS:
        release_interrupt()
    else:
        release()
    command: click.Command = getattr(module, name.replace("-", "_"))
    give_variables(command, name)
    return command


class Commands(click.Group):
    """Imports the command that runs, and no other: those that it has are names with short help."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in COMMANDS:
            return args[0], imported(args[0]), args[1:]
        if args[0] not in self.commands and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"expected {LISTED}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # its message begins with the command
            raise


@click.group(
    cls=Commands,
    commands=[click.Command(name, short_help=text) for name, text in COMMANDS.items()],
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(
    build.version(available.version()), prog_name="apfproxy", message="%(prog)s %(version)s"
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Give any HTTP API server the flow control of kube-apiserver.

    apfproxy is a reverse proxy.  It classifies each request with FlowSchemas, limits it by the
    seats of its priority level, queues it fairly among the flows there, and forwards it to the
    server behind, or as a gateway to one of several, of one cluster or of many.  With it comes a
    small Kubernetes API server, for tests of the proxy and of clients.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(USAGE)


def give_variables(command: click.Command, name: str) -> None:
    """Let each flag of a command be a variable, too, and its help say so; once."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    if not options or options[0].envvar is not None:
        return
    for option in options:
        flag = max(option.opts, key=len).lstrip("-")
        option.envvar = f"{PREFIX}_{name}_{flag}".upper().replace("-", "_")
    if (callback := command.callback) is not None:

        @functools.wraps(callback)
        def called(*arguments: Any, **values: Any) -> Any:  # noqa: ANN401 - as click has it
            for line in unknown_variables(command, name):
                click.echo(f"apfproxy {name}: {line}", err=True)
            return callback(*arguments, **values)

        command.callback = called
    example = options[0]
    text = f"Each flag is also a variable: {example.envvar} for {example.opts[0]}.  The flag wins."
    command.epilog = f"{command.epilog or ''}\n\n{text}"


def unknown_variables(command: click.Command, name: str) -> Iterator[str]:
    """A line for each variable that looks like a flag of the command, and is none.

    It is no error: in Kubernetes a Service adds variables of its name.
    """
    known = {each.envvar for each in command.params if isinstance(each.envvar, str)}
    prefix = f"{PREFIX}_{name}_".upper().replace("-", "_")
    for variable in sorted(os.environ):
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


def with_advice(error: click.UsageError) -> click.UsageError:
    """The error, which says what variable is wrong, or what flag or choice is probably meant."""
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        nearest = difflib.get_close_matches(error.option_name, error.possibilities, 1, 0.65)
        return click.NoSuchOption(error.option_name, possibilities=nearest, ctx=error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None:
        source = error.ctx and error.ctx.get_parameter_source(str(error.param.name))
        if source is ParameterSource.ENVIRONMENT:
            error.param_hint = f"variable {error.param.envvar}"
        given = re.match(r"'([^']*)' is not one of ", error.message)
        choices = getattr(error.param.type, "choices", ())
        if given is not None and (meant := closest(given[1], map(str, choices), 0.6)):
            text = f"{error.message.removesuffix('.')}; did you mean {meant}?"
            return click.BadParameter(text, error.ctx, error.param, error.param_hint)
    return error


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors go to stderr, a line for each; returns the exit code."""
    open_standard_streams()
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="apfproxy",
            standalone_mode=False,
        )
    except click.UsageError as error:
        error = with_advice(error)
        context = error.ctx or click.Context(cli, info_name="apfproxy")
        command = " ".join(filter(None, (context.command_path, context.invoked_subcommand)))
        message = " ".join(error.format_message().split()).removesuffix(".")
        click.echo(f"{command}: {message} (see {command} --help)", err=True)
        return USAGE
    except click.ClickException as error:
        for line in error.format_message().splitlines():
            click.echo(f"apfproxy: {line}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("apfproxy: interrupted", err=True)
        return INTERRUPTED
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        # A broken pipe needs no words: the reader of our output has enough.
        if error.errno != errno.EPIPE:
            click.echo(f"apfproxy: cannot write the output: {error.strerror}", err=True)
        # The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return result if isinstance(result, int) else OK


def open_standard_streams() -> None:
    """Open the null device for each standard stream that is closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - it stays
            setattr(sys, name, stream)
