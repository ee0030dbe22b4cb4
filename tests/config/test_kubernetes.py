"""The manifests for Kubernetes build, are valid, fit together, and their settings start a proxy."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.cli.offline import offline_controller
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from apfproxy.sources.kubeconfig import SERVICE_ACCOUNT
from loadtest.certificates import Authority
from tests.config.expressions import CONFIG, alerting_rules
from tests.config.manifests import problems_of
from tests.conformance.replaying import running
from tests.end_to_end.kubectl import Kubectl, find_kubectl
from tests.end_to_end.served import ask, command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

FOLDER = CONFIG / "kubernetes"
MONITORED = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: apfproxy
resources: [{folder}/{name}]
components: [{folder}/monitoring]
labels: [{{pairs: {{release: site}}}}]
"""
OPERATORS = ("monitoring.coreos.com/v1", {"apiVersion", "kind", "metadata", "spec"})
"""The version of the Prometheus operator's types, and the fields that each has."""
ADMIN = r"admin on 127\.0\.0\.1:(\d+)"

Manifests = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module", params=["gateway", "sidecar"])
def name(request: pytest.FixtureRequest) -> str:
    """What is deployed."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def manifests(name: str) -> Manifests:
    """Kind and name to object, as kubectl would apply them."""
    return built(FOLDER / name)


@pytest.fixture(scope="module")
def monitored(name: str, tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    """The same with the component for the Prometheus operator and Grafana."""
    folder = tmp_path_factory.mktemp("monitored")
    relative = os.path.relpath(FOLDER, folder.resolve())
    (folder / "kustomization.yaml").write_text(MONITORED.format(folder=relative, name=name))
    return built(folder)


def built(folder: Path) -> Manifests:
    """The objects of a kustomization."""
    done = subprocess.run(  # noqa: S603  kubectl
        [find_kubectl(), "kustomize", str(folder)], capture_output=True, check=True
    )
    objects = list(yaml.safe_load_all(done.stdout))
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def of_kind(manifests: Manifests, kind: str) -> dict[str, Any]:
    """The only object of a kind."""
    (found,) = [obj for (other, _), obj in manifests.items() if other == kind]
    return found


def pod_of(manifests: Manifests) -> dict[str, Any]:
    """The template of the pods."""
    template: dict[str, Any] = of_kind(manifests, "Deployment")["spec"]["template"]
    return template


def proxy_of(manifests: Manifests) -> dict[str, Any]:
    """The container of the proxy."""
    containers = pod_of(manifests)["spec"]["containers"]
    (found,) = [each for each in containers if each["name"] == "apfproxy"]
    assert isinstance(found, dict)
    return found


def settings_of(manifests: Manifests) -> str:
    """The settings, as text."""
    text: str = of_kind(manifests, "ConfigMap")["data"]["apfproxy.yaml"]
    return text


def selects(labels: dict[str, str], obj: dict[str, Any]) -> bool:
    """Whether an object has labels."""
    return bool(labels) and labels.items() <= obj["metadata"].get("labels", {}).items()


def test_kinds(manifests: Manifests) -> None:
    """All that belongs to a deployment is there, in one namespace."""
    kinds = {kind for kind, _ in manifests}
    namespaces = {
        obj["metadata"].get("namespace")
        for (kind, _), obj in manifests.items()
        if not kind.startswith("Cluster")
    }

    assert kinds == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment"),
        *("Service", "PodDisruptionBudget", "NetworkPolicy"),
    }
    assert {"apfproxy"} == namespaces


def test_monitoring(manifests: Manifests, monitored: Manifests) -> None:
    """What needs the operator is in the component only, with the dashboard as Grafana finds it."""
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
    template = pod_of(manifests)
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
    pod = pod_of(manifests)
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


def test_ports(manifests: Manifests) -> None:
    """Services, probes and the policy name ports of the proxy, which listens there."""
    proxy = proxy_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    settings = yaml.safe_load(settings_of(manifests))
    services = [obj for (kind, _), obj in manifests.items() if kind == "Service"]
    rules = of_kind(manifests, "NetworkPolicy")["spec"]["ingress"]

    assert {
        "clients": int(settings["downstream"]["listen"].rpartition(":")[2]),
        "admin": int(settings["admin"].rpartition(":")[2]),
    } == ports
    assert ports.keys() == {
        port["targetPort"] for service in services for port in service["spec"]["ports"]
    }
    assert ports.keys() == {port["port"] for rule in rules for port in rule["ports"]}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert {"path": path, "port": "admin"} == proxy[probe]["httpGet"]


def test_volumes(manifests: Manifests) -> None:
    """The command reads the settings where they are mounted, and every volume has its source."""
    pod, proxy = pod_of(manifests)["spec"], proxy_of(manifests)
    mounts = {mount["name"]: mount["mountPath"] for mount in proxy["volumeMounts"]}
    paths = [mount["mountPath"] for mount in proxy["volumeMounts"]]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    config_map = of_kind(manifests, "ConfigMap")["metadata"]["name"]

    assert ["serve", "--settings", f"{mounts['settings']}/apfproxy.yaml"] == proxy["args"]
    assert mounts.keys() == volumes.keys()
    assert config_map == volumes["settings"]["configMap"]["name"]
    assert SERVICE_ACCOUNT in paths
    assert len(paths) == len(set(paths))


def test_only_the_proxy_has_a_token(manifests: Manifests) -> None:
    """No other container of the pod gets one, and nothing is mounted unseen."""
    pod = pod_of(manifests)["spec"]
    having = [
        each["name"]
        for each in pod["containers"]
        if any(mount["name"] == "account" for mount in each.get("volumeMounts", []))
    ]

    assert pod["automountServiceAccountToken"] is False
    assert ["apfproxy"] == having


def test_end_of_a_pod(manifests: Manifests) -> None:
    """A pod has the time that its drain may take."""
    drain = yaml.safe_load(settings_of(manifests))["drain"]
    seconds = sum(int(drain[key].removesuffix("s")) for key in ("shutdownDelay", "timeout"))

    assert seconds < pod_of(manifests)["spec"]["terminationGracePeriodSeconds"]


def test_settings_start_a_proxy(manifests: Manifests, tmp_path: Path) -> None:
    """A proxy starts with the settings, where the files lie as they are mounted."""
    authority = Authority("site")
    for folder in ("settings", "tls", "account"):
        (tmp_path / folder).mkdir()
    authority.issue("server", usage="server").write(tmp_path / "tls", "tls")
    authority.write(tmp_path / "account")
    (tmp_path / "account" / "token").write_text("token")
    settings = yaml.safe_load(settings_of(manifests))
    if "service" in settings["upstream"]:  # of the pod's API, as the objects are
        settings["upstream"]["service"]["kubeconfig"] = str(tmp_path / "kubeconfig")
    (tmp_path / "settings" / "apfproxy.yaml").write_text(yaml.safe_dump(settings))
    with running("apiserver", "--listen", "127.0.0.1:0") as port:
        (tmp_path / "kubeconfig").write_text(
            "{current-context: a, contexts: [{name: a, context: {cluster: a, user: ''}}],"
            f" clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]}}"
        )
        with command(
            *("serve", "--settings", str(tmp_path / "settings" / "apfproxy.yaml")),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
            *("--kubeconfig", str(tmp_path / "kubeconfig")),
        ) as served:
            admin_port = int(served.line(ADMIN)[1])
            is_alive = ask(admin_port, "/livez")[0] == 200
            _, health = ask(admin_port, "/readyz?verbose")

    # There is no server behind, and the API has no EndpointSlices, for which the start waits.
    lacking = {"upstream"} | (
        {"start", "endpoints"} if "service" in settings["upstream"] else set()
    )
    assert (True, set()) == (is_alive, set(re.findall(r"\[-\](\w+)", health)) - lacking)


def test_rights_to_follow_endpoints(manifests: Manifests) -> None:
    """Who follows the EndpointSlices of a Service may do so, by a file of its own."""
    settings = yaml.safe_load(settings_of(manifests))
    service = settings["upstream"].get("service")
    role, binding = yaml.safe_load_all((FOLDER / "rbac" / "endpoints.yaml").read_text())
    account = of_kind(manifests, "ServiceAccount")["metadata"]

    assert [] == [*problems_of(role), *problems_of(binding)]
    assert service is None or service["namespace"] == role["metadata"]["namespace"]
    assert [(account["name"], account["namespace"])] == [
        (subject["name"], subject["namespace"]) for subject in binding["subjects"]
    ]


def test_rights_of_a_fleet(manifests: Manifests) -> None:
    """The proxies may read and change the ConfigMap of their fleet, which is there, alone."""
    config_map, role, binding = yaml.safe_load_all((FOLDER / "rbac" / "fleet.yaml").read_text())
    account = of_kind(manifests, "ServiceAccount")["metadata"]
    name = config_map["metadata"]["name"]

    assert [] == [*problems_of(config_map), *problems_of(role), *problems_of(binding)]
    assert [[name]] == [rule["resourceNames"] for rule in role["rules"]]
    assert 1 == len({each["metadata"]["namespace"] for each in (config_map, role, binding)})
    assert [(account["name"], account["namespace"])] == [
        (subject["name"], subject["namespace"]) for subject in binding["subjects"]
    ]


def test_flow_schema_of_a_fleet() -> None:
    """What the proxies ask for their fleet is exempt there; nothing else of theirs is."""
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
