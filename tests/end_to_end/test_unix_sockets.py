"""A proxy that listens on Unix sockets, and forwards to one."""

from __future__ import annotations

import json
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
    connection = UnixConnection(str(path))
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def asked(*arguments: str) -> object:
    result = CliRunner().invoke(cli, [*arguments, "-o", "json"])
    assert 0 == result.exit_code, result.output
    return json.loads(result.output)


def ended(served: Served) -> str:
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
