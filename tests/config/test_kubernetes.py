"""The manifests for Kubernetes build, are valid, fit together, and their settings start a proxy."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.cli.offline import offline_controller
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.sources.kubeconfig import SERVICE_ACCOUNT
from tests.config.expressions import alerting_rules
from tests.config.manifests import problems_of
from tests.config.pods import (
    FOLDER,
    PROXY,
    containers_of,
    of_kind,
    rendered,
    template_of,
    with_monitoring,
)
from tests.conformance.replaying import running
from tests.end_to_end.kubectl import Kubectl, find_kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.config.pods import Manifests

pytestmark = pytest.mark.e2e

OPERATORS = ("monitoring.coreos.com/v1", {"apiVersion", "kind", "metadata", "spec"})
"""The version of the Prometheus operator's types, and the fields that each has."""
ADMIN = r"admin on 127\.0\.0\.1:(\d+)"


WITH_KEYS = {"sidecar-http", "sidecar-llm"}


@pytest.fixture(
    scope="module", params=["gateway", "sidecar-http", "sidecar-llm", "sidecar-kubernetes"]
)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def manifests(name: str) -> Manifests:
    return rendered(FOLDER / name)


@pytest.fixture(scope="module")
def monitored(name: str, tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    return with_monitoring(name, tmp_path_factory.mktemp("monitored"))


def proxy_of(manifests: Manifests) -> dict[str, Any]:
    return containers_of(template_of(manifests))[PROXY]


def settings_of(manifests: Manifests) -> str:
    text: str = of_kind(manifests, "ConfigMap")["data"]["apfproxy.yaml"]
    return text


def listeners_of(manifests: Manifests) -> dict[str, str]:
    """Where the proxy listens for clients and for the admin listener: by flags, or by settings."""
    flags = dict(re.findall(r"--(listen|admin)=(\S+)", " ".join(proxy_of(manifests)["args"])))
    settings = yaml.safe_load(settings_of(manifests))
    return {
        "clients": flags.get("listen") or settings["downstream"]["listen"],
        "admin": flags.get("admin") or settings["admin"],
    }


def test_kinds(name: str, manifests: Manifests) -> None:
    """All that belongs to a deployment is there, in one namespace, with the fields of its type."""
    namespaces = {
        obj["metadata"].get("namespace")
        for (kind, _), obj in manifests.items()
        if not kind.startswith("Cluster")
    }

    # An HTTP API has keys; what follows a Kubernetes API needs an account.
    account = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    assert {kind for kind, _ in manifests} == {
        *("ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"),
        *(("Secret",) if name in WITH_KEYS else account),
    }
    assert {"apfproxy"} == namespaces
    assert [] == [problem for obj in manifests.values() for problem in problems_of(obj)]


def test_monitoring(manifests: Manifests, monitored: Manifests) -> None:
    added = {key: monitored[key] for key in monitored.keys() - manifests.keys()}
    dashboard = added["ConfigMap", "apfproxy-dashboard"]

    assert added.keys() == {
        ("ConfigMap", "apfproxy-dashboard"),
        ("PrometheusRule", "apfproxy"),
        ("ServiceMonitor", "apfproxy"),
    }
    for obj in added.values():
        assert "apfproxy" == obj["metadata"]["namespace"]
        assert "site" == obj["metadata"]["labels"]["release"]
        if obj is not dashboard:
            assert (obj["apiVersion"], set(obj)) == OPERATORS
    assert [] == problems_of(dashboard)
    assert "1" == dashboard["metadata"]["labels"]["grafana_dashboard"]
    assert json.loads(dashboard["data"]["apfproxy.json"])["panels"]
    assert alerting_rules() == [
        rule
        for group in added["PrometheusRule", "apfproxy"]["spec"]["groups"]
        for rule in group["rules"]
    ]


def test_api_server_takes_them(name: str, manifests: Manifests, tmp_path: Path) -> None:
    template = template_of(manifests)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"] | {"name": name},
        "spec": template["spec"],
    }
    budget = of_kind(manifests, "PodDisruptionBudget")
    budget = budget | {"metadata": budget["metadata"] | {"namespace": "default"}}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([pod, budget]))
    with running("apiserver", "--listen", "127.0.0.1:0") as port:
        kubectl = Kubectl(find_kubectl(), 0, f"http://127.0.0.1:{port}", tmp_path, tmp_path)
        created = kubectl("create", "--dry-run=server", "-f", "objects.yaml")

    assert 2 == created.count("created (server dry run)\n")


def test_selectors(manifests: Manifests) -> None:
    """Services, the budget, the policy and the spread select the pods."""
    pod = template_of(manifests)
    services = [obj for (kind, _), obj in manifests.items() if kind == "Service"]

    for labels in (
        *(service["spec"]["selector"] for service in services),
        of_kind(manifests, "Deployment")["spec"]["selector"]["matchLabels"],
        of_kind(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(
            spread["labelSelector"]["matchLabels"]
            for spread in pod["spec"].get("topologySpreadConstraints", ())
        ),
    ):
        assert labels
        assert labels.items() <= pod["metadata"]["labels"].items()


def test_containers(name: str, manifests: Manifests) -> None:
    """They have one image, and are within the restricted Pod Security Standard."""
    spec = template_of(manifests)["spec"]
    containers = containers_of(template_of(manifests)).values()
    for container in containers:
        own = spec.get("securityContext", {}) | container["securityContext"]

        assert own["runAsNonRoot"] is True, name
        assert own["allowPrivilegeEscalation"] is False
        assert {"drop": ["ALL"]} == own["capabilities"]
        assert {"type": "RuntimeDefault"} == own["seccompProfile"]
    assert {"apfproxy:0.1.0"} == {container["image"] for container in containers}


def test_ports(manifests: Manifests) -> None:
    """Services, probes and the policy name ports of the proxy, which listens there."""
    proxy = proxy_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    listens = listeners_of(manifests)
    services = [obj for (kind, _), obj in manifests.items() if kind == "Service"]
    rules = of_kind(manifests, "NetworkPolicy")["spec"]["ingress"]

    assert {each: int(address.rpartition(":")[2]) for each, address in listens.items()} == ports
    assert {"0.0.0.0"} == {address.rpartition(":")[0] for address in listens.values()}  # noqa: S104
    assert ports.keys() == {
        port["targetPort"] for service in services for port in service["spec"]["ports"]
    }
    assert ports.keys() == {port["port"] for rule in rules for port in rule["ports"]}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert {"path": path, "port": "admin"} == proxy[probe]["httpGet"]


def test_volumes(name: str, manifests: Manifests) -> None:
    """The proxy has all volumes; it alone has the account's token."""
    pod = template_of(manifests)["spec"]
    mounts = {
        container: {each["name"]: each["mountPath"] for each in found.get("volumeMounts", [])}
        for container, found in containers_of(template_of(manifests)).items()
    }
    having = [container for container, found in mounts.items() if "account" in found]

    assert mounts[PROXY].keys() == {volume["name"] for volume in pod["volumes"]}
    assert ("account" in mounts[PROXY]) == (SERVICE_ACCOUNT in mounts[PROXY].values())
    assert pod["automountServiceAccountToken"] is False
    assert ([] if name in WITH_KEYS else [PROXY]) == having


def test_end_of_a_pod(manifests: Manifests) -> None:
    drain = yaml.safe_load(settings_of(manifests))["drain"]
    seconds = sum(int(drain[key].removesuffix("s")) for key in ("shutdownDelay", "timeout"))
    pod = template_of(manifests)
    server = containers_of(pod).get("server")
    if server is not None:
        sleep = server["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert seconds < sleep
        seconds = sleep

    assert seconds < pod["spec"]["terminationGracePeriodSeconds"]


def test_native_sidecars(name: str, manifests: Manifests) -> None:
    """The proxy beside a server is a native sidecar: it starts first, and waits for no server."""
    proxy = proxy_of(manifests)
    is_sidecar = name.startswith("sidecar")

    assert ("Always" if is_sidecar else None) == proxy.get("restartPolicy")
    assert is_sidecar == (proxy in template_of(manifests)["spec"].get("initContainers", []))
    if is_sidecar:
        assert {"path": "/livez", "port": "admin"} == proxy["startupProbe"]["httpGet"]


def test_rights() -> None:
    """The account may follow EndpointSlices, and change the ConfigMap of its fleet, alone."""
    reader, endpoints, fleet = (
        [*yaml.safe_load_all((FOLDER / "rbac" / f"{name}.yaml").read_text())]
        for name in ("reader", "endpoints", "fleet")
    )
    account, (config_map, role, _) = reader[0], fleet

    assert [] == [problem for each in (*endpoints, *fleet) for problem in problems_of(each)]
    assert [[config_map["metadata"]["name"]]] == [each["resourceNames"] for each in role["rules"]]
    assert 1 == len({each["metadata"]["namespace"] for each in fleet})
    assert "ServiceAccount" == account["kind"]
    assert [(account["metadata"]["name"], account["metadata"]["namespace"])] * 2 == [
        (subject["name"], subject["namespace"])
        for binding in (endpoints[1], fleet[2])
        for subject in binding["subjects"]
    ]


def test_flow_schema_of_a_fleet() -> None:
    path = str(FOLDER / "fleet" / "flowschema.yaml")
    controller = offline_controller([path])
    account = User(
        "system:serviceaccount:apfproxy:apfproxy",
        ("system:serviceaccounts", "system:authenticated"),
    )
    config_map = b"/api/v1/namespaces/apfproxy/configmaps/apfproxy-fleet"
    found = [
        controller.in_force.classifier.classify(account, parse_attributes(method, target))
        for method, target in (
            ("GET", config_map),
            ("PATCH", config_map),
            ("DELETE", config_map),
            ("GET", config_map.replace(b"/apfproxy/", b"/other/")),
            ("GET", b"/api/v1/namespaces/apfproxy/secrets/a"),
        )
    ]
    levels = ["" if each is None else each.spec.priority_level_configuration.name for each in found]

    assert ["exempt"] * 2 == levels[:2]
    assert "exempt" not in levels[2:]
