"""The command line: `apfproxy COMMAND`."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import click

from apfproxy import __version__
from apfproxy.cli.apiserver import apiserver
from apfproxy.cli.check import check
from apfproxy.cli.demo import demo
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, USAGE
from apfproxy.cli.explain import explain
from apfproxy.cli.limits_command import limits
from apfproxy.cli.odds import odds
from apfproxy.cli.serve import serve
from apfproxy.cli.simulate import simulate
from apfproxy.cli.top import top

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTPUT_ERRORS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing to the standard output may fail with, through no fault of the program."""

EPILOG = f"""\b
Examples:
  apfproxy serve --upstream http://127.0.0.1:8000 --listen 127.0.0.1:8080
  apfproxy apiserver --listen 127.0.0.1:6443

{EXIT_CODES}"""


@click.group(
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="apfproxy")
@click.pass_context
def cli(context: click.Context) -> None:
    """Give any HTTP API server the flow control of kube-apiserver.

    apfproxy is a reverse proxy.  It classifies each request with FlowSchemas, limits it by the
    seats of its priority level, queues it fairly among the flows there, and forwards it.  With it
    comes a small Kubernetes API server, for tests of the proxy and of clients.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(USAGE)


cli.add_command(serve)
cli.add_command(apiserver)
cli.add_command(demo)
cli.add_command(check)
cli.add_command(explain)
cli.add_command(limits)
cli.add_command(odds)
cli.add_command(simulate)
cli.add_command(top)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors go to stderr, a line for each.

    Args:
        arguments: Without the program's name; by default those of the process.

    Returns:
        The exit code.
    """
    open_standard_streams()
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="apfproxy",
            standalone_mode=False,
        )
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "apfproxy"
        message = " ".join(error.format_message().split()).removesuffix(".")
        click.echo(f"{command}: {message} (see {command} --help)", err=True)
        return USAGE
    except click.ClickException as error:
        for line in error.format_message().splitlines():
            click.echo(f"apfproxy: {line}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("apfproxy: interrupted", err=True)
        return FAILED
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        # A broken pipe needs no words: whoever read our output has enough.
        if error.errno != errno.EPIPE:
            click.echo(f"apfproxy: cannot write the output: {error.strerror}", err=True)
        # The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return result if isinstance(result, int) else OK


def open_standard_streams() -> None:
    """Open the null device for each standard stream that whoever started us has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - it stays
            setattr(sys, name, stream)
