"""Connections without end to an admin listener: clients are served, health is answered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.served import ask, command, connections, started_upstream

if TYPE_CHECKING:
    from pathlib import Path

DESCRIPTORS = 256
PLACES = DESCRIPTORS // 8
MANY = 2 * DESCRIPTORS
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def metric(page: str, name: str) -> float:
    (found,) = re.findall(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    return float(found)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\n", "replaced", id="half-a-head"),
        pytest.param(4 * GET.replace(b"livez", b"metrics"), "replaced", id="readers"),
        pytest.param(GET.replace(b"livez", b"events"), "long-lived", id="events"),
    ],
)
def test_connections_without_end(tmp_path: Path, first: bytes, reason: str) -> None:
    ended = f'apfproxy_admin_connections_ended_total{{reason="{reason}"}}'
    settings = tmp_path / "settings.yaml"
    # Where the machine is busy with other things, that is no reason to refuse requests.
    settings.write_text("downstream: {overload: {loopDelay: null}}\n")
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--upstream", upstream, "--settings", str(settings)),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
            descriptors=DESCRIPTORS,
        ) as served,
    ):
        listens = served.line(r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)")
        port, admin_port = int(listens[1]), int(listens[2])
        with connections(admin_port, MANY, first):
            answers = [ask(port, "/healthz")[0] for _ in range(10)]
            health = [ask(admin_port, "/livez") for _ in range(10)]
            served.line("the admin listener, of at most")
            # The connections come in the order in which the kernel has them.
            while not metric(page := ask(admin_port, "/metrics")[1], ended):
                pass
        code, _ = served.end()

    assert [200] * 10 == answers
    assert [(200, "ok")] * 10 == health
    assert 1 <= metric(page, "apfproxy_admin_connections") <= PLACES
    assert metric(page, "process_open_fds") < DESCRIPTORS // 2
    assert 0 == code


def test_connections_without_end_to_the_api_server() -> None:
    with command("apiserver", "--listen", "127.0.0.1:0", descriptors=DESCRIPTORS) as served:
        port = int(served.line(r"the API on http://127\.0\.0\.1:(\d+)")[1])
        with connections(port, MANY):
            answers = [ask(port, "/api/v1/pods")[0] for _ in range(10)]
        code, _ = served.end()

    assert ([200] * 10, 0) == (answers, code)
