"""`apfproxy odds`: how likely a flow shares all its queues with flows that fill theirs."""

from __future__ import annotations

import json
import re

import click

from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import Number, Parsed, WholeNumber, aligned, output_option
from apfproxy.flowcontrol.odds import (
    MAX_ELEPHANTS,
    OddsError,
    check_sizes,
    squished,
)
from apfproxy.flowcontrol.odds import suggest as suggestion
from apfproxy.objects.field_errors import counted
from apfproxy.objects.validation import MOST_ENTROPY_BITS, MOST_QUEUES

QUEUES, HAND_SIZE, ELEPHANTS = (64, 8, (1, 4, 16))
"""As in the table of Kubernetes' documentation."""
MOST_NUMBERS = 32
NUMBER = re.compile("0*[1-9][0-9]{0,8}")

NEARLY_CERTAIN = 0.95
LARGE_NUMBERS = {15: "quadrillion", 12: "trillion", 9: "billion", 6: "million"}
"""By their power of ten."""

EPILOG = f"""\b
Examples:
  apfproxy odds --queues 64 --hand-size 8
  apfproxy odds --queues 128 --hand-size 6 --elephants 1,2,4,8
  apfproxy odds --suggest --bound 0.001 --elephants 16

{EXIT_CODES}"""


def parse_elephants(text: str) -> tuple[int, ...]:
    items = [item.strip() for item in text.split(",")]
    if len(items) > MOST_NUMBERS:
        raise ValueError(f"expected at most {MOST_NUMBERS} numbers, not {len(items)}")
    if not all(NUMBER.fullmatch(item) and int(item) <= MAX_ELEPHANTS for item in items):
        raise ValueError(f"expected numbers from 1 to {MAX_ELEPHANTS} such as 1,4,16, not {text!r}")
    return tuple(dict.fromkeys(map(int, items)))


SIZE = WholeNumber(1, MOST_QUEUES)


@click.command(epilog=EPILOG)
@click.option("--queues", type=SIZE, metavar="N", help=f"Queues of the level. [default: {QUEUES}]")
@click.option(
    "--hand-size", type=SIZE, metavar="N", help=f"Queues of one flow. [default: {HAND_SIZE}]"
)
@click.option(
    "--elephants",
    type=Parsed("numbers", parse_elephants),
    metavar="K,K,...",
    default=ELEPHANTS,
    help="Flows that fill all queues of their hands. [default: 1,4,16]",
)
@click.option(
    "--suggest",
    is_flag=True,
    help="Find the fewest queues, then the smallest hand, with odds at or below --bound.",
)
@click.option(
    "--bound",
    type=Number(0, 1, min_open=True, max_open=True),
    metavar="P",
    help="The highest odds, with the most --elephants.",
)
@output_option
def odds(
    *,
    queues: int | None,
    hand_size: int | None,
    elephants: tuple[int, ...],
    suggest: bool,
    bound: float | None,
    output: str,
) -> int:
    """Compute the odds that large flows crowd out a small one.

    Each flow of a priority level is dealt a hand of its queues.  A flow is squished if each queue
    of its hand is in the hand of one of the elephants, which fill theirs: then it has to wait
    behind them.  The numbers are exact, those of the table in Kubernetes' documentation.

    A suggestion keeps to what Kubernetes accepts: hands that take at most 60 bits of a hash.
    """
    if suggest:
        if queues is not None or hand_size is not None:
            raise click.UsageError("--suggest finds the queues and the hand; leave theirs out")
        if bound is None:
            raise click.UsageError("--suggest needs --bound, such as --bound 0.001")
        found = suggestion(bound, max(elephants))
        if found is None:
            raise CommandError(
                f"no level keeps the odds at or below {bound:g} with {max(elephants)} elephants;"
                f" it has at most {MOST_QUEUES} queues, and hands of {MOST_ENTROPY_BITS} bits of a"
                " hash"
            )
        queues, hand_size = found.queues, found.hand_size
    elif bound is not None:
        raise click.UsageError("--bound goes with --suggest")
    queues = queues or QUEUES
    hand_size = hand_size or HAND_SIZE
    try:
        check_sizes(queues, hand_size)
    except OddsError as error:
        raise click.UsageError(str(error)) from error
    chances = {count: squished(queues, hand_size, count) for count in elephants}
    if output == "json":
        squished_by = [{"elephants": count, "probability": each} for count, each in chances.items()]
        report = {"queues": queues, "handSize": hand_size, "squished": squished_by}
        click.echo(json.dumps(report, indent=2))
        return OK
    rows = [[str(count), one_in(chance), repr(chance)] for count, chance in chances.items()]
    header = ["ELEPHANTS", "A SMALL FLOW IS SQUISHED", "PROBABILITY"]
    click.echo(f"{counted(queues, 'queue')}, hands of {hand_size}\n")
    click.echo("\n".join(aligned(header, rows, frozenset({0}))))
    return OK


def one_in(chance: float) -> str:
    """A probability as people say it, such as `1 in 4.4 billion`."""
    if not chance:
        return "never"
    times = 1 / chance
    if chance > NEARLY_CERTAIN:
        return "always" if chance == 1 else "nearly always"
    for power, name in LARGE_NUMBERS.items():
        if times >= 10**power:
            return f"1 in {times / 10**power:.1f} {name}"
    return f"1 in {times:,.0f}" if times >= 10 else f"1 in {times:.1f}"  # noqa: PLR2004 - digits
