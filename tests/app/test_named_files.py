"""What settings name, tried without a proxy."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.named_files import SQLITE, problems_of
from apfproxy.settings import (
    AccessLogSettings,
    FleetSettings,
    Settings,
    TracingSettings,
)
from apfproxy.settings.file import parse_settings

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = parse_settings(b"upstream: {url: http://a}", "f")
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
    """Settings that name something in a folder."""
    return parse_settings(PARTS[part].encode(), "f", folder)


@pytest.mark.parametrize("part", [each for each in PARTS if each not in {"store", "log"}])
async def test_missing(tmp_path: Path, part: str) -> None:
    """What has to be there and is not is a problem."""
    (found,) = await problems_of(settings_in(tmp_path, part))

    assert re.search(rf"/{part}:? cannot be read: No such file or directory$", found)


@pytest.mark.parametrize("part", ["store", "log"])
async def test_files_that_are_made(tmp_path: Path, part: str) -> None:
    """They need not be there, and are not made; their directory has to be."""
    assert [] == await problems_of(settings_in(tmp_path, part))
    assert not (tmp_path / part).exists()
    (found,) = await problems_of(settings_in(tmp_path / "nowhere", part))
    assert found == f"{tmp_path / 'nowhere' / part}: its directory does not exist; make it"
    (tmp_path / part).mkdir()
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert found == f"{tmp_path / part}: is a directory; name a file"


@pytest.mark.parametrize("part", ["store", "log"])
async def test_files_of_others(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever checks has to be whom the proxy runs as."""
    monkeypatch.setattr("os.access", lambda *_: False)
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert found == f"{tmp_path / part}: cannot be made in its directory by this user"
    (tmp_path / part).touch()
    (found,) = await problems_of(settings_in(tmp_path, part))
    assert found == f"{tmp_path / part}: cannot be written by this user"


@pytest.mark.parametrize(
    ("content", "problems"), [(b"", 0), (SQLITE + b"more", 0), (b"kind: FlowSchema", 1)]
)
async def test_store(tmp_path: Path, content: bytes, problems: int) -> None:
    """A file that is something else is no store."""
    (tmp_path / "store").write_bytes(content)

    found = await problems_of(settings_in(tmp_path, "store"))
    assert [f"{tmp_path / 'store'}: is no SQLite file; name another one"][:problems] == found


async def test_tracing_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to be installed is not."""
    settings = replace(PLAIN, tracing=TracingSettings(endpoint="http://127.0.0.1:9"))
    assert [] == await problems_of(settings)
    monkeypatch.delitem(sys.modules, "apfproxy.admin.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    (found,) = await problems_of(settings)
    assert found == (
        "tracing.endpoint: needs OpenTelemetry's SDK, but the module opentelemetry.sdk.trace is not"
        " installed: pip install 'apfproxy[otel]' adds what is missing (docs/tracing.md)"
    )


async def test_all_problems(tmp_path: Path) -> None:
    """Those of all parts, in one go."""
    settings = replace(
        settings_in(tmp_path, "tokens"),
        flow_control=settings_in(tmp_path, "objects").flow_control,
        access_log=AccessLogSettings(path="-"),
    )

    assert 2 == len(await problems_of(settings))
    assert [] == await problems_of(PLAIN)


@pytest.mark.parametrize("store", ["redis://a", "kubernetes:a/b", None])
async def test_fleet_asks_nobody(store: str | None) -> None:
    """Where the store is well is not looked at, and whether this is a pod neither."""
    assert [] == await problems_of(replace(PLAIN, fleet=FleetSettings(store=store)))
