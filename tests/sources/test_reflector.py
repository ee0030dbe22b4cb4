"""Listing and watching: versions, bookmarks, 410, restarts, pauses."""

from __future__ import annotations

import asyncio
import re
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
Json = dict[str, Any]


class Stop(BaseException):
    """There is no more in the script."""


def schema(name: object, version: object = "1") -> Json:
    metadata = {"name": name, "resourceVersion": version, "managedFields": [{}], "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {}}


def page(version: str, *names: str, token: str = "") -> Json:
    return {
        "metadata": {"resourceVersion": version, "continue": token},
        "items": [schema(name) for name in names],
    }


def event(type_: str, name: object = "a", version: object = "1") -> Json:
    return {"type": type_, "object": schema(name, version)}


def gone(code: object = 410) -> Json:
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
        found: Json = self._next(path, query, is_watch=False)
        return found

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Json | None, None]:
        events = self._next(path, query, is_watch=True)
        yield None
        for each in events:
            if isinstance(each, Exception):
                raise each
            yield each
        if self.at_end is not None:
            await self.at_end()


class Followed:
    def __init__(self, *script: object) -> None:
        self.api = ScriptedApi(script)
        self.pauses: list[float] = []
        self.now_s = 0.0
        api: Any = self.api
        self.reflector = Reflector(
            api,
            SCHEMAS,
            lambda: None,
            now_s=lambda: self.now_s,
            backoff=Backoff(1.0, 30.0, lambda: 1.0),
            sleep=self._sleep,
        )

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)

    async def run(self) -> Followed:
        with pytest.raises(Stop):
            await self.reflector.run()
        return self


LIST = "/v1/flowschemas?limit=250"
ERRORS = {"cut": BROKEN, "away": AWAY, "410": GONE, "404": NOT_FOUND, "403": FORBIDDEN, "429": BUSY}
TYPES = {"+": "ADDED", "-": "DELETED", "?": "ODD"}


def watch(version: str) -> str:
    return f"/v1/flowschemas?watch=1&resourceVersion={version}&allowWatchBookmarks=true"


def read_event(word: str) -> object:
    """An event of a watch, or the error that ends it: see `read_script`."""
    if word[0] == "~":
        return event("BOOKMARK", None, word[1:])
    if word[0] == "!":
        return gone(int(word[1:]) if word[1:].isdigit() else word[1:])
    return ERRORS.get(word) or event(TYPES[word[0]], word[1], word[2:])


def read_script(text: str) -> list[object]:
    """A script as a line.

    `[5 a b +t]` is a list of version 5 with two names and a continuation, `(+a6 -b7 ~9 !410 cut)` a
    watch with events, names and versions, a bookmark, an error, and a failure.
    """
    script: list[object] = []
    for part in re.findall(r"\[[^]]*\]|\([^)]*\)|\S+", text):
        words = part[1:-1].split()
        if part[0] == "[":
            names = [each for each in words[1:] if each[0] != "+"]
            token = "".join(each[1:] for each in words if each[0] == "+")
            script.append(page(words[0], *names, token=token))
        else:
            script.append([*map(read_event, words)] if part[0] == "(" else ERRORS[part])
    return script


def read_asked(text: str) -> list[str]:
    """Questions: L a list, L+t a continued one, A one of all at once, W5 a watch; b for v1beta3."""
    forms = {"A": "/v1/flowschemas?", "L": LIST}
    asked = []
    for word in text.split():
        plain = word.removeprefix("b")
        if plain[0] == "W":
            question = watch(plain[1:])
        else:
            question = forms[plain[0]] + plain[1:].replace("+", "&continue=")
        asked.append(question if plain == word else question.replace("/v1/", "/v1beta3/"))
    return asked


def rows(table: str) -> Any:  # noqa: ANN401 - pytest's
    parts = [re.split(" ?[:>] ?", line, maxsplit=3) for line in table.strip().splitlines()]
    return [pytest.param(*each[1:], id=each[0].replace(" ", "-")) for each in parts]


FOLLOWS = """
a watch that ends goes on: [5 a b] (-a6 +c7) () > L W5 W7 > b c
chunks: [5 a +t1] [5 b +t2] [5 c] () > L L+t1 L+t2 W5 > a b c
continuation has expired: [5 a +t1] 410 [6 b] () > L L+t1 A W6 > b
bookmark: [5] (~9) () > L W5 W9 >
410: [5 a] 410 [8 b] () > L W5 L W8 > b
410 within the watch: [5 a] (+x6 !410) [8 b] () > L W5 L W8 > b
another error within the watch: [5] (+a6 !500) [7 b] () > L W5 L W7 > b
cut: [5] (+a6 cut) [6 a] () > L W5 L W6 > a
cut and other objects at the same version: [5] (+a6 cut) [6 b] () > L W5 L W6 > b
away: [5 a] (cut) away away [3 b] () > L W5 L L L W3 > b
v1beta3 until v1 is served: 404 [5 a] 404 [6 a] () > L bL bW5 L W6 > a
unknown event: [5 a] (?b6) [6 a] () > L W5 L W6 > a
"""


@pytest.mark.parametrize(("script", "asked", "names"), rows(FOLLOWS))
async def test_follows(script: str, asked: str, names: str) -> None:
    """Whatever comes, what is asked next is what keeps the objects right."""
    followed = await Followed(*read_script(script)).run()

    assert read_asked(asked) == followed.api.asked
    assert names.split() == sorted(followed.reflector.objects)
    assert followed.reflector.is_synced
    assert followed.reflector.problem is None


async def test_objects_are_typed() -> None:
    """Objects have the type that their list has, and no managed fields."""
    followed = await Followed(NOT_FOUND, page("5", "a"), []).run()

    assert followed.reflector.objects == {
        "a": {
            "kind": "FlowSchema",
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3",
            "metadata": {"name": "a", "resourceVersion": "1", "uid": "u-a"},
            "spec": {},
        }
    }


PAUSES = """
away: away away away > 1 2 4
ends after an event: [5] (+a1) (+a1) () > 1 1 2
an event makes it well: [5] cut away [5] (+a1 cut) > 1 2 1
asked to wait: 429 [5] 429 > 7 7
always gone: [5] 410 [5] 410 > 1 2
"""


@pytest.mark.parametrize(("script", "expected"), rows(PAUSES))
async def test_pauses(script: str, expected: str) -> None:
    """Pauses grow while it fails, and are short again once it works."""
    followed = await Followed(*read_script(script)).run()

    assert [*map(float, expected.split())] == followed.pauses


READER = (
    "answered 403; give the proxy's user the cluster role of config/kubernetes/rbac/reader.yaml"
)
SERVED = "answered 404; it has to serve flowcontrol.apiserver.k8s.io/v1 or v1beta3"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("away", "cannot connect"),
        ("403", READER),
        ("404 404", SERVED),
        ("410 410", "answered 410"),
        ("[5] (cut) 403", READER),
        ("[5] (!x)", "the watch ended: too old"),
        ("[5 a +t] [5 b +t]", "a list of more than 2 chunks"),
        ("[5 a b c d]", "more than 3 objects"),
        ("[5 a b c] (+d1)", "more than 3 objects"),
        ([{"kind": "Pod"}], "an object has no resourceVersion: is this a Kubernetes API?"),
        ([{**page("5"), "items": "x"}], "the response is no list of objects"),
        ([{**page("5"), "items": [schema(None)]}], "an object has no name"),
        (
            [page("5"), [{**event("ADDED"), "type": ["ADDED"]}]],
            "an event of the watch is of no known type",
        ),
    ],
)
async def test_problem(
    script: str | list[object],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reflector_module, "MAX_OBJECTS", 3)
    monkeypatch.setattr(reflector_module, "MAX_CHUNKS", 2)
    followed = await Followed(*(read_script(script) if isinstance(script, str) else script)).run()

    assert f"flowschemas: {expected}" == followed.reflector.problem
    assert 1 == sum(expected in record.getMessage() for record in caplog.records)


async def test_own_error(caplog: pytest.LogCaptureFixture) -> None:
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
