"""The texts of the flags that make the API server a target for load tests.

    --latency [VERB=]TIME       5ms  20ms-50ms  exp(10ms)  normal(10ms,2ms)  lognormal(10ms,0.5)
    --fault KIND=SHARE          500=1%  reset=0.1%  stall=0.001
    --seed-objects KIND=N,...   slices=20000,pods=500,budgets=20

Each function raises ValueError with what it expected instead.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from apfproxy.apiserver.load import EVERY_VERB, LONGEST_S, VERBS, Fault, Latency, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.simulation.mix import parse_times

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

EXAMPLES = "5ms, 20ms-50ms, exp(10ms), normal(10ms,2ms) or lognormal(10ms,0.5)"
BARE = re.compile(r"(?:\w+\()?([0-9.]{1,9})(?:[,)-]|$)")
"""A latency that begins with a number without a unit."""
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
SEEDS = {"slices": 200_000, "pods": 200_000, "budgets": 20_000}
"""Objects that can be seeded, and how many at most: they are all in memory."""


def parse_latencies(texts: Iterable[str]) -> dict[str, Latency]:
    """Read all latencies; one without a verb is for all verbs that are not named."""
    found: dict[str, Latency] = {}
    for text in texts:
        verb, equals, latency = text.partition("=")
        if not equals:
            verb, latency = EVERY_VERB, text
        if verb != EVERY_VERB and verb not in VERBS:
            raise ValueError(
                f"expected a verb, {EVERY_VERB} or one of {', '.join(VERBS)}, not {verb!r}"
            )
        if verb in found:
            raise ValueError(f"{verb} is given twice; keep one")
        found[verb] = parse_latency(latency)
    return found


def parse_latency(text: str) -> Latency:
    """Read a duration or a distribution of them, as in the mixes of `simulate`."""
    try:
        times = parse_times(text)
    except ValueError as error:
        if "shorter" in str(error):
            raise
        bare = BARE.match(text)
        hint = f"; write {bare[1]}s for seconds" if bare else ""
        raise ValueError(f"expected a latency such as {EXAMPLES}, not {text!r}{hint}") from None
    shape = Shape(times.shape)
    first, second = times.first_ns / 1e9, times.second
    if shape is not Shape.LOGNORMAL:
        second /= 1e9
    if max(first, second) > LONGEST_S:
        raise ValueError(f"expected at most {LONGEST_S:g} s, not {text!r}")
    return Latency(shape, first, second)


def pairs_of(texts: Iterable[str], known: Collection[str], expected: str) -> dict[str, str]:
    """Read NAME=VALUE,... with known names; `expected` says which, if another one is given."""
    found: dict[str, str] = {}
    for item in (each.strip() for text in texts for each in text.split(",")):
        name, _, value = item.partition("=")
        if name not in known:
            raise ValueError(f"expected {expected}, not {item!r}")
        if name in found:
            raise ValueError(f"{name} is given twice; keep one")
        found[name] = value
    return found


def parse_faults(texts: Iterable[str]) -> dict[Fault, float]:
    """Read the shares of requests that fail."""
    known = ", ".join(f"{fault.value}=SHARE" for fault in Fault)
    names = [fault.value for fault in Fault]
    pairs = pairs_of(texts, names, f"one of {known}, with a share such as 1%")
    found = {Fault(name): parse_share(share, f"{name}={share}") for name, share in pairs.items()}
    if sum(found.values()) > 1 and not math.isclose(sum(found.values()), 1):
        raise ValueError(f"the shares add up to {sum(found.values()):.1%}, more than all requests")
    return found


def parse_share(text: str, whole: str) -> float:
    """Read a share, 0 to 1, as a percentage or a number."""
    number = text.removesuffix("%")
    if NUMBER.fullmatch(number) is not None:
        if number == text and float(text) >= 1:
            raise ValueError(f"{whole!r} may mean a percentage or all: write {whole}%, or 100%")
        share = float(number) / (100 if text.endswith("%") else 1)
        if share <= 1:
            return share
    raise ValueError(f"expected a share from 0% to 100%, such as 0.1%, not {whole!r}")


def parse_seeds(text: str) -> SeedCounts:
    """Read how many objects there are to be."""
    known = ", ".join(f"{name}=N" for name in SEEDS)
    pairs = pairs_of([text], SEEDS, f"some of {known}, such as slices=20000")
    for name, count in pairs.items():
        if re.fullmatch(r"[0-9]{1,9}", count) is None or int(count) > SEEDS[name]:
            given = f"{name}={count}"
            raise ValueError(f"expected a number from 0 to {SEEDS[name]}, not {given!r}")
    return SeedCounts(**{name: int(count) for name, count in pairs.items()})
