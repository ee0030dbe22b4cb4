"""Tests of what settings name, tried without a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.app.named_files import SQLITE, problems_of
from apfproxy.settings.file import parse_settings

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.settings import Settings

PARTS = {
    "tokens": "authentication: {tokenFile: tokens}",
    "objects": "flowControl: {objects: [objects]}",
    "store": "flowControl: {store: store}",
    "kubeconfig": "flowControl: {kubernetes: {enabled: true, kubeconfig: kubeconfig}}",
    "service": "upstream: {service: {name: api, kubeconfig: service}}",
    "admin-token": "adminTokenFile: admin-token",
    "password": "fleet: {store: redis://a, passwordFile: password}",
    "cas": "fleet: {store: rediss://a, caFile: cas}",
    "fleet-api": "fleet: {store: 'kubernetes:a/b', kubeconfig: fleet-api}",
    "log": "accessLog: {path: log}",
}


def settings_in(folder: Path, part: str) -> Settings:
    return parse_settings(PARTS[part].encode(), "f", folder)


@pytest.mark.parametrize("part", ["store", "log"])
async def test_files_that_are_made(tmp_path: Path, part: str) -> None:
    assert [] == await problems_of(settings_in(tmp_path, part))
    assert not (tmp_path / part).exists()
    (found,) = await problems_of(settings_in(tmp_path / "nowhere", part))
    assert (
        found.partition(": ")[2]
        == f"{tmp_path / 'nowhere' / part}: its directory does not exist; make it"
    )
    (tmp_path / part).mkdir()
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert found.partition(": ")[2] == f"{tmp_path / part}: is a directory; name a file"


@pytest.mark.parametrize("part", ["store", "log"])
async def test_files_of_others(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert (
        found.partition(": ")[2]
        == f"{tmp_path / part}: cannot be made in its directory by this user"
    )
    (tmp_path / part).touch()
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert found.partition(": ")[2] == f"{tmp_path / part}: cannot be written by this user"


@pytest.mark.parametrize(
    ("content", "problems"), [(b"", 0), (SQLITE + b"more", 0), (b"kind: FlowSchema", 1)]
)
async def test_store(tmp_path: Path, content: bytes, problems: int) -> None:
    """A file that is something else is no store."""
    (tmp_path / "store").write_bytes(content)

    found = await problems_of(settings_in(tmp_path, "store"))
    text = f"flowControl.store: {tmp_path / 'store'}: is no SQLite file; name another one"
    assert [text][:problems] == found
