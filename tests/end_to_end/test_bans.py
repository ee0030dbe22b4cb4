"""A client is stopped and let go by the commands, with processes that serve the objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.cli.main import main
from tests.end_to_end.served import ask, command, started_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

STARTED = r"listens on 127\.0\.0\.1:(\d+), .*admin on 127\.0\.0\.1:(\d+)"
GREEDY, MODEST = "X-API-Key: greedy\r\n", "X-API-Key: modest\r\n"


@pytest.mark.parametrize("flags", [[], ["--workers", "2"]], ids=["process", "workers"])
def test_ban(tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    listen = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    of_objects = ("--objects", str(tmp_path))
    with (
        started_upstream() as upstream,
        command(
            "serve", "--preset", "http", "--upstream", upstream, *listen, *of_objects, *flags
        ) as served,
    ):
        port, admin = (int(each) for each in served.line(STARTED).groups())

        def until(status: int) -> None:
            while status != ask(port, "/", head=GREEDY)[0]:
                assert 200 == ask(port, "/", head=MODEST)[0]

        def state() -> dict[str, Any]:
            ask(port, "/", head=GREEDY)
            found: dict[str, Any] = json.loads(ask(admin, "/debug/live")[1])
            return found

        def until_headline(start: str) -> None:
            while not state()["verdict"][0]["text"].startswith(start):
                assert 200 == ask(port, "/", head=MODEST)[0]

        until(200)
        while not (flows := state()["topFlows"]):
            pass
        user = flows[0]["flow"]
        assert ("user", True) == (flows[0]["kind"], user.startswith("key:"))
        assert [f"apfproxy ban --for 10m --objects {tmp_path} ", ""] == state()["banCommand"]

        assert 0 == main(["ban", user, *of_objects])
        until(403)
        until_headline(f"user {user} is banned: ")
        assert 0 == main(["ban", user, "--for", "1s", *of_objects])
        served.line(f"FlowSchema ban-{user.replace(':', '.')} has ended")
        until(200)
        assert "403" not in state()["proxy"]["refusedPerSecond"]
        assert 0 == main(["ban", user, "--rate", "0.001", *of_objects])
        until(429)
        until_headline(f"user {user} is limited (rate): ")
        assert 0 == main(["unban", user, *of_objects])
        until(200)
        assert [] == list(tmp_path.iterdir())
    assert f"{user} is free again" in capsys.readouterr().err
