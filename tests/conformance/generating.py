"""Makes the requests of a comparison: the same ones for the same seed.

Their values, bodies and objects stand in `vectors/differential_requests.yaml`.
"""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.ownership.managed import copied
from apfproxy.apiserver.schema.reading import MismatchError, read
from tests.conformance import vectors
from tests.conformance.steps import JSON, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.kind import Kind

Object = dict[str, Any]
Path = tuple[str | int, ...]

REPEATED = re.compile(r"\$\{(.)\*(\d+)\}")
DATA: dict[str, list[Any]] = yaml.safe_load(
    REPEATED.sub(lambda found: found[1] * int(found[2]), vectors.text("differential_requests.yaml"))
)
MERGE, APPLY = DATA["patch_types"][1], DATA["patch_types"][3]
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVICTED = {"app": "evicted"}
EVICTION = f"{PODS}/evicted/eviction"


@dataclass(frozen=True)
class Subject:
    """One version of a resource.

    Attributes:
        kind: Of the objects.
        version: Of the requests.
        base: Content of an object that is right, without `kind`, `apiVersion` and `metadata`.
        rich: The same with as many fields as fit together.
        change: A merge patch that changes it.
        samples: How many objects with a wrong value somewhere are tried.
    """

    kind: Kind
    version: str
    base: Object
    rich: Object
    change: Object
    samples: int

    @property
    def name(self) -> str:
        return f"{self.kind.plural}-{self.version}"

    @property
    def collection(self) -> str:
        group = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        namespace = "/namespaces/default" if self.kind.is_namespaced else ""
        return f"{group}/{self.version}{namespace}/{self.kind.plural}"

    def path(self, name: str) -> str:
        return f"{self.collection}/{name}"

    def object(self, name: str, content: Object | None = None, **metadata: Any) -> Object:  # noqa: ANN401 - JSON
        return {
            "apiVersion": self.kind.api_version(self.version),
            "kind": self.kind.name,
            "metadata": {"name": name, **metadata},
            **(self.base if content is None else content),
        }


KINDS_BY_NAME = {kind.plural: kind for kind in KINDS}
SUBJECTS = [
    Subject(KINDS_BY_NAME[each.pop("plural")], **each) for each in copy.deepcopy(DATA["subjects"])
]
"""Two of one resource try different objects of it."""


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:  # noqa: ANN401 - JSON
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for key, child in children:
        yield (*path, key)
        yield from leaves(child, (*path, key))


def replaced(obj: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    changed: Any = copied(obj)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return dict(changed)


def without(obj: dict[str, Any], path: Path) -> dict[str, Any]:
    changed: Any = copied(obj)
    place = changed
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return dict(changed)


class Requests:
    """Makes requests about one subject."""

    def __init__(self, subject: Subject, index: int, chance: random.Random) -> None:
        self._subject = subject
        self._index = index
        self._chance = chance
        self._name = f"differential-{index}"
        self._prefix = f"{subject.name}-{index}"
        self._count = 0

    def step(self, what: str, method: str, path: str, **more: Any) -> Step:  # noqa: ANN401 - of `Step`
        self._count += 1
        if method in {"POST", "PUT"} or more.get("body") is not None:
            more.setdefault("content_type", "application/json")
        return Step(f"{self._prefix}-{self._count:03}-{what}", method, path, **more)

    def all(self) -> Iterator[Step]:
        yield from self.creations()
        yield from self.bodies()
        yield from self.life()
        yield from self.lists()

    def dry(self, query: str = "dryRun=All") -> str:
        return f"{self._subject.collection}?{query}"

    def creations(self) -> Iterator[Step]:
        subject = self._subject
        for what, content in (("base", subject.base), ("rich", subject.rich)):
            yield self.step(f"create-{what}", "POST", self.dry(), body=subject.object("a", content))
        paths = list(leaves(subject.rich))
        pairs = [(path, value) for path in paths for value in DATA["values"]]
        for path, value in self._chance.sample(pairs, min(subject.samples, len(pairs))):
            obj = subject.object("a", replaced(subject.rich, path, value))
            yield self.step("value", "POST", self.dry(), body=obj)
        for path in self._chance.sample(paths, min(subject.samples // 5, len(paths))):
            obj = subject.object("a", without(subject.rich, path))
            yield self.step("without", "POST", self.dry(), body=obj)
        for metadata in DATA["metadata"]:
            obj = subject.object("a")
            obj["metadata"].update(metadata)
            yield self.step("metadata", "POST", self.dry(), body=obj)
        for query in DATA["write_queries"]:
            obj = {**subject.object("a"), "unknown": 1}
            yield self.step("query", "POST", self.dry(query), body=obj)

    def bodies(self) -> Iterator[Step]:
        right = self._subject.object("a")
        bodies: tuple[tuple[str, Any], ...] = (
            ("null", None),
            ("list", []),
            ("number", 5),
            ("empty", {}),
            ("kind", {**right, "kind": "Other"}),
            ("version", {**right, "apiVersion": "example.com/v1"}),
            ("no-kind", {k: v for k, v in right.items() if k != "kind"}),
            ("no-version", {k: v for k, v in right.items() if k != "apiVersion"}),
            ("kind-number", {**right, "kind": 5}),
            ("case", {**right, "KIND": "x", "Metadata": {}}),
            ("status", {**right, "status": {"unknown": 1}}),
            ("status-text", {**right, "status": "x"}),
            ("metadata-text", {**right, "metadata": "x"}),
            ("metadata-null", {**right, "metadata": None}),
            ("spec-text", {**right, "spec": "x"}),
            ("spec-null", {**right, "spec": None}),
        )
        for what, body in bodies:
            if body is None:
                yield self.step(f"body-{what}", "POST", self.dry(), raw="null")
            else:
                yield self.step(f"body-{what}", "POST", self.dry(), body=body)
        for what, raw in (("nothing", ""), ("text", "text"), ("cut", '{"kind":'), ("two", "{}{}")):
            yield self.step(f"body-{what}", "POST", self.dry(), raw=raw)
        for content_type in ("application/yaml", "text/plain", "application/json; charset=x", ""):
            what = f"as-{content_type or 'none'}"
            yield self.step(what, "POST", self.dry(), body=right, content_type=content_type)
        for accept in DATA["accepts"]:
            yield self.step("accept", "POST", self.dry(), body=right, accept=accept)

    def life(self) -> Iterator[Step]:
        subject, name = self._subject, self._name
        path = subject.path(name)
        saved = f"{self._prefix}.uid"
        obj = subject.object(name, labels={"life": name})
        settles = "flowcontrol" in subject.kind.group
        yield self.step("get-none", "GET", path)
        yield self.step("put-none", "PUT", path, body=obj)
        yield self.step("delete-none", "DELETE", path)
        yield self.step(
            "create", "POST", subject.collection, body=obj,
            save={saved: "metadata.uid"}, is_settling=settles,
        )  # fmt: skip
        yield self.step("again", "POST", subject.collection, body=obj)
        for accept in DATA["accepts"]:
            yield self.step("get", "GET", path, accept=accept)
            yield self.step("list", "GET", self.selected(), accept=accept)
        for query in ("pretty=1", "resourceVersion=0", "resourceVersion=abc", "resourceVersion=-1"):
            yield self.step("get-query", "GET", f"{path}?{query}")
        if self._index == 0:  # which waits for seconds
            yield self.step("get-future", "GET", f"{path}?resourceVersion=999999999")
        for query in ("includeObject=None", "includeObject=Object", "includeObject=Else"):
            accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
            yield self.step("table", "GET", f"{path}?{query}", accept=accept)
            yield self.step("tables", "GET", f"{self.selected()}&{query}", accept=accept)
        yield from self.replacements(obj, saved)
        yield from self.patches()
        yield from self.applications(obj)
        yield from self.subresources(obj)
        yield from self.deletions(saved)

    def selected(self) -> str:
        return f"{self._subject.collection}?labelSelector=life%3D{self._name}"

    def replacements(self, obj: dict[str, Any], saved: str) -> Iterator[Step]:
        path = self._subject.path(self._name)
        text = json.dumps(DATA["replaced_metadata"]).replace("<name>", self._name)
        changes = json.loads(text.replace("<uid>", f"${{{saved}}}"))
        for metadata in changes:
            for query in ("dryRun=All", "dryRun=All&fieldManager=other"):
                body = {**obj, "metadata": {**obj["metadata"], **metadata}}
                yield self.step("put", "PUT", f"{path}?{query}", body=body)
        paths = list(leaves(self._subject.rich))
        for _ in range(self._subject.samples // 4):
            place, value = self._chance.choice(paths), self._chance.choice(DATA["values"])
            content = replaced(self._subject.rich, place, value)
            yield self.step("put-value", "PUT", f"{path}?dryRun=All", body={**obj, **content})
        changed = {**obj, "metadata": {**obj["metadata"], "annotations": {"a": "b"}}}
        yield self.step("put-stored", "PUT", f"{path}?fieldManager=second", body=changed)
        yield self.step("put-same", "PUT", f"{path}?fieldManager=third", body=changed)
        for what, method, target in (
            ("put-collection", "PUT", self._subject.collection),
            ("patch-collection", "PATCH", self._subject.collection),
            ("post-object", "POST", path),
            ("options", "OPTIONS", path),
            ("unknown-sub", "GET", f"{path}/nothing"),
            ("trailing", "GET", f"{path}/"),
            ("deep", "GET", f"{path}/status/more"),
        ):
            yield self.step(what, method, target, body=obj if method != "GET" else None)

    def patches(self) -> Iterator[Step]:
        path = self._subject.path(self._name)
        for content_type in DATA["patch_types"]:
            query = "dryRun=All"
            if content_type.endswith("yaml"):
                query += "&fieldManager=applier"
            for raw in DATA["patch_bodies"]:
                yield self.step(
                    "patch", "PATCH", f"{path}?{query}", raw=raw, content_type=content_type
                )
        merge = MERGE
        for query in ("fieldValidation=Strict", "fieldValidation=Ignore", "force=true", "force=x"):
            yield self.step(
                "patch-query", "PATCH", f"{path}?dryRun=All&{query}",
                raw='{"unknown":1,"metadata":{"labels":{"a":"b"}}}', content_type=merge,
            )  # fmt: skip
        for content_type in ("application/json", "", "application/merge-patch+json;charset=x"):
            yield self.step(
                "patch-as", "PATCH", f"{path}?dryRun=All", raw="{}", content_type=content_type
            )
        yield self.step(
            "patch-stored", "PATCH", path, body=self._subject.change, content_type=merge
        )
        yield self.step("patched", "GET", path)
        yield self.step(
            "patch-none", "PATCH", self._subject.path("none"), raw="{}", content_type=merge
        )

    def applications(self, obj: dict[str, Any]) -> Iterator[Step]:
        path, apply = self._subject.path(self._name), APPLY
        other = self._subject.path(f"{self._name}-applied")
        configuration = {**obj, "metadata": {"name": self._name, "labels": {"life": "other"}}}
        for query in (
            "",
            "fieldManager=one",
            "fieldManager=one&force=true&dryRun=All",
            "fieldManager=one&force=maybe&dryRun=All",
            "fieldManager=&force=true",
        ):
            yield self.step(
                "apply", "PATCH", f"{path}?{query}", body=configuration, content_type=apply
            )
        for metadata in DATA["applied_metadata"]:
            body = {**obj, "metadata": {"name": self._name, **metadata}}
            for target in (path, other):
                query = "fieldManager=one&force=true&dryRun=All"
                yield self.step(
                    "apply-metadata", "PATCH", f"{target}?{query}", body=body, content_type=apply
                )
        paths = list(leaves(self._subject.rich))
        for _ in range(self._subject.samples // 5):
            place, value = self._chance.choice(paths), self._chance.choice(DATA["values"])
            content = replaced(self._subject.rich, place, value)
            body = {**obj, **content, "metadata": {"name": f"{self._name}-applied"}}
            yield self.step(
                "apply-value", "PATCH", f"{other}?fieldManager=one&dryRun=All",
                body=body, content_type=apply,
            )  # fmt: skip

    def subresources(self, obj: dict[str, Any]) -> Iterator[Step]:
        path = self._subject.path(self._name)
        for name in ("status", "finalize", "eviction", "scale"):
            target = f"{path}/{name}"
            yield self.step(f"get-{name}", "GET", target)
            yield self.step(f"put-{name}", "PUT", f"{target}?dryRun=All", body=obj)
            yield self.step(f"post-{name}", "POST", f"{target}?dryRun=All", body=obj)
            yield self.step(
                f"patch-{name}", "PATCH", f"{target}?dryRun=All",
                raw='{"status":{"conditions":[{}]},"metadata":{"labels":{"new":"x"}}}',
                content_type=MERGE,
            )  # fmt: skip
            yield self.step(f"delete-{name}", "DELETE", f"{target}?dryRun=All")

    def deletions(self, saved: str) -> Iterator[Step]:
        path = self._subject.path(self._name)
        for query in DATA["delete_queries"]:
            yield self.step("delete-query", "DELETE", f"{path}?{query}")
        for body in DATA["delete_bodies"]:
            yield self.step("delete-body", "DELETE", path, body=body)
        for accept in DATA["accepts"]:
            yield self.step("delete-accept", "DELETE", f"{path}?dryRun=All", accept=accept)
        yield self.step("delete-many", "DELETE", f"{self.selected()}&dryRun=All")
        yield self.step("delete-many-bad", "DELETE", f"{self.selected()}&dryRun=All&limit=x")
        body = {"preconditions": {"uid": f"${{{saved}}}"}, "gracePeriodSeconds": 0}
        yield self.step("delete", "DELETE", path, body=body)
        if self._subject.kind.plural == "namespaces":
            ended = self._subject.object(self._name, {"spec": {}})
            yield self.step("end", "PUT", f"{path}/finalize", body=ended)
        yield self.step("deleted", "GET", path)

    def lists(self) -> Iterator[Step]:
        collection = self._subject.collection
        for query in DATA["list_queries"]:
            yield self.step("list-query", "GET", f"{collection}?{query}")
        for query in DATA["watch_queries"]:
            yield self.step("watch-query", "GET", f"{collection}?{query}", is_watch=True)
        if self._subject.kind.is_namespaced:
            everywhere = collection.replace("/namespaces/default", "")
            for query in ("", "fieldSelector=metadata.namespace%3Dnone", "limit=x"):
                yield self.step("everywhere", "GET", f"{everywhere}?{query}")
            yield self.step("create-nowhere", "POST", everywhere, body={})
            nowhere = collection.replace("default", "no-such")
            yield self.step("other-namespace", "GET", nowhere)
            yield self.step(
                "create-there", "POST", f"{nowhere}?dryRun=All", body=self._subject.object("a")
            )
        watched = f"{collection.replace(self._subject.version, f'{self._subject.version}/watch')}"
        yield self.step("watch-path", "GET", f"{watched}/none?timeoutSeconds=1", is_watch=True)
        yield self.step("watch-post", "POST", watched, body={})


def evictions() -> Iterator[Step]:
    """An unguarded pod, then one whose budget is not known yet, then one that may be evicted."""
    metadata = {"name": "evicted", "labels": EVICTED}
    content = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": content}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": EVICTED}},
    }
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 2}
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    yield Step("evict-none", "POST", EVICTION, body=DATA["eviction_bodies"][1], content_type=JSON)
    yield Step("evict-pod", "POST", PODS, body=pod, content_type=JSON)
    yield from attempts("free")
    yield Step("evict-budget", "POST", BUDGETS, body=budget, content_type=JSON)
    yield from attempts("pending")
    yield Step(
        "evict-running", "PATCH", f"{PODS}/evicted/status",
        body={"status": running}, content_type=MERGE,
    )  # fmt: skip
    yield from attempts("guarded")
    yield Step(
        "evict-allow", "PATCH", f"{BUDGETS}/guard/status",
        body={"status": status}, content_type=MERGE,
    )  # fmt: skip
    yield from attempts("allowed")
    other = {**budget, "metadata": {"name": "second"}}
    yield Step("evict-second", "POST", BUDGETS, body=other, content_type=JSON)
    yield from attempts("twice")
    for path in (f"{BUDGETS}/guard", f"{BUDGETS}/second", f"{PODS}/evicted?gracePeriodSeconds=0"):
        yield Step(f"evict-end-{path}", "DELETE", path)


def attempts(when: str) -> Iterator[Step]:
    """Evictions of which none takes place."""
    for at, body in enumerate(DATA["eviction_bodies"]):
        for query in DATA["eviction_queries"]:
            name = f"evict-{when}-{at}-{query}"
            yield Step(name, "POST", f"{EVICTION}?{query}", body=body, content_type=JSON)
    for accept in DATA["eviction_accepts"]:
        path = f"{EVICTION}?dryRun=All"
        yield Step(
            f"evict-{when}-{accept}", "POST", path,
            body=DATA["eviction_bodies"][1], content_type=JSON, accept=accept,
        )  # fmt: skip


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def discovery() -> Iterator[Step]:
    for path in DATA["discovery"]:
        for accept in DATA["accepts"][:10]:
            yield Step(f"discovery-{path}-{accept}", "GET", path, accept=accept)
        yield Step(f"discovery-post-{path}", "POST", path, body={}, content_type="application/json")
    for version in ("v2", "v2beta1", "v1"):
        for path in ("/api", "/apis"):
            accept = AGGREGATED.format(version)
            yield Step(f"aggregated-{version}-{path}", "GET", path, accept=accept)
            accept = f"{accept},application/json"
            yield Step(f"aggregated-or-{version}-{path}", "GET", path, accept=accept)


def is_kept(step: Step) -> bool:
    """Whether later steps may depend on what a step changes."""
    return step.method != "GET" and "dryRun" not in f"{step.path} {step.body}"


def is_judged(step: Step) -> bool:
    """Whether the answer does not depend on fields of pods that the embedded server only keeps.

    A rich pod has many of them: of those only wrong types of other fields can be compared.
    """
    if not step.id.startswith("pods-"):
        return True
    if not step.id.endswith(("rich", "value", "without")):
        return '"spec":{"unknown"' not in (step.raw or "")
    try:
        read(POD.storage.schema, step.body)
    except MismatchError:
        return True
    return False


def requests(seed: int = 0, share: float = 1.0) -> list[Step]:
    """All requests, or some of them."""
    found = [*discovery(), *evictions()]
    for index, subject in enumerate(SUBJECTS):
        chance = random.Random(f"{seed} {index}")  # noqa: S311 - of tests
        found += Requests(subject, index, chance).all()
    chance = random.Random(f"{seed} share")  # noqa: S311 - of tests
    drawn = [step for step in found if chance.random() < share or is_kept(step)]
    return [step for step in drawn if is_judged(step)]
