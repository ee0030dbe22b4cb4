"""Reading settings and files again, within a process."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from apfproxy.app import reloading
from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import CHANGEABLE, changes, merged, reload, reload_when
from apfproxy.settings import (
    FULL,
    AccessLogSettings,
    Address,
    DownstreamSettings,
    DrainSettings,
    FlowControlSettings,
    LimitSettings,
    OverloadSettings,
    Settings,
    TopFlowsSettings,
    TunnelSettings,
    UpstreamSettings,
    WatchSettings,
)
from apfproxy.sources.settings_file import setting_paths
from apfproxy.tasks import spawn
from tests.end_to_end.scene import until

SETTINGS_PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ANY_PORT = Address(host="127.0.0.1", port=0)
BEFORE = Settings(downstream=DownstreamSettings(listen=ANY_PORT), admin=None)
CHANGED = dataclasses.replace(
    BEFORE,
    downstream=DownstreamSettings(
        listen=ANY_PORT,
        head_timeout_s=1,
        idle_timeout_s=2,
        request_timeout_s=3,
        max_head_bytes=4096,
        max_header_fields=5,
        max_target_bytes=600,
        identity_headers_from=(ipaddress.ip_network("10.0.0.0/8"),),
        trusted_proxies=(ipaddress.ip_network("11.0.0.0/8"),),
        limits=LimitSettings(
            max_connections=7,
            max_connections_per_address=8,
            max_pipelined_requests=9,
            max_body_bytes=10,
            gathered_body_bytes=11,
            min_body_rate_bytes=12,
            body_rate_grace_s=13,
            slow_reader_grace_s=14,
            slow_readers_per_level=15,
        ),
        overload=OverloadSettings(loop_delay_s=15, memory_bytes=1 << 24),
    ),
    upstream=UpstreamSettings(
        max_connections=17,
        idle_timeout_s=18,
        connect_timeout_s=19,
        answer_timeout_s=20,
        abandoned_wait_s=20,
        probe_interval_s=21,
    ),
    tunnel=TunnelSettings(idle_timeout_s=21),
    watch=WatchSettings(silence_s=22, limit_s=23, bookmark_limit_s=24),
    drain=DrainSettings(shutdown_delay_s=25, idle_grace_s=26, timeout_s=27),
    flow_control=FlowControlSettings(server_concurrency_limit=28, hash_seed=1),
    access_log=AccessLogSettings(path="-", sampled_percent=29),
)


def state(value: Any, depth: int = 4) -> object:  # noqa: ANN401  whatever a part keeps
    """What a part of the proxy keeps of plain values, and so do its parts."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, tuple):
        return [state(each, depth) for each in value]
    if depth == 0 or not type(value).__module__.startswith("apfproxy"):
        return None
    names = [*vars(value)] if hasattr(value, "__dict__") else []
    names += [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
    return {
        name: state(getattr(value, name), depth - 1)
        for name in sorted(names)
        if name not in {"_controller", "_kinds", "clock", "sweep_now_ns", "_sweep_due_ns"}
    }


async def test_as_if_started_so() -> None:
    """A process whose settings change is as one that was started with them."""
    before = dataclasses.replace(
        BEFORE,
        flow_control=FlowControlSettings(hash_seed=1),
        access_log=AccessLogSettings(path="-"),
    )
    fresh, changed, same = ProxyProcess(CHANGED), ProxyProcess(before), ProxyProcess(before)
    unlike = state(same.server) == state(fresh.server)
    changed.configure(CHANGED)
    changed.server.forget_identities()

    assert not unlike
    assert state(fresh.server) == state(changed.server)
    assert state(fresh.observation) == state(changed.observation)
    assert CHANGED is changed.settings
    assert [
        (level.name, level.nominal_limit, level.lower_limit, level.upper_limit, level.max_seats)
        for level in fresh.controller.levels.values()
    ] == [
        (level.name, level.nominal_limit, level.lower_limit, level.upper_limit, level.max_seats)
        for level in changed.controller.levels.values()
    ]
    for process in (fresh, changed, same):
        await process.stop()


async def test_settings_that_cannot_be_put_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not pass for those in force: the next time they are tried again."""

    def fail(_: Settings) -> None:
        raise ZeroDivisionError

    process = ProxyProcess(BEFORE)
    with monkeypatch.context() as patch:
        patch.setattr(process.server, "configure", fail)
        with pytest.raises(ZeroDivisionError):
            process.configure(CHANGED)
    assert BEFORE is process.settings
    await process.stop()


def test_all_that_may_change_is_changed_here() -> None:
    """The test above changes each of them, and each is a setting, or a section of them."""
    paths = setting_paths()
    covered = {
        path
        for path in paths
        if any(path == each or path.startswith(f"{each}.") for each in CHANGEABLE)
    }
    found = set(
        changes(
            Settings(),
            dataclasses.replace(CHANGED, log_level="error", log_format="json", metrics=FULL),
        )
    )

    assert all(
        any(path == each or path.startswith(f"{each}.") for path in paths) for each in CHANGEABLE
    )
    assert covered - found == {"accessLog.requests"}


def test_merged() -> None:
    """What may change is as it was read, all else as it was; both are told by their paths."""
    read = Settings(
        downstream=DownstreamSettings(listen=ANY_PORT, head_timeout_s=1),
        drain=DrainSettings(timeout_s=2),
        flow_control=FlowControlSettings(suggested_objects=False),
        top_flows=TopFlowsSettings(is_enabled=False),
        admin=None,
    )
    settings = merged(Settings(), read)

    assert settings == Settings(
        downstream=DownstreamSettings(head_timeout_s=1), drain=DrainSettings(timeout_s=2)
    )
    assert ["downstream.headTimeout", "drain.timeout"] == changes(Settings(), settings)
    assert [
        "downstream.listen",
        "flowControl.suggestedObjects",
        "topFlows.enabled",
        "admin",
    ] == changes(settings, read)


async def test_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes, too, but only if it is another one."""
    levels: list[str] = []
    monkeypatch.setattr(
        reloading, "configure_logging", lambda level, form: levels.append(f"{level} as {form}")
    )
    process = ProxyProcess(BEFORE)
    debug = dataclasses.replace(BEFORE, log_level="debug")
    reads = [BEFORE, debug, dataclasses.replace(debug, log_format="json"), debug]
    for _ in range(4):
        await reload(process, lambda: reads.pop(0))
    await process.stop()

    assert ["debug as text", "debug as json", "debug as text"] == levels


async def test_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong is logged, and the next signal is heeded."""
    caplog.set_level(logging.INFO)
    process = ProxyProcess(BEFORE)
    asked, read = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    failures = [RuntimeError("oh")]

    def read_settings() -> Settings:
        loop.call_soon_threadsafe(read.set)
        if failures:
            raise failures.pop()
        return BEFORE

    task = spawn(reload_when(asked, process, read_settings), name="heeding SIGHUP")
    for _ in range(2):
        asked.set()
        await read.wait()
        read.clear()
    await until(lambda: "read again; changed: no setting" in caplog.messages)
    task.cancel()
    await process.stop()

    assert "the settings and files were not read again to the end" in caplog.text


def test_settings_page() -> None:
    """The table of the settings page has exactly the settings that change, by their sections."""
    text = SETTINGS_PAGE.read_text()
    table = text[text.index("| section | settings that change while the proxy runs |") :]
    found: set[str] = set()
    for row in table[: table.index("\n\n")].splitlines()[2:]:
        _, first, second, _ = row.split("|")
        sections, names = (re.findall("`(.+?)`", cell) for cell in (first, second))
        assert names or second.strip() == "all"
        paths = [f"{section}.{name}" for section in sections for name in names]
        found.update(paths or sections or names)

    assert set(CHANGEABLE) == found
