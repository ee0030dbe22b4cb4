"""Commands ask a running proxy, or a controller made of object files.

A running proxy answers, unless a flag on the command line says what the answer depends on, such as
`--objects`, or `--offline` says that no proxy is to be asked.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from apfproxy.cli.errors import CommandError
from apfproxy.cli.parameters import WholeNumber, preset_option, suggested_objects_option
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.lint.linter import other_api
from apfproxy.objects.decode import parts_of
from apfproxy.objects.field_errors import one_line
from apfproxy.settings import AS_KUBERNETES, KUBERNETES_API, PROMPT, FlowControlSettings
from apfproxy.simulation.virtual_clock import VirtualClock
from apfproxy.sources.object_files import decode_files, effective_objects, read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.objects.types import FlowControlObject

EXAMPLE_SEED = 0
"""A proxy draws its own, so its hashes and hands are others."""
DEFAULTS = FlowControlSettings()

limit_adjustment_option = click.option(
    "--limit-adjustment",
    type=click.Choice([PROMPT, AS_KUBERNETES]),
    help="Whether idle seats are lent as soon as a request waits for them, or every 10s only."
    f" [default: {DEFAULTS.limit_adjustment}]",
)
seats_option = partial(click.option, metavar="SEATS", type=WholeNumber(1, (1 << 31) - 1))
server_concurrency_limit_option = seats_option(
    "--server-concurrency-limit",
    default=DEFAULTS.server_concurrency_limit,
    show_default=True,
    help="Seats of the whole server.",
)


def objects_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say which objects and how many seats there are, without a proxy."""
    for option in (
        click.option(
            "--offline",
            is_flag=True,
            expose_value=False,  # for `is_offline`
            help="Ask no proxy, but show what an idle one with the built-in objects, and the"
            " preset's long-running requests, would do.  Implied by flags that say what the proxy"
            " has, such as --objects.",
        ),
        limit_adjustment_option,
        preset_option,
        suggested_objects_option,
        server_concurrency_limit_option,
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


def is_offline(*flags: str) -> bool:
    """Whether one of these flags stands on the command line, so that no proxy is asked.

    Variables of the environment, which `serve` has too, do not count.

    UsageError if one of them is given beside `--admin` or `--cluster`.
    """
    context = click.get_current_context()
    given = [
        name
        for name in ("offline", *flags)
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    for asked in ("admin", "cluster") if given else ():
        if context.get_parameter_source(asked) is ParameterSource.COMMANDLINE:
            flag = f"--{given[0].replace('_', '-')}"
            raise click.UsageError(f"with {flag} no proxy is asked: leave out --{asked} or {flag}")
    return bool(given)


def objects_in_force(
    paths: Sequence[str], preset: Preset, *, with_suggested: bool
) -> tuple[FlowControlObject, ...]:
    """The objects of files beside those built in; CommandError if one has a problem."""
    read = decode_files(read_files(paths, streams=True))
    if read.problems:
        raise CommandError(*parts_of(read.problems))
    return effective_objects(read.objects, with_suggested=with_suggested, preset=preset)


def offline_controller(
    paths: Sequence[str],
    *,
    preset: str | None = None,
    suggested_objects: bool = True,
    server_concurrency_limit: int = DEFAULTS.server_concurrency_limit,
    limit_adjustment: str | None = None,
    hash_seed: int | None = None,
) -> Controller:
    """The controller that a proxy with these settings has at its start; raises as above."""
    kind = PRESETS[preset or KUBERNETES_API]
    objects = objects_in_force(paths, kind, with_suggested=suggested_objects)
    controller = Controller(
        VirtualClock(),
        server_concurrency_limit,
        hash_seed or EXAMPLE_SEED,
        is_prompt=(limit_adjustment or DEFAULTS.limit_adjustment) == PROMPT,
    )
    controller.commit(controller.digest(objects))
    return controller


def controller_of_flags(
    *,
    objects: Sequence[str],
    preset: str | None,
    **others: Any,  # noqa: ANN401 - of `offline_controller`
) -> Controller:
    """The controller of `objects_options`; objects that are not used are named on stderr."""
    controller = offline_controller(objects, preset=preset, **others)
    for name, level in controller.in_force.dangling.items():
        text = f'FlowSchema {name} is not used: there is no priority level "{level}"'
        click.echo(one_line(f"APF101: {text}"), err=True)
    if preset is None:
        built_in = PRESETS[KUBERNETES_API].objects()
        given = (each.object for each in controller.in_force.checked.values())
        for each in other_api(each for each in given if each not in built_in):
            text = f"{each.kind} {each.name}: {each.message}.  {each.found.advice}"
            click.echo(one_line(f"{each.found.id}: {text}"), err=True)
    return controller
