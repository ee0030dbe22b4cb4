"""A store of objects that workers read from a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec import structs

from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.settings import FlowControlSettings, Settings
from apfproxy.sources import stored_objects
from apfproxy.sources.stored_objects import FlowControlApi, SharedStore
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path


class Scene:
    def __init__(self, directory: Path) -> None:
        self.settings = Settings(flow_control=FlowControlSettings(store=str(directory / "a.db")))
        self.path = directory / "a.db-workers.json"
        self.health = HealthRegistry()
        self.store = SharedStore(self.settings, self.health, lambda: True)

    def names(self) -> list[str]:
        document = msgspec.json.decode(self.path.read_bytes())
        return [each["metadata"]["name"] for each in document["items"]]

    def page(self) -> str:
        return self.health.page(READYZ, verbose=True).text


async def test_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.store.start()
    names = scene.names()
    page = scene.page()
    routes = scene.store.api.routes()
    await scene.store.close()
    await scene.store.close()

    assert not scene.path.exists()
    assert {"exempt", "catch-all", "system-nodes"} <= set(names)
    assert "[+]objects ok" in page
    assert routes


async def test_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers go on with what they have, which is said until it is written."""
    scene = Scene(tmp_path)
    await scene.store.start()
    fails = [True]
    write = stored_objects.write_objects

    def write_or_fail(*arguments: object) -> None:
        if fails.pop():
            raise OSError(28, "No space left on device")
        write(*arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(stored_objects, "write_objects", write_or_fail)
    scene.store._on_load((), ("it dangles",))  # noqa: SLF001 - as after a change
    await until(lambda: "workers go on with former objects" in scene.page())
    page = scene.page()
    fails.append(False)
    await scene.store._write()  # noqa: SLF001 - the next try is seconds away
    recovered = scene.page()
    await scene.store.close()

    assert "[!]objects" in page
    assert "No space left on device" in page
    assert "[!]configuration" in page
    assert "[+]objects ok" in recovered


async def test_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret" * 9)
    scene = Scene(tmp_path)
    await scene.store.start()
    scene.store.api.prepare_token(scene.settings)()
    other = structs.replace(scene.settings, admin_token_file=str(token))
    scene.store.api.prepare_token(other)()
    with pytest.raises(OperatorError):
        scene.store.api.prepare_token(
            structs.replace(scene.settings, admin_token_file=str(tmp_path / "gone"))
        )
    await scene.store.close()


def api(tmp_path: Path, *, with_suggested: bool = True, token: str | None = None) -> FlowControlApi:
    flow_control = FlowControlSettings(suggested_objects=with_suggested)
    return FlowControlApi(
        str(tmp_path / "objects.db"),
        Settings(flow_control=flow_control, admin_token_file=token),
        is_local=lambda: True,
        on_problem=lambda _problem: None,
    )


async def test_suggested_objects_go(tmp_path: Path) -> None:
    for with_suggested in (True, False):
        found = api(tmp_path, with_suggested=with_suggested)
        await found.start()
        resource = "flowschemas.flowcontrol.apiserver.k8s.io"
        names = {entry.name for entry in found.store.collection(resource).snapshot()}
        await found.stop()

    assert {"exempt", "catch-all"} == names


async def test_one_process(tmp_path: Path) -> None:
    first = api(tmp_path)
    with pytest.raises(OperatorError):
        api(tmp_path)
    await first.stop()
    await asyncio.sleep(0)
    await api(tmp_path).stop()


async def test_no_token(tmp_path: Path) -> None:
    """A token file without a token is found at the start, and the store is left alone."""
    (tmp_path / "token").write_text("short")
    with pytest.raises(OperatorError):
        api(tmp_path, token=str(tmp_path / "token"))

    assert not (tmp_path / "objects.db").exists()
