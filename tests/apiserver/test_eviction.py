"""Tests of `apfproxy.apiserver.eviction`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.core.kinds import POD
from apfproxy.apiserver.errors import StatusError, conflict
from apfproxy.apiserver.eviction import ATTEMPTS, evict
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

ALLOWED = {
    "observedGeneration": 1,
    "disruptionsAllowed": 1,
    "currentHealthy": 2,
    "desiredHealthy": 1,
    "expectedPods": 2,
}
SUCCESS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


async def started(*, ready: str = "True") -> Scene:
    """A scene with one pod."""
    scene = Scene()
    await scene.namespace()
    await scene.pod("p", ready=ready)
    return scene


async def protect(scene: Scene, status: Object, **spec: Any) -> None:  # noqa: ANN401  JSON
    """Add a budget with a status."""
    await scene.budget("b", **spec)
    await scene.change(
        POD_DISRUPTION_BUDGET, "b", {"status": status}, "default", subresource="status"
    )


async def evicted(scene: Scene, **options: Any) -> Object:  # noqa: ANN401  of DeleteOptions
    """Evict the pod."""
    named = {"metadata": {"name": "p"}}
    return await evict(scene.registry, "default", "p", named, DeleteOptions(**options))


async def refusal(scene: Scene, **options: Any) -> StatusError:  # noqa: ANN401  of DeleteOptions
    """Why the pod cannot be evicted."""
    with pytest.raises(StatusError) as error:
        await evicted(scene, **options)
    return error.value


def is_ending(scene: Scene) -> bool:
    """Whether the pod is being deleted."""
    return "deletionTimestamp" in scene.registry.get(POD, "default", "p")["metadata"]


async def test_unprotected_pods_go() -> None:
    """With a note in their status why."""
    scene = await started()

    assert SUCCESS == await evicted(scene)
    pod = scene.registry.get(POD, "default", "p")
    assert is_ending(scene)
    assert "DisruptionTarget" == pod["status"]["conditions"][-1]["type"]


async def test_options_are_honoured() -> None:
    """Such as the grace period."""
    scene = await started()
    await evicted(scene, grace_period_s=0)

    assert [] == scene.names(POD)


async def test_dry_run() -> None:
    """Nothing changes, neither the pod nor the budget."""
    scene = await started()
    await protect(scene, ALLOWED)
    version = scene.store.resource_version

    assert SUCCESS == await evicted(scene, is_dry_run=True)
    assert version == scene.store.resource_version


async def test_names_have_to_agree() -> None:
    """The eviction names the pod of the path."""
    scene = await started()
    with pytest.raises(StatusError, match="name in URL does not match") as error:
        await evict(scene.registry, "default", "p", {"metadata": {"name": "q"}}, DeleteOptions())

    assert error.value.code == 400


async def test_missing_pods() -> None:
    """404, as everywhere."""
    scene = await started()
    with pytest.raises(StatusError, match='pods "q" not found'):
        await evict(scene.registry, "default", "q", {"metadata": {"name": "q"}}, DeleteOptions())


async def test_budgets_count_down() -> None:
    """The budget notes the pod, and allows nothing more."""
    scene = await started()
    await protect(scene, ALLOWED)

    assert SUCCESS == await evicted(scene)
    budget = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")
    assert budget["status"]["disruptionsAllowed"] == 0
    assert {"p": "2001-09-09T01:46:40Z"} == budget["status"]["disruptedPods"]
    assert "kube-apiserver" in {
        managed["manager"] for managed in budget["metadata"]["managedFields"]
    }
    assert is_ending(scene)


async def test_budgets_refuse() -> None:
    """With the cause, and without a time to come back unless it is known."""
    scene = await started()
    await protect(scene, {**ALLOWED, "disruptionsAllowed": 0})

    error = await refusal(scene)

    message = "The disruption budget b does not allow evicting pods currently"
    assert (429, "TooManyRequests", 0) == (error.code, error.reason, error.retry_after_s)
    assert {"causes": [{"reason": "DisruptionBudget", "message": message}]} == error.details
    assert not is_ending(scene)


async def test_unprocessed_budgets_refuse() -> None:
    """For the time being."""
    scene = await started()
    await scene.budget("b", minAvailable=1)

    error = await refusal(scene)

    assert (429, 10) == (error.code, error.retry_after_s)
    assert error.status()["details"]["retryAfterSeconds"] == 10


async def test_budgets_that_are_far_behind_refuse() -> None:
    """403, as it is no use to try again."""
    scene = await started()
    disrupted = {f"p{i}": "2001-09-09T01:46:40Z" for i in range(2001)}
    await protect(scene, {**ALLOWED, "disruptedPods": disrupted})

    error = await refusal(scene)

    assert (403, "Forbidden") == (error.code, error.reason)
    assert error.message.startswith('poddisruptionbudget.policy "b" is forbidden: DisruptedPods')


async def test_several_budgets() -> None:
    """That is not supported."""
    scene = await started()
    await scene.budget("b")
    await scene.budget("c")

    error = await refusal(scene)

    assert (500, "") == (error.code, error.reason)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
async def test_pods_that_do_not_run_go(phase: str) -> None:
    """Whatever budgets say."""
    scene = await started()
    await protect(scene, {**ALLOWED, "disruptionsAllowed": 0})
    status = scene.registry.get(POD, "default", "p")["status"]
    await scene.change(POD, "p", {"status": {**status, "phase": phase}}, "default", "status")

    assert SUCCESS == await evicted(scene, grace_period_s=0)
    assert [] == scene.names(POD)


async def test_unhealthy_pods_go() -> None:
    """They do not count as long as enough others are healthy."""
    scene = await started(ready="False")
    await protect(scene, {**ALLOWED, "disruptionsAllowed": 0})

    assert SUCCESS == await evicted(scene, grace_period_s=0)
    assert [] == scene.names(POD)
    status = scene.registry.get(POD_DISRUPTION_BUDGET, "default", "b")["status"]
    assert "disruptedPods" not in status


@pytest.mark.parametrize(
    ("option", "told"), [("uid", "the UID in the"), ("resource_version", "the ResourceVersion in")]
)
@pytest.mark.parametrize("wanted", ["1", ""])
async def test_preconditions(option: str, told: str, wanted: str) -> None:
    """An eviction may be meant for one state of one pod."""
    scene = await started()

    error = await refusal(scene, **{option: wanted})

    assert (409, "Conflict") == (error.code, error.reason)
    assert told in error.message
    metadata = scene.registry.get(POD, "default", "p")["metadata"]
    right = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
    assert SUCCESS == await evicted(scene, **right)


def never_right(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let each deletion find another pod than it expects; notes the attempts."""
    attempts = []

    async def refuse(_kind: object, _namespace: str, name: str, _options: DeleteOptions) -> None:
        attempts.append(name)
        raise conflict("", "pods", name, "modified")

    monkeypatch.setattr(scene.registry, "delete", refuse)
    return attempts


async def test_pods_that_keep_changing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion of a pod that no budget protects is tried again, some times."""
    scene = await started()
    status = scene.registry.get(POD, "default", "p")["status"]
    await scene.change(POD, "p", {"status": {**status, "phase": "Pending"}}, "default", "status")
    attempts = never_right(scene, monkeypatch)

    error = await refusal(scene)

    assert 409 == error.code
    assert ATTEMPTS == len(attempts)


@pytest.mark.parametrize(("version", "code"), [(None, 429), ("own", 409)])
async def test_unhealthy_pods_that_change(
    version: str | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the budget has to be asked again, unless the client wanted that very state."""
    scene = await started(ready="False")
    await protect(scene, ALLOWED)
    if version:
        version = scene.registry.get(POD, "default", "p")["metadata"]["resourceVersion"]
    never_right(scene, monkeypatch)

    assert code == (await refusal(scene, resource_version=version)).code
