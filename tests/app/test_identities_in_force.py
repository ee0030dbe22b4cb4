"""The identities in force."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apfproxy.app import identities_in_force
from apfproxy.app.identities_in_force import IdentitiesInForce, grace_s
from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.settings import (
    AuthenticationSettings,
    DrainSettings,
    ReviewSettings,
    Settings,
    UpstreamSettings,
)
from tests.app.test_process import settings_for
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path


def in_force(settings: Settings, health: HealthRegistry) -> IdentitiesInForce:
    """Those of a process that nobody is told of."""
    return IdentitiesInForce(
        settings,
        VirtualClock(),
        health,
        choose=lambda _: None,
        on_clients_change=lambda: None,
        on_own_change=lambda: None,
    )


def with_tokens(path: Path) -> Settings:
    """Settings with a file of tokens."""
    return replace(settings_for(9), authentication=AuthenticationSettings(token_file=str(path)))


async def test_nothing_to_do() -> None:
    """Settings of other parts change no identity."""
    identities = in_force(settings_for(9), HealthRegistry())
    first = identities.current
    settings = replace(settings_for(9), drain=DrainSettings(timeout_s=1))
    (await identities.prepare(settings)).commit()
    await identities.close()

    assert identities.current is first


async def test_others(tmp_path: Path) -> None:
    """They are loaded first, then in force; counters go on, and the files are watched."""
    path = tmp_path / "tokens"
    path.write_text("secret-1,ann,1\n")
    health = HealthRegistry()
    identities = in_force(settings_for(9), health)
    identities.start()
    first = identities.current
    change = await identities.prepare(with_tokens(path))
    before = identities.current
    change.commit()
    second = identities.current
    checks = [check.name for check in health]
    (await identities.prepare(settings_for(9))).commit()
    await identities.close()

    assert before is first
    assert second is not first
    assert second.authenticator.counters is first.authenticator.counters
    assert second.files.has_groups
    assert checks == ["ping", "identification"]
    assert [check.name for check in health] == ["ping"]


async def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """All stays as it was."""
    identities = in_force(settings_for(9), HealthRegistry())
    first = identities.current
    with pytest.raises(OperatorError, match="nowhere"):
        await identities.prepare(with_tokens(tmp_path / "nowhere"))
    await identities.close()

    assert identities.current is first


async def test_questions_under_way_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who asked before are closed only after the time that an answer may take."""
    reviews = ReviewSettings(is_enabled=True, timeout_s=7)
    before = replace(settings_for(9), authentication=AuthenticationSettings(token_review=reviews))
    identities = in_force(before, HealthRegistry())
    old = identities.current
    waits: list[float] = []
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await may_end.wait()

    close = old.close

    async def close_old() -> None:
        await close()
        has_ended.set()

    monkeypatch.setattr(identities_in_force.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(old, "close", close_old)
    upstream = UpstreamSettings(url=before.upstream.address, host_header="a")
    change = await identities.prepare(replace(before, upstream=upstream))
    change.commit()
    is_open = not has_ended.is_set()
    may_end.set()
    await has_ended.wait()
    await identities.close()

    assert is_open
    assert waits == [grace_s(before)]
    assert grace_s(before) > reviews.timeout_s
