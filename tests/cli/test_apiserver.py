"""The flags of `apfproxy apiserver`, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.controllers.control import CONTROLLERS
from apfproxy.apiserver.gate import EVERY_VERB, Fault, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.app import running
from apfproxy.app.apiserver_process import ApiServerSettings
from apfproxy.cli import apiserver as apiserver_module
from apfproxy.cli.apiserver import (
    parse_external_address,
    parse_faults,
    parse_latencies,
    parse_latency,
    parse_seeds,
    run,
)
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main
from apfproxy.settings import Address
from tests.support.processes import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ApiServerSettings]:
    seen: list[ApiServerSettings] = []

    async def run_nothing(settings: ApiServerSettings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(apiserver_module, "run", run_nothing)
    monkeypatch.setattr(apiserver_module, "configure_logging", lambda *_: None)
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    return seen


def test_flags(served: list[ApiServerSettings], tmp_path: Path) -> None:
    code = main(
        f"apiserver --listen 0.0.0.0:80 --store {tmp_path}/a.db --watch-window 7"
        " --controllers=*,-disruption --external-address a:1 --latency get=5ms --capacity 20"
        " --fault 500=1% --seed-objects slices=3,pods=2,budgets=1 --random-seed 4"
        " --log-level debug".split()
    )

    assert code == 0
    assert served == [
        ApiServerSettings(
            listen=Address(host="0.0.0.0", port=80),  # noqa: S104 - nothing listens
            store=f"{tmp_path}/a.db",
            watch_window=7,
            controllers=frozenset(CONTROLLERS) - {"disruption"},
            external_address="a:1",
            load=LoadSettings(
                latency={"get": Latency(Shape.FIXED, 0.005)},
                capacity=20,
                faults={Fault.ERROR: 0.01},
            ),
            seeds=SeedCounts(slices=3, pods=2, budgets=1),
            random_seed=4,
            log_level="debug",
        )
    ]


FIXED = Latency(Shape.FIXED, 0.005)
GOOD: list[tuple[Callable[[Any], object], str, object]] = [
    (parse_latency, "5ms", FIXED),
    (parse_latency, "0", Latency(Shape.FIXED, 0)),
    (parse_latency, "20ms-50ms", Latency(Shape.UNIFORM, 0.02, 0.05)),
    (parse_latency, "exp(10ms)", Latency(Shape.EXPONENTIAL, 0.01)),
    (parse_latency, "normal(10ms, 2ms)", Latency(Shape.NORMAL, 0.01, 0.002)),
    (parse_latency, "lognormal(10ms,0.5)", Latency(Shape.LOGNORMAL, 0.01, 0.5)),
    (parse_latencies, "get=5ms 5ms", {"get": FIXED, EVERY_VERB: FIXED}),
    (parse_latencies, "*=5ms", {EVERY_VERB: FIXED}),
    (parse_faults, "", {}),
    (parse_faults, "reset=0.001 stall=50%", {Fault.RESET: 0.001, Fault.STALL: 0.5}),
    (parse_faults, "500=100%,stall=0", {Fault.ERROR: 1.0, Fault.STALL: 0.0}),
    (parse_seeds, "slices=20000, budgets=2", SeedCounts(slices=20000, budgets=2)),
]


def words(parse: Callable[..., object], text: str) -> object:
    return text.split() if parse in (parse_latencies, parse_faults) else text


@pytest.mark.parametrize(("parse", "text", "expected"), GOOD)
def test_good_texts(parse: Callable[[Any], object], text: str, expected: object) -> None:
    assert expected == parse(words(parse, text))


async def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(CommandError, match="stop what listens there, or choose another"):
            await run(ApiServerSettings(listen=address))


async def test_signal() -> None:
    settings = ApiServerSettings(listen=ANY_PORT, seeds=SeedCounts(slices=1))
    assert 0 == await run(settings, lambda _: os.kill(os.getpid(), signal.SIGTERM))


BAD: dict[Callable[..., object], list[tuple[str, str]]] = {
    parse_latencies: [
        ("evil=5ms", r"expected a verb, \* or one of get, .*, not 'evil'"),
        ("5", "expected a latency such as 5ms, .*, not '5'; write 5ms, or 5s for seconds"),
        ("exp(5)", r"not 'exp\(5\)'; write 5ms, or 5s for seconds"),
        ("get=", "expected a latency such as"),
        ("5ms-1ms", "expected the shorter time first"),
        ("exp(1ms,2ms)", "expected a latency such as"),
        ("pareto(1ms)", "expected a latency such as"),
        ("lognormal(1ms,2ms)", "expected a latency such as"),
        ("lognormal(1ms,11)", "expected a latency such as"),
        ("11m", "expected at most 600 s, not '11m'"),
        ("5ms *=6ms", "the latency of all verbs is given twice"),
    ],
    parse_external_address: [
        ("a", "expected HOST:PORT"),
        ("a:0", "expected a host and a port that clients can connect to, not 'a:0'"),
        ("unix:/a", "expected a host and a port that clients can connect to"),
    ],
    parse_faults: [
        ("404=1%", "expected one of 500=SHARE, reset=SHARE, stall=SHARE"),
        ("500", "expected one of 500=SHARE, .*, not '500'"),
        ("500=1", "write 500=1%, or 100%"),
        ("500=x", "expected a share from 0% to 100%"),
        ("500=101%", "expected a share from 0% to 100%"),
        ("500=1% 500=2%", "500 is given twice"),
        ("500=60%,reset=50%", r"the shares add up to 110.0%"),
    ],
    parse_seeds: [
        ("", "expected some of slices=N, pods=N, budgets=N"),
        ("nodes=3", "expected some of slices=N"),
        ("pods", "expected some of slices=N, .*, not 'pods'"),
        ("pods=-1", "expected a number from 0 to 200000"),
        ("budgets=20001", "expected a number from 0 to 20000"),
        ("pods=1,pods=1", "pods is given twice"),
    ],
}


@pytest.mark.parametrize(
    ("parse", "text", "message"), [(parse, *case) for parse, cases in BAD.items() for case in cases]
)
def test_bad_texts(parse: Callable[..., object], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(words(parse, text))
