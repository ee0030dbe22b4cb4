"""A proxy that listens on Unix sockets, and forwards to one."""

from __future__ import annotations

import http.client
import json
import socket
import stat
from typing import TYPE_CHECKING

from click.testing import CliRunner

from apfproxy.cli.admin_client import UnixConnection
from apfproxy.cli.commands import cli
from tests.end_to_end.served import command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.served import Served


def get(path: Path, target: str, **headers: str) -> tuple[int, bytes]:
    """GET over a Unix socket."""
    connection = UnixConnection(str(path))
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def asked(*arguments: str) -> object:
    """What a command says."""
    result = CliRunner().invoke(cli, [*arguments, "-o", "json"])
    assert 0 == result.exit_code, result.output
    return json.loads(result.output)


def ended(served: Served) -> str:
    """The rest of the log of a process that ends in order."""
    code, rest = served.end()
    assert 0 == code, rest
    return rest


def test_all_are_unix_sockets(tmp_path: Path) -> None:
    """Requests, pages and commands go through them; their files are gone in the end."""
    upstream, listen, admin = (tmp_path / name for name in ("upstream", "listen", "admin"))
    flags = ("--upstream", f"unix:{upstream}", "--listen", f"unix:{listen}")
    log = tmp_path / "log"
    with (
        command("apiserver", "--listen", f"unix:{upstream}") as apiserver,
        command(*("serve", *flags, "--admin", f"unix:{admin}", "--access-log", str(log))) as served,
    ):
        apiserver.line(f"serves the API on unix:{upstream};")
        served.line(
            f"listens on unix:{listen}, forwards to unix:{upstream}, admin on unix:{admin};"
        )
        status, body = get(listen, "/api/v1/namespaces")
        ready, _ = get(admin, "/readyz")
        mode = stat.S_IMODE(listen.stat().st_mode)
        # No web page can reach a Unix socket, whatever it calls it.
        page, _ = get(admin, "/debug/live", Host="rebound.example.org")
        explained = asked("explain", "list", "pods", "--admin", f"unix:{admin}")
        limits = asked("limits", "--admin", f"unix:{admin}")
        top = asked("top", "--once", "--admin", f"unix:{admin}")
        ended(served)
        ended(apiserver)

    assert (200, 200, 200) == (status, ready, page)
    assert "NamespaceList" == json.loads(body)["kind"]
    assert 0o660 == mode
    assert all((explained, limits, top))
    assert "unix:" == json.loads(log.read_text())["client"]
    assert [log] == list(tmp_path.iterdir())


def test_a_store_is_for_this_machine_alone(tmp_path: Path) -> None:
    """Whoever may connect to the admin listener's socket may write."""
    admin = tmp_path / "admin"
    body = json.dumps(
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": "a"},
            "spec": {"matchingPrecedence": 9, "priorityLevelConfiguration": {"name": "exempt"}},
        }
    )
    flags = ("--upstream", "unix:/nowhere", "--listen", "127.0.0.1:0")
    with command(
        *("serve", *flags, "--admin", f"unix:{admin}", "--store", str(tmp_path / "store"))
    ) as served:
        served.line(f"curl --unix-socket {admin} http://localhost/apis")
        connection = UnixConnection(str(admin))
        connection.request(
            *("POST", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", body),
            headers={"Content-Type": "application/json"},
        )
        status = connection.getresponse().status
        connection.close()
        ended(served)

    assert http.client.CREATED == status


def test_an_address_that_is_used(tmp_path: Path) -> None:
    """One that a process listens on is refused with a line; what a dead one left is replaced."""
    listen = tmp_path / "listen"
    arguments = ("serve", "--upstream", "unix:/nowhere", "--listen", f"unix:{listen}")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(listen))
        other.listen()
        with command(*arguments, "--admin", "none") as refused:
            code, rest = refused.rest()
    with command(*arguments, "--admin", "none") as served:
        served.line("listens on unix:")
        status, _ = get(listen, "/")
        ended(served)

    assert 1 == code
    assert (
        f"apfproxy: cannot listen on unix:{listen}: a running process listens there;"
        " stop that one, or choose another address with --listen\n"
    ) == rest
    assert http.client.BAD_GATEWAY == status
