"""`apfproxy odds`: how likely a flow shares all its queues with flows that fill theirs."""

from __future__ import annotations

import json

import click

from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import Parsed, output_option
from apfproxy.cli.terminal_text import aligned
from apfproxy.flowcontrol.dealer import MAX_HASH_BITS
from apfproxy.flowcontrol.odds import (
    MAX_ELEPHANTS,
    MAX_QUEUES,
    OddsError,
    check_sizes,
    squished,
    suggest,
)
from apfproxy.objects.field_errors import counted

DEFAULT_ELEPHANTS = (1, 4, 16)
"""As in the table of Kubernetes' documentation."""
DEFAULT_QUEUES = 64
DEFAULT_HAND_SIZE = 8
MOST_NUMBERS = 32
MAX_DIGITS = 9

LEAST_WHOLE = 10
"""From so many on, a fraction says nothing."""
NEARLY_CERTAIN = 0.95
LARGE_NUMBERS = (
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
)

EPILOG = f"""\b
Examples:
  apfproxy odds --queues 64 --hand-size 8
  apfproxy odds --queues 128 --hand-size 6 --elephants 1,2,4,8
  apfproxy odds --suggest --bound 0.001 --elephants 16

{EXIT_CODES}"""


def parse_elephants(text: str) -> tuple[int, ...]:
    """Read numbers of elephants, separated by commas."""
    items = [item.strip() for item in text.split(",")]
    if len(items) > MOST_NUMBERS:
        raise ValueError(f"expected at most {MOST_NUMBERS} numbers, not {len(items)}")
    found = []
    for item in items:
        is_number = item.isascii() and item.isdigit() and len(item) <= MAX_DIGITS
        if not is_number or not 1 <= int(item) <= MAX_ELEPHANTS:
            raise ValueError(
                f"expected numbers from 1 to {MAX_ELEPHANTS} such as 1,4,16, not {text!r}"
            )
        found.append(int(item))
    return tuple(dict.fromkeys(found))


def parse_bound(text: str) -> float:
    """Read a probability between 0 and 1."""
    try:
        bound = float(text)
    except ValueError:
        bound = 0.0
    if not 0 < bound < 1:
        raise ValueError(f"expected a probability between 0 and 1, such as 0.001, not {text!r}")
    return bound


@click.command(epilog=EPILOG)
@click.option(
    "--queues",
    type=click.IntRange(1, MAX_QUEUES),
    metavar="N",
    help=f"Queues of the priority level. [default: {DEFAULT_QUEUES}]",
)
@click.option(
    "--hand-size",
    type=click.IntRange(1, MAX_QUEUES),
    metavar="N",
    help=f"Queues that one flow may use. [default: {DEFAULT_HAND_SIZE}]",
)
@click.option(
    "--elephants",
    type=Parsed("numbers", parse_elephants),
    metavar="K,K,...",
    help="Flows that fill all queues of their hands. "
    f"[default: {','.join(map(str, DEFAULT_ELEPHANTS))}]",
)
@click.option(
    "--suggest",
    "is_suggesting",
    is_flag=True,
    help="Find the fewest queues, then the smallest hand, with odds at or below --bound.",
)
@click.option(
    "--bound",
    type=Parsed("probability", parse_bound),
    metavar="P",
    help="The highest odds, such as 0.001, with the largest number of --elephants.",
)
@output_option
def odds(
    *,
    queues: int | None,
    hand_size: int | None,
    elephants: tuple[int, ...] | None,
    is_suggesting: bool,
    bound: float | None,
    output: str,
) -> int:
    """Compute the odds that large flows crowd out a small one.

    Each flow of a priority level is dealt a hand of its queues.  A flow is squished if each queue
    of its hand is in the hand of one of the elephants, which fill theirs: then it has to wait
    behind them.  The numbers are exact, those of the table in Kubernetes' documentation.

    A suggestion keeps to what Kubernetes accepts: hands that take at most 60 bits of a hash.
    """
    elephants = elephants or DEFAULT_ELEPHANTS
    if is_suggesting:
        if queues is not None or hand_size is not None:
            raise click.UsageError("--suggest finds the queues and the hand; leave theirs out")
        if bound is None:
            raise click.UsageError("--suggest needs --bound, such as --bound 0.001")
        found = suggest(bound, max(elephants))
        if found is None:
            raise CommandError(
                f"no level keeps the odds at or below {bound:g} with {max(elephants)} elephants;"
                f" it has at most {MAX_QUEUES} queues, and hands of {MAX_HASH_BITS} bits of a hash"
            )
        queues, hand_size = found.queues, found.hand_size
    elif bound is not None:
        raise click.UsageError("--bound goes with --suggest")
    queues = queues or DEFAULT_QUEUES
    hand_size = hand_size or DEFAULT_HAND_SIZE
    try:
        check_sizes(queues, hand_size)
    except OddsError as error:
        raise click.UsageError(str(error)) from error
    chances = [(count, squished(queues, hand_size, count)) for count in elephants]
    if output == "json":
        report = {
            "queues": queues,
            "handSize": hand_size,
            "squished": [{"elephants": count, "probability": chance} for count, chance in chances],
        }
        click.echo(json.dumps(report, indent=2))
        return OK
    click.echo(f"{counted(queues, 'queue')}, hands of {hand_size}\n")
    header = ["ELEPHANTS", "A SMALL FLOW IS SQUISHED", "PROBABILITY"]
    rows = [[str(count), one_in(chance), repr(chance)] for count, chance in chances]
    for line in aligned(header, rows, frozenset({0})):
        click.echo(line)
    return OK


def one_in(chance: float) -> str:
    """A probability as people say it, such as `1 in 4.4 billion`."""
    if not chance:
        return "never"
    times = 1 / chance
    if chance > NEARLY_CERTAIN:
        return "always" if chance == 1 else "nearly always"
    if times < LEAST_WHOLE:
        return f"1 in {times:.1f}"
    for one, name in LARGE_NUMBERS:
        if times >= one:
            return f"1 in {times / one:.1f} {name}"
    return f"1 in {times:,.0f}"
