"""The status of disruption budgets, and marks of disruptions that do not come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from apfproxy.apiserver.controllers import disruption
from apfproxy.apiserver.controllers.disruption import Disruption
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.metadata import find_condition
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET, STATUS_NUMBERS
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import NOW, Driver, Scene

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

BUDGETS = POD_DISRUPTION_BUDGET
KINDS = {"deployment": DEPLOYMENT, "replicas": REPLICA_SET, "stateful": STATEFUL_SET}
CASES = {
    "numbers-follow-pods": """
        pod p; pod q; budget b 1; = 1 2 1 2
        pod r ready=False; = 1 2 1 3
        pod s; delete p; = 1 2 1 4
        end p; = 1 2 1 3
    """,
    "a-pod-counts-while-the-selector-matches": """
        pod p; pod q; budget b 1 web; = 1 2 1 2
        set p labels app db; = 0 1 1 1
        select b 0 db; = 1 1 0 1
    """,
    "an-evicted-pod-counts-again-after-two-minutes": """
        pod p; pod q; budget b 1; = 1 2 1 2
        evicted b p; = 0 1 1 2; wait 119; = 0 1 1 2; wait 1; = 1 2 1 2
    """,
    "neither-its-own-write-nor-an-unimportant-change-makes-it-write": """
        pod p; budget b 1; looks 2; restart; looks 1
        set p annotations a b; looks 0; writes 0
    """,
    "a-pod-concerns-the-budgets-that-match-it": """
        pod p; budget b 1; budget c 1 db; looks 4
        end p; looks 2; = 0 0 1 0
        pod q; delete q; end q; looks 0
        pod r; looks 2; delete r; end r; looks 2
        unbudget c; looks 0
    """,
    "a-change-of-a-pod-reads-no-others": """
        pod p; pod q; budget b 1 web; budget c 1 db; = 1 2 1 2
        blind; pod r; end p; set q labels app db; = 0 1 1 1
    """,
    "a-new-budget-reads-pods-as-they-are-then": """
        pod p; pod q; budget b 1; = 1 2 1 2; restart; end p; pod r ready=False; = 0 1 1 2
    """,
    "others-run-while-a-new-budget-reads-pods": """
        pod p; pod q; budget b 1; = 1 2 1 2; restart; turns 2
    """,
    "nothing-is-kept-of-budgets-that-are-gone": """
        pod p; budget b 1; looks 2; unbudget b; looks 0; end p; looks 0; empty
    """,
    "a-percentage-is-of-what-the-highest-controllers-want": """
        deployment d 4; replicas r 9 < d; pod p < r; pod q < r; budget b 50%; = 0 2 2 4
        deployment d 2; = 1 2 1 2
    """,
    "a-controller-below-one-that-has-no-scale-counts": """
        stateful s 3; replicas r 4 < s; pod p < r; budget b 50%; = 0 1 2 4
    """,
    "a-controller-that-is-not-there": """
        stateful s 4; pod p < s; unkind s; budget b 50%; failed found no controllers for pod "p"
    """,
    "another-controller-of-the-name": """
        stateful s 4; pod p < s; unkind s; stateful s 4; budget b 50%
        failed found no controllers for pod "p"
    """,
    "no-percentage": """
        pod p; budget b 0; = 1 1 0 1; store b minAvailable 5; failed string is not a percentage
    """,
    "no-selector": """
        pod p; budget b 0; = 1 1 0 1; store b selector Near; failed is not a valid label selector
    """,
    "marks-go-after-two-minutes-if-their-disruption-does-not-come": """
        pod p; mark p; pod gone; mark gone; pod ending; mark ending
        pod kubelet; mark kubelet reason=TerminationByKubelet; pod unset; mark unset status=False
        pod failed; mark failed phase=Failed; pod done; mark done phase=Succeeded
        wait 119; unmarked; delete ending; end gone; wait 1; unmarked p
    """,
}
"""`=` has the allowed disruptions of budget b, and its healthy, desired and expected pods; all pods
are labelled `app=web`; what is stored as it is a stricter server would have refused."""


class Play:
    def __init__(self) -> None:
        self.scene = Scene()
        self.driver = Driver(Disruption(self.scene.registry), self.scene)
        self.written = 0
        self.owners: dict[str, Object] = {}

    def status(self, name: str = "b") -> Object:
        status: Object = self.scene.registry.get(BUDGETS, "default", name)["status"]
        return status

    def unmarked(self) -> list[str]:
        found = []
        for pod in self.scene.registry.objects(POD):
            mark = find_condition(pod["status"], "DisruptionTarget") or {}
            if mark["lastTransitionTime"] != NOW:
                found.append(pod["metadata"]["name"])
                managers = {each["manager"] for each in pod["metadata"]["managedFields"]}
                assert "DisruptionController" in managers
                expected = ("False", "2001-09-09T01:48:40Z")
                assert expected == (mark["status"], mark["lastTransitionTime"])
        return found

    async def check(self, step: str, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Carry out a step that is about the controller; False if it is none."""
        scene = self.scene
        match step.split():
            case ["=", *expected]:
                await self.driver.settle()
                status = self.status()
                assert list(map(int, expected)) == [status[name] for name in STATUS_NUMBERS], step
            case ["failed", *told]:
                await self.driver.settle()
                (condition,) = self.status()["conditions"]
                assert ("False", "SyncFailed") == (condition["status"], condition["reason"])
                assert self.status()["disruptionsAllowed"] == 0
                assert " ".join(told) in condition["message"]
            case ["looks", number]:
                self.written = scene.store.resource_version
                self.driver.looks = 0
                await self.driver.settle()
                assert int(number) == self.driver.looks, step
            case ["writes", number]:
                assert int(number) == scene.store.resource_version - self.written
            case ["mark", name, *more]:
                fields = dict(each.split("=") for each in more)
                status = scene.registry.get(POD, "default", name)["status"]
                phase = fields.pop("phase", "Running")
                mark = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByAPI"}
                conditions = [*status["conditions"], {**mark, "lastTransitionTime": NOW, **fields}]
                status = {**status, "phase": phase, "conditions": conditions}
                await scene.change(POD, name, {"status": status}, "default", "status")
            case ["unmarked", *names]:
                await self.driver.settle()
                assert names == self.unmarked()
            case ["restart"]:
                self.driver = Driver(Disruption(scene.registry), scene)
            case ["turns", number]:
                monkeypatch.setattr(disruption, "CONDITIONS_AT_ONCE", 1)
                settling = asyncio.create_task(self.driver.settle())
                for _ in range(int(number)):
                    await asyncio.sleep(0)
                    assert not settling.done()
                await settling
            case ["blind"]:
                monkeypatch.delattr(type(scene.store.collection(POD.collection)), "snapshot")
            case ["empty"]:
                assert "<Disruption in 0 namespaces>" == repr(self.driver.controller)
                assert await self.driver.look("default", "b") is None
            case _:
                return False
        return True

    async def act(self, step: str) -> None:
        scene = self.scene
        words, _, above = step.partition(" < ")
        metadata = {"ownerReferences": [self.owners[above]]} if above else {}
        match words.split():
            case ["pod", name, *ready]:
                await scene.pod(name, ready="False" if ready else "True", **metadata)
            case ["budget", name, least, *apps]:
                await scene.budget(name, **budget_spec(least, apps))
            case ["select", name, least, *apps]:
                await scene.change(BUDGETS, name, {"spec": budget_spec(least, apps)}, "default")
            case ["store", name, field, value]:
                budget = scene.registry.get(BUDGETS, "default", name)
                wrong = {"matchExpressions": [{"key": "a", "operator": value}]}
                spec = {**budget["spec"], field: wrong if field == "selector" else value}
                scene.store.put(BUDGETS.resource, {**budget, "spec": spec}, {})
            case ["evicted", name, pod]:
                status = {**self.status(name), "disruptedPods": {pod: NOW}, "disruptionsAllowed": 0}
                await scene.change(BUDGETS, name, {"status": status}, "default", "status")
            case ["set", name, field, key, value]:
                changed = {**scene.registry.get(POD, "default", name)["metadata"]}
                changed[field] = {key: value}
                await scene.change(POD, name, {"metadata": changed}, "default")
            case ["delete", name]:
                await scene.delete(POD, name, "default")
            case ["end", name]:
                await scene.registry.delete(POD, "default", name, DeleteOptions(grace_period_s=0))
            case ["unbudget", name]:
                await scene.delete(BUDGETS, name, "default")
            case ["unkind", name]:
                await scene.delete(STATEFUL_SET, name, "default")
            case ["wait", seconds]:
                scene.now_s += int(seconds)
            case [kind, name, replicas]:
                spec = {"replicas": int(replicas)}
                if name in scene.names(KINDS[kind]):
                    await scene.change(KINDS[kind], name, {"spec": spec}, "default")
                    return
                raw = {"metadata": {"name": name, **metadata}, "spec": spec}
                made = await scene.create(KINDS[kind], raw, "default")
                owner: Object = {"kind": KINDS[kind].name, "name": name, "apiVersion": "apps/v1"}
                owner |= {"uid": made["metadata"]["uid"], "controller": True}
                self.owners.setdefault(name, owner)


def budget_spec(least: str, apps: list[str]) -> Object:
    selector = {"matchLabels": {"app": apps[0]}} if apps else {}
    return {"minAvailable": int(least) if least.isdigit() else least, "selector": selector}


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
async def test_cases(steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play()
    await play.scene.namespace()
    for step in steps.strip().replace("\n", ";").split(";"):
        if not await play.check(step, monkeypatch):
            await play.act(step)
