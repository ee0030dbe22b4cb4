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


@pytest.fixture(scope="module", params=["gateway", "sidecar-http", "sidecar-kubernetes"])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def manifests(name: str) -> Manifests:
    """Kind and name to object, as kubectl would apply them."""
    return rendered(FOLDER / name)


@pytest.fixture(scope="module")
def monitored(name: str, tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    """The same with the component for the Prometheus operator and Grafana."""
    return with_monitoring(name, tmp_path_factory.mktemp("monitored"))


def proxy_of(manifests: Manifests) -> dict[str, Any]:
    """The container of the proxy."""
    return containers_of(template_of(manifests))[PROXY]


def settings_of(manifests: Manifests) -> str:
    """The settings, as text."""
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


def selects(labels: dict[str, str], obj: dict[str, Any]) -> bool:
    """Whether an object has labels."""
    return bool(labels) and labels.items() <= obj["metadata"].get("labels", {}).items()


def test_kinds(name: str, manifests: Manifests) -> None:
    """All that belongs to a deployment is there, in one namespace."""
    kinds = {kind for kind, _ in manifests}
    namespaces = {
        obj["metadata"].get("namespace")
        for (kind, _), obj in manifests.items()
        if not kind.startswith("Cluster")
    }

    # An HTTP API has keys; what follows a Kubernetes API needs an account.
    own = (
        ("Secret",)
        if name == "sidecar-http"
        else ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    )
    assert kinds == {
        *("ConfigMap", "Deployment", *own),
        *("Service", "PodDisruptionBudget", "NetworkPolicy"),
    }
    assert {"apfproxy"} == namespaces


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


def test_types(manifests: Manifests) -> None:
    """Every object has the fields of its type, and those that it must have."""
    assert [] == [problem for obj in manifests.values() for problem in problems_of(obj)]


def test_wrong_types_are_found(manifests: Manifests) -> None:
    """The check of types finds what is wrong."""
    wrong = json.loads(json.dumps(of_kind(manifests, "Deployment")))
    wrong["spec"]["replicas"] = "2"
    wrong["spec"]["template"]["spec"]["containers"][0]["imagge"] = "a"
    wrong["spec"]["template"]["spec"]["containers"][0].pop("name")
    del wrong["spec"]["selector"]

    found = "\n".join(problems_of(wrong))

    assert "Deployment.spec.replicas is no int" in found
    assert "containers[0].imagge: unknown field" in found
    assert "containers[0]: " in found
    assert "Deployment.spec: " in found


def test_api_server_takes_them(name: str, manifests: Manifests, tmp_path: Path) -> None:
    """Pods and the budget pass the validation of the API server, by a dry run of kubectl."""
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
        assert selects(labels, pod)


def test_image(manifests: Manifests) -> None:
    """Both containers of a pod have the image that a kustomization names."""
    containers = containers_of(template_of(manifests)).values()

    assert {"apfproxy:0.1.0"} == {container["image"] for container in containers}


def test_security(name: str, manifests: Manifests) -> None:
    """The pods are within the restricted Pod Security Standard."""
    spec = template_of(manifests)["spec"]
    of_pod = spec.get("securityContext", {})
    for container in containers_of(template_of(manifests)).values():
        own = of_pod | container["securityContext"]

        assert own["runAsNonRoot"] is True, name
        assert own["allowPrivilegeEscalation"] is False
        assert {"drop": ["ALL"]} == own["capabilities"]
        assert {"type": "RuntimeDefault"} == own["seccompProfile"]


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


def test_volumes(manifests: Manifests) -> None:
    """The command reads the settings where they are mounted, and every volume has its source."""
    pod, proxy = template_of(manifests)["spec"], proxy_of(manifests)
    mounts = {mount["name"]: mount["mountPath"] for mount in proxy["volumeMounts"]}
    paths = [mount["mountPath"] for mount in proxy["volumeMounts"]]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    config_map = of_kind(manifests, "ConfigMap")["metadata"]["name"]
    args = " ".join(proxy["args"]).replace("--settings=", "--settings ")
    source = volumes["settings"]
    (source, *_) = source.get("projected", {}).get("sources", [source])

    assert args.startswith(f"serve --settings {mounts['settings']}/apfproxy.yaml")
    assert mounts.keys() == volumes.keys()
    assert config_map == source["configMap"]["name"]
    assert ("account" in mounts) == (SERVICE_ACCOUNT in paths)
    assert len(paths) == len(set(paths))


def test_only_the_proxy_has_a_token(name: str, manifests: Manifests) -> None:
    """No other container of the pod gets one, and nothing is mounted unseen."""
    pod = template_of(manifests)["spec"]
    having = [
        each["name"]
        for each in (*pod.get("initContainers", []), *pod["containers"])
        if any(mount["name"] == "account" for mount in each.get("volumeMounts", []))
    ]

    assert pod["automountServiceAccountToken"] is False
    assert ([] if name == "sidecar-http" else ["apfproxy"]) == having


def test_end_of_a_pod(manifests: Manifests) -> None:
    """A pod has the time that its drain may take, and the server behind a sidecar outlives it."""
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


def account() -> tuple[str, str]:
    """Name and namespace of the proxy's service account."""
    found, *_ = yaml.safe_load_all((FOLDER / "rbac" / "reader.yaml").read_text())
    assert "ServiceAccount" == found["kind"]
    return found["metadata"]["name"], found["metadata"]["namespace"]


def test_rights_to_follow_endpoints(manifests: Manifests) -> None:
    settings = yaml.safe_load(settings_of(manifests))
    service = settings["upstream"].get("service")
    role, binding = yaml.safe_load_all((FOLDER / "rbac" / "endpoints.yaml").read_text())

    assert [] == [*problems_of(role), *problems_of(binding)]
    assert service is None or service["namespace"] == role["metadata"]["namespace"]
    assert [account()] == [
        (subject["name"], subject["namespace"]) for subject in binding["subjects"]
    ]


def test_rights_of_a_fleet() -> None:
    """The proxies may read and change the ConfigMap of their fleet, which is there, alone."""
    config_map, role, binding = yaml.safe_load_all((FOLDER / "rbac" / "fleet.yaml").read_text())
    name = config_map["metadata"]["name"]

    assert [] == [*problems_of(config_map), *problems_of(role), *problems_of(binding)]
    assert [[name]] == [rule["resourceNames"] for rule in role["rules"]]
    assert 1 == len({each["metadata"]["namespace"] for each in (config_map, role, binding)})
    assert [account()] == [
        (subject["name"], subject["namespace"]) for subject in binding["subjects"]
    ]


def test_flow_schema_of_a_fleet() -> None:
    path = str(FOLDER / "fleet" / "flowschema.yaml")
    controller = offline_controller([path], suggested_objects=True, server_concurrency_limit=None)
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
