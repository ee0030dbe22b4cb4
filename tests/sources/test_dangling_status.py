"""The condition Dangling, kept in a Kubernetes API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.tasks import Backoff
from apfproxy.sources.dangling_status import CONTESTED_S, REST_S, DanglingStatus
from apfproxy.sources.kubernetes_api import KubernetesApiError
from tests.support.kubernetes_api import LEVELS, SCHEMAS, KubernetesDouble
from tests.support.objects import level, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.objects.types import Object


class Followed:
    version = "v1beta3"
    path = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"

    def __init__(self, *objects: Object) -> None:
        self.objects = {each["metadata"]["name"]: each for each in objects}
        self.problem: str | None = None


class Stop(BaseException):
    """The writer has slept often enough."""


class Writer:
    """A writer on a clock that its own pauses move."""

    def __init__(self, schemas: Followed, levels: Followed, sleeps: int) -> None:
        self.api = KubernetesDouble()
        for each in schemas.objects.values():
            self.api.put(SCHEMAS, each)
        for each in levels.objects.values():
            self.api.put(LEVELS, each)
        self.pauses: list[float] = []
        self.now_s = 0.0
        self._sleeps = sleeps
        parts: list[Any] = [self.api, schemas, levels]
        self.status = DanglingStatus(
            *parts,
            wall_s=lambda: 0.0,
            now_s=lambda: self.now_s,
            backoff=Backoff(10.0, 30.0, lambda: 1.0),
            sleep=self._sleep,
        )

    async def _sleep(self, pause_s: float) -> None:
        if len(self.pauses) == self._sleeps:
            raise Stop
        self.pauses.append(pause_s)
        self.now_s += pause_s

    async def run(self) -> Writer:
        running = asyncio.ensure_future(self.status.run())
        while not running.done():
            self.status.wake()
            await asyncio.sleep(0)
        with pytest.raises(Stop):
            await running
        return self


async def test_writes_what_is_due() -> None:
    schemas = Followed(schema("lost", "none"), schema("well", "mine"))
    schemas.objects["well"]["status"] = {
        "conditions": [
            {
                "type": "Dangling",
                "status": "False",
                "reason": "Found",
                "message": "This FlowSchema references the PriorityLevelConfiguration object named"
                ' "mine" and it exists',
            }
        ]
    }
    writer = await Writer(schemas, Followed(level("mine")), 1).run()

    assert [REST_S] == writer.pauses
    assert [("lost", {"fieldManager": "apfproxy", "force": "true"})] == [
        (name, query) for name, query, _ in writer.api.applied
    ]
    obj = writer.api.applied[0][2]
    assert ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", {"name": "lost"}) == (
        obj["apiVersion"],
        obj["kind"],
        obj["metadata"],
    )
    assert [("True", "NotFound", "1970-01-01T00:00:00Z")] == [
        (each["status"], each["reason"], each["lastTransitionTime"])
        for each in obj["status"]["conditions"]
    ]


async def test_contested() -> None:
    """A condition that another client overwrites is not written again at once, but later."""
    sleeps = round(CONTESTED_S / REST_S) + 2
    writer = await Writer(Followed(schema("lost", "none")), Followed(), sleeps).run()

    assert 2 == len(writer.api.applied)


ROLE = "give the proxy's user the cluster role of config/kubernetes/rbac/status.yaml"


@pytest.mark.parametrize(
    ("is_bug", "problem", "line"),
    [
        (False, f"answered 403; {ROLE}", "status of FlowSchemas"),
        (True, "an error of the proxy itself, see its log", "status of FlowSchemas is not written"),
    ],
)
async def test_failures(
    problem: str,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    is_bug: bool,
) -> None:
    """Pauses grow, and the log says it once; an error of the program is logged each time."""
    writer = Writer(Followed(schema("lost", "none")), Followed(), 4)
    writer.api.refused = {"apfproxy"}
    if is_bug:
        monkeypatch.setattr(writer.api, "apply", lambda *_: 1 / 0)
    await writer.run()

    assert [REST_S, 10.0, REST_S, 20.0] == writer.pauses
    assert f"status of FlowSchemas: {problem}" == writer.status.problem
    assert is_bug or 1 == caplog.text.count(line)
    assert line in caplog.text


@pytest.mark.parametrize("unfollowed", ["schemas", "levels"])
async def test_old_knowledge(unfollowed: str) -> None:
    schemas, levels = Followed(schema("lost", "none")), Followed()
    (schemas if unfollowed == "schemas" else levels).problem = "away"
    writer = await Writer(schemas, levels, 2).run()

    assert not writer.api.asked


async def test_one_that_is_refused() -> None:
    writer = Writer(Followed(schema("bad", "none"), schema("good", "none")), Followed(), 1)
    apply = writer.api.apply

    async def apply_but_one(path: str, query: Mapping[str, str], obj: Object) -> Object:
        if obj["metadata"]["name"] == "bad":
            raise KubernetesApiError("answered 422: spec: odd", 422)
        return await apply(path, query, obj)

    writer.api.apply = apply_but_one  # type: ignore[method-assign]
    await writer.run()

    assert ["good"] == [name for name, _, _ in writer.api.applied]
    assert "status of FlowSchemas: answered 422: spec: odd" == writer.status.problem
