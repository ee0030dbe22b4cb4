"""kubectl reads, from the API server behind the proxy over HTTP/2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from apfproxy.apiserver.kinds import KINDS
from tests.end_to_end.manifests import (
    budget,
    flow_schema,
    level,
    namespace,
    pod,
    resource_slice,
)

if TYPE_CHECKING:
    from tests.end_to_end.kubectl import Kubectl

BUDGETS_V1 = 21
"""From this minor version on budgets of policy/v1 are described; before, of a version long gone."""
WHOAMI = 28
"""From this minor version on `auth whoami` asks version 1."""
WAIT_JSONPATH = 23
"""From this minor version on `wait` takes jsonpath."""

NO_SUCH_RESOURCE = (
    "Error from server (NotFound): the server could not find the requested resource\n"
)


POD_COLUMNS = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_get_and_describe(kubectl: Kubectl) -> None:
    """Each kind has the columns that Kubernetes gives it, and is described in its own words."""
    inside = ("-n", "tables")
    kubectl.create(
        namespace("tables"),
        level("tables"),
        flow_schema("tables", "tables", 7000),
        resource_slice("tables"),
        budget("tables", "tables", "50%", app="tables"),
        pod("tables", "tables", app="tables"),
    )
    kubectl("wait", "flowschema/tables", "--for=condition=Dangling=False")
    schema = "NAME PRIORITYLEVEL MATCHINGPRECEDENCE DISTINGUISHERMETHOD AGE MISSINGPL"
    assert [schema.split(), ["tables", "tables", "7000", "ByUser", "AGE", "False"]] == rows(
        kubectl("get", "flowschema", "tables")
    )
    levels = "NAME TYPE NOMINALCONCURRENCYSHARES QUEUES HANDSIZE QUEUELENGTHLIMIT AGE"
    assert [
        levels.split(),
        ["tables", "Limited", "5", "<none>", "<none>", "<none>", "AGE"],
    ] == rows(kubectl("get", "prioritylevelconfiguration", "tables"))
    assert [
        ["NAME", "NODE", "DRIVER", "POOL", "AGE"],
        ["tables", "node-a", "gpu.example.com", "node-a", "AGE"],
    ] == rows(kubectl("get", "resourceslices", "tables"))
    assert (
        "NAME  MIN AVAILABLE  MAX UNAVAILABLE  ALLOWED DISRUPTIONS  AGE\ntables  50%  N/A  0  AGE\n"
    ) == kubectl("get", "pdb", "tables", *inside)
    assert [POD_COLUMNS, ["tables", "0/1", "Pending", "0", "AGE"]] == rows(
        kubectl("get", "pods", *inside)
    )
    assert ["<none>"] * 4 == rows(kubectl("get", "po", *inside, "-o", "wide"))[1][5:]
    assert "app=tables" in kubectl("get", "po", *inside, "--show-labels")
    assert [
        ["NAME", "STATUS", "AGE", "METADATA.NAME"],
        ["tables", "Active", "AGE", "tables"],
    ] == rows(kubectl("get", "ns", "tables", "-L", "kubernetes.io/metadata.name"))
    table = kubectl("get", "pdb,pods", *inside)
    assert "poddisruptionbudget.policy/tables" in table
    assert "pod/tables" in table
    assert "tables" in kubectl("get", "all", *inside)
    words = kubectl("describe", "flowschemas", "tables")
    assert "Matching Precedence:  7000" in words
    assert "Reason:  Found" in words
    words = kubectl("describe", "prioritylevelconfigurations", "tables")
    assert "Nominal Concurrency Shares:  5" in words
    assert "Value:  80Gi" in kubectl("describe", "resourceslices", "tables")
    words = kubectl("describe", "pods", "tables", *inside)
    assert "Port:  80/TCP" in words
    assert "QoS Class:  BestEffort" in words
    assert "Status:  Active" in kubectl("describe", "namespaces", "tables")
    kubectl("wait", "pdb/tables", "--for=condition=DisruptionAllowed=False", *inside)
    if kubectl.minor < BUDGETS_V1:
        assert NO_SUCH_RESOURCE == kubectl.fail("describe", "pdb", "tables", *inside)
    else:
        words = kubectl("describe", "pdb", "tables", *inside)
        assert "Min available:  50%\nSelector:  app=tables\n" in words
        assert "Desired:  0\n" in words


def test_explain(kubectl: Kubectl) -> None:
    for words, expected in (
        ("flowschema.spec", "matchingPrecedence"),
        ("pdb --recursive", "maxUnavailable"),
        ("pod.spec.containers", "imagePullPolicy"),
        ("resourceslice.spec.devices.capacity", "value"),
        ("pod.metadata.labels", "map[string]string"),
        ("flowschema --api-version=flowcontrol.apiserver.k8s.io/v1beta3", "v1beta3"),
    ):
        explained = kubectl("explain", *words.split())
        assert expected in explained
        assert "DESCRIPTION:" in explained
    assert 'field "colour" does not exist' in kubectl.fail("explain", "pod.spec.colour")
    assert "gizmo" in kubectl.fail("explain", "gizmo")


def test_discovery(kubectl: Kubectl) -> None:
    served = {kind.resource for kind in KINDS}
    assert served == set(kubectl("api-resources", "-o", "name").split())
    assert "poddisruptionbudgets.policy\n" == kubectl(
        "api-resources", "--api-group=policy", "-o", "name"
    )
    wide = kubectl("api-resources", "--namespaced=true", "-o", "wide")
    assert ["pods", "po", "v1", "true", "Pod"] == next(
        row for row in rows(wide) if row[0] == "pods"
    )[:5]
    versions = {kind.api_version(each.name) for kind in KINDS for each in kind.versions}
    assert sorted(versions) == kubectl("api-versions").split()
    assert ("1", "36") == (
        kubectl.json("version")["serverVersion"]["major"],
        kubectl.json("version")["serverVersion"]["minor"],
    )
    # It lists services of kube-system, which no server without services has.
    assert 'the server doesn\'t have a resource type "services"' in kubectl.fail("cluster-info")
    assert "ok" == kubectl("get", "--raw", "/readyz")
    assert "APIVersions" == json.loads(kubectl("get", "--raw", "/api"))["kind"]


def test_auth(kubectl: Kubectl) -> None:
    """Everybody may do everything, and is who the request says, in however many groups."""
    assert "yes\n" == kubectl("auth", "can-i", "delete", "pods", "-n", "kube-system")
    assert ["*.*", "[]", "[]", "[*]"] in rows(kubectl("auth", "can-i", "--list"))
    if kubectl.minor >= WHOAMI:
        assert ["Username", "system:anonymous"] in rows(kubectl("auth", "whoami"))
    if kubectl.minor >= WHOAMI:
        groups = [f"g{number}" for number in range(200)]
        flags = ["--as=ann", "--as-uid=7", *(f"--as-group={group}" for group in groups)]
        assert {"username": "ann", "uid": "7", "groups": [*groups, "system:authenticated"]} == (
            kubectl.json("auth", "whoami", *flags)["status"]["userInfo"]
        )


def test_watch(kubectl: Kubectl) -> None:
    kubectl.create(namespace("watched"), pod("one", "watched"))
    watch = ("get", "pods", "-n", "watched", "--watch")
    template = "jsonpath={.type} {.object.metadata.name} {.object.metadata.labels}{'\\n'}"
    with (
        kubectl.running(*watch, "-o", "name") as names,
        kubectl.running(*watch) as table,
        kubectl.running(*watch, "--output-watch-events", "-o", template) as events,
    ):
        assert "pod/one\n" == names.readline()
        assert POD_COLUMNS == table.readline().split()
        assert ["one", "0/1", "Pending", "0"] == table.readline().split()[:4]
        assert "ADDED one" == events.readline().strip()
        kubectl.create(pod("two", "watched"))
        assert "pod/two\n" == names.readline()
        assert ["two", "0/1", "Pending", "0"] == table.readline().split()[:4]
        assert "ADDED two" == events.readline().strip()
        kubectl("label", "pod", "-n", "watched", "two", "a=b")
        assert "pod/two\n" == names.readline()
        assert ["two", "0/1", "Pending", "0"] == table.readline().split()[:4]
        assert 'MODIFIED two {"a":"b"}' == events.readline().strip()
        kubectl("delete", "pod", "-n", "watched", "two")
        # A pod without a node is marked for deletion, then goes at once.
        assert ["pod/two\n", "pod/two\n"] == [names.readline(), names.readline()]
        assert ["MODIFIED", "DELETED"] == [events.readline().split()[0] for _ in "ab"]


def test_wait(kubectl: Kubectl) -> None:
    """One waits for conditions, for fields and for the end of objects."""
    kubectl.create(flow_schema("waiting", "waiting"))
    wait = ("wait", "flowschema/waiting", "--timeout=20s")
    assert "condition met" in kubectl(*wait, "--for=condition=Dangling")
    with kubectl.running(*wait, "--for=condition=Dangling=False") as words:
        kubectl.create(level("waiting"))
        assert words.readline().endswith("/waiting condition met\n")
    if kubectl.minor >= WAIT_JSONPATH:
        kubectl(*wait, "--for=jsonpath={.spec.matchingPrecedence}=5000")
    assert "timed out waiting for the condition" in kubectl.fail(
        *wait[:2], "--timeout=200ms", "--for=condition=Ready"
    )
    with kubectl.running(*wait, "--for=delete") as words:
        kubectl("delete", "flowschema", "waiting")
        words.read()
