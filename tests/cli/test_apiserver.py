from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.controllers.control import CONTROLLERS
from apfproxy.apiserver.gate import Fault, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.app import running
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.cli import apiserver as apiserver_module
from apfproxy.cli.apiserver import run
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main
from apfproxy.settings import Address
from tests.app.test_process import ANY_PORT

if TYPE_CHECKING:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--listen 80", "expected HOST:PORT, or :80 for all addresses"),
        ("--controllers evil", "there is no controller 'evil'"),
        ("--latency 5", "write 5s for seconds"),
        ("--fault x=1%", "expected one of 500=SHARE"),
        ("--seed-objects x", "expected some of slices=N"),
        ("--capacity 0", "expected a whole number from 1 to"),
        ("--watch-window 0", "expected a whole number from 1 to"),
        ("--store /", "is a directory"),
        ("more", "Got unexpected extra argument"),
    ],
)
def test_wrong_flags(
    arguments: str,
    message: str,
    served: list[ApiServerSettings],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["apiserver", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert 1 == error.count("\n")
    assert not served


async def test_port_in_use() -> None:
    """A port in use ends the command with a line that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(CommandError, match="stop what listens there, or choose another"):
            await run(ApiServerSettings(listen=address))


async def test_signal() -> None:
    """A signal ends it in order."""
    started: list[ApiServerProcess] = []

    def on_started(process: ApiServerProcess) -> None:
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)

    assert 0 == await run(
        ApiServerSettings(listen=ANY_PORT, seeds=SeedCounts(slices=1)), on_started
    )
    assert "the process is shutting down" == started[0].health.problem("shutdown")
