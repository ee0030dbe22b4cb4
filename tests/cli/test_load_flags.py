"""The texts of flags for load tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.gate import EVERY_VERB, Fault, Latency, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.cli.apiserver import parse_faults, parse_latencies, parse_latency, parse_seeds

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5ms", Latency(Shape.FIXED, 0.005)),
        ("0", Latency(Shape.FIXED, 0)),
        ("20ms-50ms", Latency(Shape.UNIFORM, 0.02, 0.05)),
        ("exp(10ms)", Latency(Shape.EXPONENTIAL, 0.01)),
        ("normal(10ms, 2ms)", Latency(Shape.NORMAL, 0.01, 0.002)),
        ("lognormal(10ms,0.5)", Latency(Shape.LOGNORMAL, 0.01, 0.5)),
    ],
)
def test_latency(text: str, expected: Latency) -> None:
    """Each distribution has a form of its own."""
    assert expected == parse_latency(text)


def test_latencies() -> None:
    """Latencies are for the verb that they name, or for all others."""
    fixed = Latency(Shape.FIXED, 0.005)

    assert {"get": fixed, EVERY_VERB: fixed} == parse_latencies(["get=5ms", "5ms"])
    assert {EVERY_VERB: fixed} == parse_latencies(["*=5ms"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["500=1%"], {Fault.ERROR: 0.01}),
        (["reset=0.001", "stall=50%"], {Fault.RESET: 0.001, Fault.STALL: 0.5}),
        (["500=100%, stall=0"], {Fault.ERROR: 1.0, Fault.STALL: 0.0}),
    ],
)
def test_faults(texts: list[str], expected: dict[Fault, float]) -> None:
    """Shares are percentages or numbers."""
    assert expected == parse_faults(texts)


def test_seeds() -> None:
    """What is not named is not made."""
    assert SeedCounts(slices=20000, budgets=2) == parse_seeds("slices=20000, budgets=2")


BAD: dict[Callable[..., object], list[tuple[str, str]]] = {
    parse_latencies: [
        ("evil=5ms", r"expected a verb, \* or one of get, .*, not 'evil'"),
        ("5", "expected a latency such as 5ms, .*, not '5'; write 5s for seconds"),
        ("exp(5)", r"not 'exp\(5\)'; write 5s for seconds"),
        ("get=", "expected a latency such as"),
        ("5ms-1ms", "expected the shorter time first"),
        ("exp(1ms,2ms)", "expected a latency such as"),
        ("pareto(1ms)", "expected a latency such as"),
        ("lognormal(1ms,2ms)", "expected a latency such as"),
        ("lognormal(1ms,11)", "expected a latency such as"),
        ("11m", "expected at most 600 s, not '11m'"),
        ("5ms *=6ms", r"\* is given twice"),
    ],
    parse_faults: [
        ("404=1%", "expected one of 500=SHARE, reset=SHARE, stall=SHARE"),
        ("500", "expected a share from 0% to 100%"),
        ("500=1", "write 500=1%, or 100%"),
        ("500=x", "expected a share from 0% to 100%"),
        ("500=101%", "expected a share from 0% to 100%"),
        ("500=1% 500=2%", "500 is given twice"),
        ("500=60%,reset=50%", r"the shares add up to 110.0%"),
    ],
    parse_seeds: [
        ("", "expected some of slices=N, pods=N, budgets=N"),
        ("nodes=3", "expected some of slices=N"),
        ("pods", "expected a number from 0 to 200000"),
        ("pods=-1", "expected a number from 0 to 200000"),
        ("budgets=20001", "expected a number from 0 to 20000"),
        ("pods=1,pods=1", "pods is given twice"),
    ],
}


@pytest.mark.parametrize(
    ("parse", "text", "message"), [(parse, *case) for parse, cases in BAD.items() for case in cases]
)
def test_bad(parse: Callable[..., object], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text if parse is parse_seeds else text.split())
