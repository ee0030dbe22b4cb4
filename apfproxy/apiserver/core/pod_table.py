"""Pods as rows of a table.

Source: Kubernetes, the printers of kube-apiserver, whose answers `kubectl get pods` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.core.pod_strategy import ENDED
from apfproxy.apiserver.core.resources import containers_of
from apfproxy.apiserver.kind import Column
from apfproxy.apiserver.metadata import is_true

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

NONE = "<none>"
POD_COLUMNS = (
    Column("Name", "string", "Unique within the namespace.", format="name"),
    Column("Ready", "string", "How many containers are ready, and how many there are."),
    Column("Status", "string", "Phase of the pod, or what its containers wait for or ended with."),
    Column("Restarts", "string", "How often containers were restarted, and when the last time."),
    Column("Age", "string", "Time since the server created the object."),
    Column("IP", "string", "Address of the pod.", priority=1),
    Column("Node", "string", "Node that the pod is assigned to.", priority=1),
    Column("Nominated Node", "string", "Node where room is being made for it.", priority=1),
    Column("Readiness Gates", "string", "How many of its readiness gates are true.", priority=1),
)
ROW_CONDITIONS = {
    phase: (
        {"type": "Completed", "status": "True", "reason": phase, "message": f"The pod {told}."},
    )
    for phase, told in (("Succeeded", "has completed successfully"), ("Failed", "failed"))
}
"""What Tables say of pods that run no more, by phase."""


class Summary:
    """What the statuses of a pod's containers come to.

    Attributes:
        reason: What the status column shows.
        ready: Containers that are ready.
        restarts: Of the containers that count.
        last_restart: When a container ended last and was restarted, RFC 3339 or "".
        is_initializing: Whether an init container has yet to end well, or to start for good.
    """

    def __init__(self, obj: Object) -> None:
        status = obj["status"]
        self.reason: str = status.get("reason") or status.get("phase", "")
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.is_initializing = False
        for condition in status.get("conditions", ()):
            if (condition["type"], condition.get("reason")) == ("PodScheduled", "SchedulingGated"):
                self.reason = "SchedulingGated"
        sidecars = {
            container["name"]
            for container in containers_of(obj["spec"], "initContainers")
            if container.get("restartPolicy") == "Always"
        }
        self.add_init_containers(obj, sidecars)
        if not self.is_initializing or is_true(status, "Initialized"):
            self.restarts, self.last_restart = 0, ""
            for container in status.get("initContainerStatuses", ()):
                if container["name"] in sidecars:
                    self.count_restarts(container)
            self.add_containers(status)
        self.total = len(containers_of(obj["spec"])) + len(sidecars)
        if "deletionTimestamp" in obj["metadata"]:
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif status.get("phase") not in ENDED:
                self.reason = "Terminating"

    def count_restarts(self, container: Object) -> None:
        """Count the restarts of a container."""
        self.restarts += container["restartCount"]
        ended = container["lastState"].get("terminated", {}).get("finishedAt")
        self.last_restart = max(self.last_restart, ended or "")

    def add_init_containers(self, obj: Object, sidecars: set[str]) -> None:
        """Look at init containers up to the first that has yet to end well, or to start."""
        for index, container in enumerate(obj["status"].get("initContainerStatuses", ())):
            self.count_restarts(container)
            state = container["state"]
            ended, waiting = state.get("terminated"), state.get("waiting", {}).get("reason", "")
            if ended is not None and ended["exitCode"] == 0:
                continue
            if container["name"] in sidecars and container.get("started"):
                self.ready += container["ready"]
                continue
            if ended is not None:
                self.reason = f"Init:{end_of(ended)}"
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                count = len(containers_of(obj["spec"], "initContainers"))
                self.reason = f"Init:{index}/{count}"
            self.is_initializing = True
            return

    def add_containers(self, status: Object) -> None:
        """Look at the containers; what the first of them waits for or ended with is shown."""
        is_running = False
        for container in reversed(status.get("containerStatuses", ())):
            self.count_restarts(container)
            state = container["state"]
            if state.get("waiting", {}).get("reason"):
                self.reason = state["waiting"]["reason"]
            elif "terminated" in state:
                self.reason = end_of(state["terminated"])
            elif container["ready"] and "running" in state:
                is_running = True
                self.ready += 1
        if self.reason == "Completed" and is_running:
            self.reason = "Running" if is_true(status, "Ready") else "NotReady"


def end_of(ended: dict[str, Any]) -> str:
    """How a container ended, in one word."""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended['exitCode']}"


def pod_cells(obj: Object, now_s: float) -> Sequence[object]:
    """The cells of a pod's row."""
    spec, status, metadata = obj["spec"], obj["status"], obj["metadata"]
    summary = Summary(obj)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({age(summary.last_restart, now_s)} ago)"
    addresses = status.get("podIPs") or [{"ip": NONE}]
    gates = spec.get("readinessGates", ())
    are_true = sum(is_true(status, gate["conditionType"]) for gate in gates)
    return (
        metadata["name"],
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age(metadata.get("creationTimestamp"), now_s),
        addresses[0]["ip"],
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{are_true}/{len(gates)}" if gates else NONE,
    )
