"""Listing and watching: versions, bookmarks, 410, restarts, pauses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.tasks import Backoff
from apfproxy.sources import reflector as reflector_module
from apfproxy.sources.kubernetes import RESOURCES
from apfproxy.sources.kubernetes_api import KubernetesApiError
from apfproxy.sources.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

SCHEMAS = next(each for each in RESOURCES if each.kind == "FlowSchema")
GROUP = "/apis/flowcontrol.apiserver.k8s.io"
V1, V1BETA3 = f"{GROUP}/v1/flowschemas", f"{GROUP}/v1beta3/flowschemas"
Json = dict[str, Any]


class Stop(BaseException):
    """There is no more in the script."""


def schema(name: object, version: object = "1") -> Json:
    """An object as lists and events have it."""
    metadata = {"name": name, "resourceVersion": version, "managedFields": [{}], "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {}}


def page(version: str, *names: str, token: str = "") -> Json:
    """A list, or a part of one."""
    return {
        "metadata": {"resourceVersion": version, "continue": token},
        "items": [schema(name) for name in names],
    }


def event(type_: str, name: object = "a", version: object = "1") -> Json:
    """An event of a watch."""
    return {"type": type_, "object": schema(name, version)}


def gone(code: object = 410) -> Json:
    """The event that ends a watch."""
    return {"type": "ERROR", "object": {"code": code, "message": "too old"}}


BROKEN = KubernetesApiError("the connection broke")
AWAY = KubernetesApiError("cannot connect")
GONE = KubernetesApiError("answered 410", 410)
NOT_FOUND = KubernetesApiError("answered 404", 404)
FORBIDDEN = KubernetesApiError("answered 403", 403)
BUSY = KubernetesApiError("answered 429", 429, retry_after_s=7.0)


class ScriptedApi:
    """An API that answers as a script says, and ends with it.

    Args:
        script: A list's answer as an object, a watch's events as a list, with an error at its end
            or none; or an error for either.

    Attributes:
        asked: What was asked, a line each.
        at_end: What each watch does before it ends.
    """

    server = "https://api"

    def __init__(self, script: Iterable[Any]) -> None:
        self._script = list(script)
        self.asked: list[str] = []
        self.at_end: Callable[[], Awaitable[object]] | None = None

    def _next(self, path: str, query: Mapping[str, str], *, is_watch: bool) -> Any:  # noqa: ANN401
        kept = {name: value for name, value in query.items() if name != "timeoutSeconds"}
        told = "&".join(f"{name}={value}" for name, value in kept.items())
        if not self._script:
            raise Stop
        self.asked.append(f"{path.removeprefix(GROUP)}?{told}")
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert is_watch == isinstance(answer, list), self.asked
        return answer

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        """A list."""
        found: Json = self._next(path, query, is_watch=False)
        return found

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Json | None, None]:
        """A watch."""
        events = self._next(path, query, is_watch=True)
        yield None
        for each in events:
            if isinstance(each, Exception):
                raise each
            yield each
        if self.at_end is not None:
            await self.at_end()


class Followed:
    """A reflector of a script that ran to its end.

    Attributes:
        pauses: Seconds, as the reflector waited.
        changes: How often it told of a change.
    """

    def __init__(self, *script: object) -> None:
        self.api = ScriptedApi(script)
        self.pauses: list[float] = []
        self.changes = 0
        self.now_s = 0.0
        api: Any = self.api
        self.reflector = Reflector(
            api,
            SCHEMAS,
            self._on_change,
            now_s=lambda: self.now_s,
            backoff=Backoff(1.0, 30.0, lambda: 1.0),
            sleep=self._sleep,
        )

    def _on_change(self) -> None:
        self.changes += 1

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)

    async def run(self) -> Followed:
        """Run the script."""
        with pytest.raises(Stop):
            await self.reflector.run()
        return self


LIST = "/v1/flowschemas?limit=250"


def watch(version: str) -> str:
    """The question that a watch is."""
    return f"/v1/flowschemas?watch=1&resourceVersion={version}&allowWatchBookmarks=true"


@pytest.mark.parametrize(
    ("script", "asked", "names"),
    [
        pytest.param(
            [page("5", "a", "b"), [event("DELETED", "a", "6"), event("ADDED", "c", "7")], []],
            [LIST, watch("5"), watch("7")],
            ["b", "c"],
            id="a-watch-that-ends-goes-on",
        ),
        pytest.param(
            [
                page("5", "a", token="t1"),  # noqa: S106
                page("5", "b", token="t2"),  # noqa: S106
                page("5", "c"),
                [],
            ],
            [LIST, f"{LIST}&continue=t1", f"{LIST}&continue=t2", watch("5")],
            ["a", "b", "c"],
            id="chunks",
        ),
        pytest.param(
            [page("5", "a", token="t1"), GONE, page("6", "b"), []],  # noqa: S106
            [LIST, f"{LIST}&continue=t1", "/v1/flowschemas?", watch("6")],
            ["b"],
            id="continuation-has-expired",
        ),
        pytest.param(
            [page("5"), [event("BOOKMARK", None, "9")], []],
            [LIST, watch("5"), watch("9")],
            [],
            id="bookmark",
        ),
        pytest.param(
            [page("5", "a"), GONE, page("8", "b"), []],
            [LIST, watch("5"), LIST, watch("8")],
            ["b"],
            id="410",
        ),
        pytest.param(
            [page("5", "a"), [event("ADDED", "x", "6"), gone()], page("8", "b"), []],
            [LIST, watch("5"), LIST, watch("8")],
            ["b"],
            id="410-within-the-watch",
        ),
        pytest.param(
            [page("5"), [event("ADDED", "a", "6"), gone(500)], page("7", "b"), []],
            [LIST, watch("5"), LIST, watch("7")],
            ["b"],
            id="another-error-within-the-watch",
        ),
        pytest.param(
            [page("5"), [event("ADDED", "a", "6"), BROKEN], page("6", "a"), []],
            [LIST, watch("5"), LIST, watch("6")],
            ["a"],
            id="cut",
        ),
        pytest.param(
            [page("5"), [event("ADDED", "a", "6"), BROKEN], page("6", "b"), []],
            [LIST, watch("5"), LIST, watch("6")],
            ["b"],
            id="cut-and-other-objects-at-the-same-version",
        ),
        pytest.param(
            [page("5", "a"), [BROKEN], AWAY, AWAY, page("3", "b"), []],
            [LIST, watch("5"), LIST, LIST, LIST, watch("3")],
            ["b"],
            id="away",
        ),
        pytest.param(
            [NOT_FOUND, page("5", "a"), NOT_FOUND, page("6", "a"), []],
            [
                LIST,
                "/v1beta3/flowschemas?limit=250",
                watch("5").replace("v1", "v1beta3"),
                LIST,
                watch("6"),
            ],
            ["a"],
            id="v1beta3-until-v1-is-served",
        ),
        pytest.param(
            [page("5", "a"), [event("ODD", "b", "6")], page("6", "a"), []],
            [LIST, watch("5"), LIST, watch("6")],
            ["a"],
            id="unknown-event",
        ),
    ],
)
async def test_follows(script: list[object], asked: list[str], names: list[str]) -> None:
    """Whatever comes, what is asked next is what keeps the objects right."""
    followed = await Followed(*script).run()

    assert asked == followed.api.asked
    assert names == sorted(followed.reflector.objects)
    assert followed.reflector.is_synced
    assert followed.reflector.problem is None


async def test_objects_are_typed() -> None:
    """Objects have the type that their list has, and nothing that nobody reads."""
    followed = await Followed(NOT_FOUND, page("5", "a"), []).run()

    assert followed.reflector.objects == {
        "a": {
            "kind": "FlowSchema",
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3",
            "metadata": {"name": "a", "resourceVersion": "1", "uid": "u-a"},
            "spec": {},
        }
    }


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param([AWAY, AWAY, AWAY], [1.0, 2.0, 4.0], id="away"),
        pytest.param(
            [page("5"), [event("ADDED")], [event("ADDED")], []],
            [1.0, 1.0, 2.0],
            id="ends-after-an-event",
        ),
        pytest.param(
            [page("5"), BROKEN, AWAY, page("5"), [event("ADDED"), BROKEN]],
            [1.0, 2.0, 1.0],
            id="an-event-makes-it-well",
        ),
        pytest.param([BUSY, page("5"), BUSY], [7.0, 7.0], id="asked-to-wait"),
        pytest.param([page("5"), GONE, page("5"), GONE], [1.0, 2.0], id="always-gone"),
    ],
)
async def test_pauses(script: list[object], expected: list[float]) -> None:
    """Pauses grow while it does not work, and start anew when it does."""
    followed = await Followed(*script).run()

    assert expected == followed.pauses


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param([AWAY], "flowschemas: cannot connect", id="away"),
        pytest.param(
            [FORBIDDEN],
            "flowschemas: answered 403; give the proxy's user the cluster role of"
            " config/kubernetes/rbac/reader.yaml",
            id="forbidden",
        ),
        pytest.param(
            [NOT_FOUND, NOT_FOUND],
            "flowschemas: answered 404; it has to serve flowcontrol.apiserver.k8s.io/v1 or v1beta3",
            id="no-version",
        ),
        pytest.param(
            [{"kind": "Pod"}],
            "flowschemas: an object has no resourceVersion: is this a Kubernetes API?",
            id="no-list",
        ),
        pytest.param(
            [{**page("5"), "items": "x"}],
            "flowschemas: the response is no list of objects",
            id="no-items",
        ),
        pytest.param(
            [{**page("5"), "items": [schema(None)]}],
            "flowschemas: an object has no name",
            id="no-name",
        ),
        pytest.param(
            [page("5", "a", token="t"), page("5", "b", token="t")],  # noqa: S106
            "flowschemas: a list of more than 2 chunks",
            id="endless",
        ),
        pytest.param([page("5", *"abcd")], "flowschemas: more than 3 objects", id="too-many"),
        pytest.param(
            [page("5", *"abc"), [event("ADDED", "d")]],
            "flowschemas: more than 3 objects",
            id="too-many-later",
        ),
        pytest.param(
            [page("5"), [gone("x")]], "flowschemas: the watch ended: too old", id="odd-error"
        ),
        pytest.param([GONE, GONE], "flowschemas: answered 410", id="lists-are-gone"),
        pytest.param(
            [page("5"), [{**event("ADDED"), "type": ["ADDED"]}]],
            "flowschemas: an event of the watch is of no known type",
            id="odd-event",
        ),
        pytest.param(
            [page("5"), [BROKEN], FORBIDDEN],
            "flowschemas: answered 403; give the proxy's user the cluster role of"
            " config/kubernetes/rbac/reader.yaml",
            id="another-than-before",
        ),
    ],
)
async def test_problem(
    script: list[object],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is wrong is said, once in the log, and what to do."""
    monkeypatch.setattr(reflector_module, "MAX_OBJECTS", 3)
    monkeypatch.setattr(reflector_module, "MAX_CHUNKS", 2)
    followed = await Followed(*script).run()

    assert expected == followed.reflector.problem
    assert 1 == sum(expected in record.getMessage() for record in caplog.records)


async def test_own_error(caplog: pytest.LogCaptureFixture) -> None:
    """An error that nobody foresaw is logged and said, and does not end it."""
    broken = await Followed(
        page("5", "a"), [{"type": "ADDED", "object": schema("b")}, KeyError()]
    ).run()
    well = await Followed(page("5"), [KeyError()], page("5", "a"), []).run()

    assert broken.reflector.problem == "flowschemas: an error of the proxy itself, see its log"
    assert "flowschemas cannot be followed" in caplog.text
    assert (["a"], None) == (list(well.reflector.objects), well.reflector.problem)


async def test_pause_after_a_long_watch() -> None:
    """A watch that lasted, even without an event, was a good one."""
    followed = Followed(page("5"), [], [])

    async def pass_time() -> None:
        followed.now_s += 300

    followed.api.at_end = pass_time
    await followed.run()

    assert [] == followed.pauses


async def test_overdue_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that does not end when it should is left for another from the last version."""
    monkeypatch.setattr(reflector_module, "WATCH_S", (0, 0))
    monkeypatch.setattr(reflector_module, "OVERDUE_S", 0.0)
    followed = Followed(page("5"), [event("ADDED", "a", "6")], [])
    followed.api.at_end = asyncio.Event().wait
    await followed.run()

    assert [LIST, watch("5"), watch("6")] == followed.api.asked
    assert followed.reflector.problem is None
