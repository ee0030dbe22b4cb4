"""A controller made of object files, for commands that ask what a proxy would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from apfproxy.cli.errors import CommandError
from apfproxy.cli.parameters import suggested_objects_option
from apfproxy.flowcontrol.controller import Controller
from apfproxy.settings import AS_KUBERNETES, PROMPT, FlowControlSettings
from apfproxy.simulation.virtual_clock import VirtualClock
from apfproxy.sources.object_files import decode_files, effective_objects, read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXAMPLE_SEED = 0
"""Where no seed is given.  A proxy draws its own, so its hashes and hands are others."""


limit_adjustment_option = click.option(
    "--limit-adjustment",
    type=click.Choice([PROMPT, AS_KUBERNETES]),
    help="Whether idle seats are lent as soon as a request waits for them, or every 10s only."
    f" [default: {FlowControlSettings().limit_adjustment}]",
)


def objects_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say which objects and how many seats there are."""
    for option in (
        limit_adjustment_option,
        suggested_objects_option,
        click.option(
            "--server-concurrency-limit",
            type=click.IntRange(1, (1 << 31) - 1),
            metavar="SEATS",
            help="Seats of the whole server. "
            f"[default: {FlowControlSettings().server_concurrency_limit}]",
        ),
        click.option(
            "--objects",
            multiple=True,
            metavar="PATH",
            type=click.Path(),
            help="File or directory of FlowSchemas and PriorityLevelConfigurations, beside the"
            " built-in ones.  Repeatable.",
        ),
    ):
        command = option(command)
    return command


def refuse_with_admin(flags: dict[str, object]) -> None:
    """Refuse flags that a running proxy has answered already.

    Raises:
        click.UsageError: One of them was given.
    """
    for name, value in flags.items():
        if value is not None and value != ():
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"give either --admin or {flag}: the proxy has its own")


def offline_controller(
    paths: Sequence[str],
    *,
    suggested_objects: bool | None,
    server_concurrency_limit: int | None,
    limit_adjustment: str | None = None,
    hash_seed: int | None = None,
) -> Controller:
    """The controller that a proxy with these settings has at its start.

    CommandError if objects have problems.
    """
    defaults = FlowControlSettings()
    read = decode_files(read_files(paths))
    if read.problems:
        raise CommandError(*(" ".join(str(problem).split()) for problem in read.problems))
    with_suggested = defaults.suggested_objects if suggested_objects is None else suggested_objects
    controller = Controller(
        VirtualClock(),
        server_concurrency_limit or defaults.server_concurrency_limit,
        EXAMPLE_SEED if hash_seed is None else hash_seed,
        is_prompt=(limit_adjustment or defaults.limit_adjustment) == PROMPT,
    )
    controller.commit(
        controller.digest(effective_objects(read.objects, with_suggested=with_suggested))
    )
    return controller
