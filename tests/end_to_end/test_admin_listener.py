"""What is done to the admin listener is no matter for clients, nor for those who ask for health."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.served import ask, command, connections, started_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.served import Served

DESCRIPTORS = 256
PLACES = DESCRIPTORS // 8
MANY = 2 * DESCRIPTORS
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
LISTENS = r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)"


def ports_of(served: Served) -> tuple[int, int]:
    """Where it listens: for clients, for operators."""
    found = served.line(LISTENS)
    return int(found[1]), int(found[2])


def metric(page: str, name: str) -> float:
    """A value of a metrics page."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        pytest.param(b"", "replaced", id="nothing"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\n", "replaced", id="half-a-head"),
        pytest.param(GET, "replaced", id="idle"),
        pytest.param(POST, "replaced", id="bodies"),
        pytest.param(4 * GET.replace(b"livez", b"metrics"), "replaced", id="readers"),
        pytest.param(GET.replace(b"livez", b"events"), "long-lived", id="events"),
    ],
)
def test_connections_without_end(tmp_path: Path, first: bytes, reason: str) -> None:
    """Twice as many of them as there are descriptors: clients are served, health is answered."""
    ended = f'apfproxy_admin_connections_ended_total{{reason="{reason}"}}'
    settings = tmp_path / "settings.yaml"
    # Where the machine is busy with other things, that is no reason to refuse anybody.
    settings.write_text("downstream: {overload: {loopDelay: null}}\n")
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--upstream", upstream, "--settings", str(settings)),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
            descriptors=DESCRIPTORS,
        ) as served,
    ):
        port, admin_port = ports_of(served)
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
    """The API server has places of its own kind, and goes on as well."""
    with command("apiserver", "--listen", "127.0.0.1:0", descriptors=DESCRIPTORS) as served:
        port = int(served.line(r"the API on http://127\.0\.0\.1:(\d+)")[1])
        with connections(port, MANY):
            answers = [ask(port, "/api/v1/pods")[0] for _ in range(10)]
        code, _ = served.end()

    assert [200] * 10 == answers
    assert 0 == code
