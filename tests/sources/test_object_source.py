"""The command that bans a user where a proxy has its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.settings import Address, FlowControlSettings, KubernetesSettings, Settings
from apfproxy.sources.object_source import ban_command

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = " # put what it prints where this proxy has its objects"


@pytest.mark.parametrize(
    ("where", "flags", "after"),
    [
        pytest.param({}, "", ELSEWHERE, id="built-in"),
        pytest.param({"objects": ("a.yaml",)}, "", ELSEWHERE, id="file"),
        pytest.param({"objects": ("a.yaml", "b c")}, "--objects '{here}/b c' ", "", id="directory"),
        pytest.param(
            {"store": "x.db"},
            "",
            " | kubectl --server http://127.0.0.1:8081 apply -f -",
            id="store",
        ),
        pytest.param(
            {"kubernetes": KubernetesSettings(is_enabled=True)}, "--kubectl ", "", id="kubernetes"
        ),
    ],
)
def test_ban_command(
    where: dict[str, Any],
    flags: str,
    after: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b c").mkdir()
    settings = Settings(
        admin=Address(host="0.0.0.0", port=8081),  # noqa: S104 - it is not opened
        flow_control=FlowControlSettings(**where),
    )

    assert (f"apfproxy ban --for 10m {flags.format(here=tmp_path)}", after) == ban_command(settings)
