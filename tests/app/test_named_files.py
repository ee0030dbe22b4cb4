"""What settings name, tried without a proxy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.named_files import SQLITE, problems_of
from apfproxy.settings import (
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    FleetSettings,
    FlowControlSettings,
    KubernetesSettings,
    ServiceSettings,
    Settings,
    TracingSettings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Settings(upstream=UpstreamSettings(url=Address(host="a", port=1)))


def settings_in(folder: Path, part: str) -> Settings:
    """Settings that name something in a folder."""
    path = str(folder / part)
    kubernetes = KubernetesSettings(is_enabled=True, kubeconfig=path)
    return {
        "tokens": replace(PLAIN, authentication=AuthenticationSettings(token_file=path)),
        "objects": replace(PLAIN, flow_control=FlowControlSettings(objects=(path,))),
        "store": replace(PLAIN, flow_control=FlowControlSettings(store=path)),
        "kubeconfig": replace(PLAIN, flow_control=FlowControlSettings(kubernetes=kubernetes)),
        "service": replace(
            PLAIN,
            upstream=UpstreamSettings(service=ServiceSettings(name="api", kubeconfig=path)),
        ),
        "admin-token": replace(PLAIN, admin_token_file=path),
        "password": replace(PLAIN, fleet=FleetSettings(store="redis://a", password_file=path)),
        "cas": replace(PLAIN, fleet=FleetSettings(store="rediss://a", ca_file=path)),
        "fleet-api": replace(PLAIN, fleet=FleetSettings(store="kubernetes:a/b", kubeconfig=path)),
        "log": replace(PLAIN, access_log=AccessLogSettings(path=path)),
    }[part]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("tokens", "tokens: cannot be read: No such file or directory"),
        ("objects", "objects: cannot be read: No such file or directory"),
        ("kubeconfig", "kubeconfig: cannot be read: No such file or directory"),
        ("service", "service: cannot be read: No such file or directory"),
        ("password", "password: cannot be read: No such file or directory"),
        ("cas", "cas: cannot be read: No such file or directory"),
        ("fleet-api", "fleet-api: cannot be read: No such file or directory"),
        ("admin-token", "admin-token cannot be read: No such file or directory"),
    ],
)
async def test_missing(tmp_path: Path, part: str, problem: str) -> None:
    """What has to be there and is not is a problem."""
    (found,) = await problems_of(settings_in(tmp_path, part))

    assert found.endswith(problem)


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
        flow_control=FlowControlSettings(objects=(str(tmp_path / "objects"),)),
        access_log=AccessLogSettings(path="-"),
    )

    assert 2 == len(await problems_of(settings))
    assert [] == await problems_of(PLAIN)


@pytest.mark.parametrize("store", ["redis://a", "kubernetes:a/b", None])
async def test_fleet_asks_nobody(store: str | None) -> None:
    """Where the store is well is not looked at, and whether this is a pod neither."""
    assert [] == await problems_of(replace(PLAIN, fleet=FleetSettings(store=store)))
