"""Pods: what recorded requests do not show of their defaults, rules, validation and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD, admit_create, pull_policy, qos_class
from apfproxy.apiserver.schema.reading import canonical, read
from apfproxy.objects.field_errors import Reason
from apfproxy.objects.go_text import parse_time
from tests.apiserver.schema.protobuf_writer import some_object

if TYPE_CHECKING:
    import random

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.field_errors import FieldError

Spec = dict[str, Any]
Causes = list[tuple[str, Reason]]

INVALID, REQUIRED, FORBIDDEN = Reason.INVALID, Reason.REQUIRED, Reason.FORBIDDEN
NOT_SUPPORTED, DUPLICATE = Reason.NOT_SUPPORTED, Reason.DUPLICATE
NOW_S = parse_time("2026-01-01T01:00:00Z")
STORED = {"uid": "1", "resourceVersion": "1", "generation": 1}


def container(**fields: object) -> Spec:
    return {"name": "c", "image": "nginx", **fields}


def pod(*, metadata: Spec | None = None, status: Spec | None = None, **spec: object) -> Spec:
    raw = {
        "metadata": {"name": "web", "namespace": "default", **STORED, **(metadata or {})},
        "spec": {"containers": [container()], **spec},
        "status": status or {},
    }
    obj = read(POD.storage.schema, raw).obj
    POD.storage.set_defaults(obj)
    return obj


def causes(errors: list[FieldError]) -> Causes:
    return [(error.field.removeprefix("spec."), error.reason) for error in errors]


def test_defaults() -> None:
    amounts = {"limits": {"cpu": "1500m", "memory": "1"}, "requests": {"cpu": "1m"}}
    made = pod(
        containers=[container(resources=amounts, ports=[{"containerPort": 80}])],
        serviceAccount="a",
        enableServiceLinks=False,
    )["spec"]

    assert {"cpu": "1m", "memory": "1"} == made["containers"][0]["resources"]["requests"]
    assert "TCP" == made["containers"][0]["ports"][0]["protocol"]
    assert ("a", "a", False) == tuple(
        made[name] for name in ("serviceAccountName", "serviceAccount", "enableServiceLinks")
    )
    assert "b" == pod(serviceAccount="a", serviceAccountName="b")["spec"]["serviceAccount"]


SHA = "sha256:" + "0" * 64
ALWAYS = f"""nginx:latest library/nginx localhost:5000/a registry.example.com/a__b/c-d [::1]:5000/a
    nginx:latest@{SHA} Registry/nginx {"0" * 63}"""
OTHERS = f"nginx:1.27 localhost:5000/a:v1 nginx@{SHA} Nginx / {'0' * 64} {'a' * 256} {'a' * 1001}"


@pytest.mark.parametrize("image", [*ALWAYS.split(), "", "a b", *OTHERS.split()])
def test_pull_policy(image: str) -> None:
    """The tag `latest` is pulled always, given or implied; digests and what is no name are not."""
    assert ("Always" if image in ALWAYS.split() else "IfNotPresent") == pull_policy(image)


def part(requests: Spec | None = None, limits: Spec | None = None) -> Spec:
    amounts = {"requests": requests, "limits": limits}
    return {"resources": {which: each for which, each in amounts.items() if each}}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [part({"cpu": "0"})]}, "BestEffort"),
        ({"containers": None}, "BestEffort"),
        ({"containers": [part({"cpu": "1"})]}, "Burstable"),
        ({"containers": [part(), part(BOTH, BOTH)]}, "Burstable"),
        ({"containers": [part({"cpu": "500m", "memory": "1Gi"}, BOTH)]}, "Burstable"),
        ({"containers": [part(BOTH, BOTH)], "initContainers": [part()]}, "Burstable"),
        ({"containers": [part(BOTH, BOTH)]}, "Guaranteed"),
    ],
)
def test_qos_class(spec: Spec, expected: str) -> None:
    assert expected == qos_class(spec)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec; "),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; ",
        ),
    ],
)
def test_refused_priority(given: Spec, expected: str) -> None:
    assert admit_create(pod(**given)).startswith(expected)


def test_what_is_left_out() -> None:
    patient, other = pod(tolerations=[{"operator": "Exists"}]), pod()
    assert ["", ""] == [admit_create(each) for each in (patient, other)]
    assert [1, 2] == [len(each["spec"]["tolerations"]) for each in (patient, other)]
    new = pod(status={"phase": "Running"})
    POD.rules.prepare_status(new, pod(status={"qosClass": "Burstable"}))
    assert {"phase": "Running", "qosClass": "Burstable"} == new["status"]


def test_creation() -> None:
    obj = pod(schedulingGates=[{"name": "a.b/c"}], status={"phase": "Running"})
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    POD.rules.prepare_create(obj)
    assert ("Pending", "SchedulingGated") == (obj["status"]["phase"], POD.cells(obj, NOW_S)[2])
    assert "2026-01-01T00:00:00Z" == obj["status"]["conditions"][0]["lastTransitionTime"]
    assert [] == POD.rules.warnings(obj, None)
    dotted = {"metadata": {"name": "a.b"}}
    assert [False, True] == [POD.rules.warnings(dotted, old) == [] for old in (None, dotted)]


def status(name: str = "c", restarts: int = 0, *, ready: bool = False, **state: object) -> Spec:
    """The status of a container; `last` is the state before."""
    last = state.pop("last", {})
    made: Spec = {"name": name, "restartCount": restarts, "ready": ready, "state": state}
    return {**made, "lastState": last}


def ended(code: int = 0, **fields: object) -> Spec:
    return {"exitCode": code, **fields}


def conditions(**given: str) -> list[Spec]:
    return [{"type": type_, "status": status} for type_, status in given.items()]


def of_init(*statuses: Spec, **fields: object) -> Spec:
    return {"initContainerStatuses": list(statuses), **fields}


def of(*statuses: Spec, **fields: object) -> Spec:
    return {"containerStatuses": list(statuses), **fields}


RUNNING = status(ready=True, running={})
COMPLETED = (status(terminated=ended(reason="Completed")), status("d", ready=True, running={}))
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
LAST = {"terminated": ended(1, finishedAt="2026-01-01T00:55:00Z")}
CRASHED = status(restarts=3, waiting={"reason": "CrashLoopBackOff"}, last=LAST)
STARTED = {**status("i", 4, ready=True, running={}), "started": True}
TWO = {"containers": [container(), container(name="d")]}
INIT = {"initContainers": [container(name="i"), container(name="j")]}
SIDECAR = {"initContainers": [container(name="i", restartPolicy="Always")]}

ROWS: dict[str, tuple[Spec, Spec, tuple[str, ...]]] = {
    "gated": ({"conditions": [GATED]}, {}, ("0/1", "SchedulingGated", "0")),
    "running": (of(RUNNING, phase="Running"), {}, ("1/1", "Running", "0")),
    "not-ready": (of(status(running={}), phase="Running"), {}, ("0/1", "Running", "0")),
    "waiting": (of(CRASHED), {}, ("0/1", "CrashLoopBackOff", "3 (5m ago)")),
    "exit-code": (of(status(restarts=1, terminated=ended(2))), {}, ("0/1", "ExitCode:2", "1")),
    "signal": (of(status(terminated=ended(137, signal=9))), {}, ("0/1", "Signal:9", "0")),
    "one-completed": (of(*COMPLETED), TWO, ("1/2", "NotReady", "0")),
    "one-completed-and-ready": (
        of(*COMPLETED, conditions=conditions(Ready="True")), TWO, ("1/2", "Running", "0"),
    ),
    "initializing": (
        of_init(status("i", 2, terminated=ended()), status("j", 1, running={})),
        INIT, ("0/1", "Init:1/2", "3"),
    ),
    "init-failed": (
        of_init(status("i", terminated=ended(1))), INIT, ("0/1", "Init:ExitCode:1", "0"),
    ),
    "init-about-to-start": (
        of_init(status("i", waiting={"reason": "PodInitializing"})),
        INIT, ("0/1", "Init:0/2", "0"),
    ),
    "sidecar": (
        of_init(STARTED, containerStatuses=[RUNNING], phase="Running"),
        SIDECAR, ("2/2", "Running", "4"),
    ),
    "initialized-before": (
        of_init(
            status("i", 7, running={}),
            conditions=conditions(Initialized="True"), containerStatuses=[RUNNING],
        ),
        INIT, ("1/1", "Init:0/2", "0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "spec", "expected"), ROWS.values(), ids=ROWS)
def test_rows(given: Spec, spec: Spec, expected: tuple[str, ...]) -> None:
    assert expected == tuple(POD.cells(pod(status=given, **spec), NOW_S)[1:4])


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"phase": "Failed"}, "Failed"), ({"phase": "Running", "reason": "NodeLost"}, "Unknown")],
)
def test_rows_of_deleted_pods(given: Spec, expected: str) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert expected == POD.cells(pod(status=given, metadata=deleted), NOW_S)[2]


def test_wide_rows() -> None:
    obj = pod(
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
        status={"podIP": "10.0.0.1", "nominatedNodeName": "m", "conditions": conditions(a="True")},
        nodeName="n",
        readinessGates=[{"conditionType": "a"}, {"conditionType": "b"}],
    )
    assert ("60m", "10.0.0.1", "n", "m", "1/2") == tuple(POD.cells(obj, NOW_S)[4:])


CONTAINER = "containers[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"a b": "c d"}}, [("nodeSelector", INVALID)] * 2),
        ({"activeDeadlineSeconds": 2**31}, [("activeDeadlineSeconds", INVALID)]),
        ({"terminationGracePeriodSeconds": -1}, []),
        ({"nodeName": "A"}, [("nodeName", INVALID)]),
        ({"readinessGates": [{"conditionType": "a b"}]},
         [("readinessGates[0].conditionType", INVALID)]),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]},
         [("schedulingGates[1]", DUPLICATE)]),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, [("nodeName", FORBIDDEN)]),
        ({"ephemeralContainers": [{}]}, [("ephemeralContainers", FORBIDDEN)]),
        ({"initContainers": [container()]}, [("initContainers[0].name", DUPLICATE)]),
        ({"volumes": [{"name": "A", "x": 1}], "affinity": 5, "hostAliases": [{"ip": "x"}]}, []),
        ({"containers": [{"name": "", "image": ""}]},
         [(f"{CONTAINER}.name", REQUIRED), (f"{CONTAINER}.image", REQUIRED)]),
        ({"containers": [container(name="A", image=" a", livenessProbe=5)]},
         [(f"{CONTAINER}.name", INVALID), (f"{CONTAINER}.image", INVALID)]),
    ],
)  # fmt: skip
def test_pods(spec: Spec, expected: Causes) -> None:
    assert expected == causes(POD.rules.validate(pod(**spec)))


PULL = {"imagePullPolicy": "Always"}
TAINT = {"key": "a", "effect": "NoExecute"}
GATES: Spec = {"schedulingGates": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"containers": [container(args=["a"])]}, [("spec", FORBIDDEN)]),
        ({}, {"containers": [container(image="", **PULL)]}, [(f"{CONTAINER}.image", REQUIRED)] * 2),
        ({"activeDeadlineSeconds": 4}, {"activeDeadlineSeconds": 5, "hostname": "a"},
         [("activeDeadlineSeconds", INVALID)]),
        ({"activeDeadlineSeconds": 4}, {}, [("activeDeadlineSeconds", INVALID)]),
        ({}, {"activeDeadlineSeconds": -1}, [("activeDeadlineSeconds", INVALID)] * 2),
        ({"tolerations": [TAINT]}, {}, [("tolerations", FORBIDDEN)]),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}, []),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 2},
         [("spec", FORBIDDEN)]),
        (GATES, {}, []),
        (GATES, {"schedulingGates": [{"name": "b"}]}, [("schedulingGates[0].name", FORBIDDEN)]),
        (GATES, {**GATES, "nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": {}}}, []),
        ({**GATES, "nodeSelector": {"a": "b"}}, GATES, [("nodeSelector", INVALID)]),
        (GATES, {**GATES, "hostname": "a"}, [("spec", FORBIDDEN)]),
        ({}, {"nodeSelector": {"a": "b"}}, [("spec", FORBIDDEN)]),
    ],
)  # fmt: skip
def test_updates(old: Spec, new: Spec, expected: Causes) -> None:
    assert expected == causes(POD.rules.validate_update(pod(**new), pod(**old)))


@given(st.randoms(use_true_random=True), st.sampled_from([POD, NAMESPACE]))
@settings(max_examples=60, deadline=None)
def test_anything_is_judged(chance: random.Random, kind: Kind) -> None:
    schema, rules = kind.storage.schema, kind.rules
    new, old = (read(schema, some_object(schema, chance, 0.4)).obj for _ in range(2))
    for obj in (new, old):
        obj["metadata"]["name"] = "x"
        kind.storage.set_defaults(obj)
    rules.admit_create(old)
    rules.prepare_create(old)
    stored, again = canonical(schema, old), canonical(schema, old)
    kind.storage.set_defaults(again)
    assert stored == canonical(schema, again)

    errors = rules.validate(stored)
    for prepare, validate in (
        (rules.prepare_update, rules.validate_update),
        (rules.prepare_status, rules.validate_status),
    ):
        changed = canonical(schema, new)
        prepare(changed, stored)
        errors += validate(changed, stored)
    assert stored == canonical(schema, again)
    assert all(str(error) for error in errors)
    assert len(kind.columns) == len(kind.cells(new, 0))
