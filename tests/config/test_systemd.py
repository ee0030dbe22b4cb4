"""The units for systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apfproxy.base.listeners import ADMIN, LISTEN

UNITS = Path(__file__).parents[2] / "config" / "systemd"
SERVICE = "apfproxy.service"
SOCKETS = {"apfproxy.socket": LISTEN, "apfproxy-admin.socket": ADMIN}
LINE = re.compile(r"(?:#.*|\[(?:Unit|Service|Socket|Install)\]|[A-Z][A-Za-z]+=.*|)")


def settings(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        assert LINE.fullmatch(line), line
        if not line.startswith("#") and "=" in line:
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_sockets() -> None:
    """Each has the name that tells what it is for, and the service gets all of them."""
    service = settings(SERVICE)
    for name, flag in SOCKETS.items():
        unit = settings(name)
        assert [flag] == unit["FileDescriptorName"]
        assert "Accept" not in unit
        assert [SERVICE] == unit.get("Service", [f"{Path(name).stem}.service"])
    assert [" ".join(SOCKETS)] == service["Sockets"] == service["Requires"]
    assert {*SOCKETS, SERVICE} == {path.name for path in UNITS.iterdir()}


def test_systemd_accepts_them(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    for path in UNITS.iterdir():
        text = path.read_text().replace("/opt/apfproxy/bin/apfproxy", sys.executable)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(  # noqa: S603 - a program of the system
        [program, "verify", "--man=no", *map(str, tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
