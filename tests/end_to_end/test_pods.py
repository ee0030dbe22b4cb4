"""Pods of the manifests, whose containers start and end as a kubelet has them do."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.cli.main import main
from tests.config.expressions import CONFIG
from tests.config.pods import PROXY, Pod, rendered
from tests.conformance.replaying import running
from tests.end_to_end.programs import free_port
from tests.end_to_end.served import ask
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.served import Served

pytestmark = pytest.mark.e2e

LISTENS = r"listens on 127\.0\.0\.1:(\d+)[ ,].*admin on 127\.0\.0\.1:(\d+)"
SERVER = "server"


@pytest.fixture
def server_port() -> int:
    return free_port()


@pytest.fixture
def pod(tmp_path: Path, server_port: int) -> Pod:
    starter = tmp_path / "starter"
    assert 0 == main(["init", "http", str(starter), "--image", "registry.example/apfproxy:9"])
    (tmp_path / "licence").mkdir()
    (tmp_path / "licence" / "orders").write_text("orders")
    addresses = {
        "127.0.0.1:8000": f"127.0.0.1:{server_port}",
        "8000": str(server_port),
        "0.0.0.0:8080": "127.0.0.1:0",
        "0.0.0.0:8081": "127.0.0.1:0",
        "/usr/share/doc/apfproxy": str(tmp_path / "licence"),
        # Endpoints change at once here.
        "shutdownDelay: 5s": "shutdownDelay: 100ms",
    }
    (tmp_path / "pod").mkdir()
    return Pod(rendered(starter), tmp_path / "pod", addresses)


def probed(container: dict[str, Any], probe: str, admin_port: int) -> None:
    get = container[probe]["httpGet"]
    assert "admin" == get["port"]
    while ask(admin_port, get["path"])[0] != 200:
        time.sleep(0.02)  # it is asked, and tells no one


@contextlib.contextmanager
def started(pod: Pod) -> Iterator[tuple[Served, Served, int, int]]:
    assert [PROXY, SERVER] == list(pod.containers)
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(pod.running(PROXY))
        found = proxy.line(LISTENS)
        port, admin_port = int(found[1]), int(found[2])
        probed(pod.containers[PROXY], "startupProbe", admin_port)
        is_down = "the server behind, .*, fails: connection refused"
        if not re.search(is_down, "".join(proxy.lines)):  # it may say so before it listens
            proxy.line(is_down)
        assert 200 != ask(admin_port, "/readyz")[0]
        # The kubelet starts the server now, and not before.
        server = stack.enter_context(pod.running(SERVER))
        probed(pod.containers[PROXY], "readinessProbe", admin_port)
        yield proxy, server, port, admin_port


def flows(admin_port: int) -> set[tuple[str, str]]:
    _, body = ask(admin_port, "/debug/top_flows", head="Accept: application/json\r\n")
    return {
        (each["flow"].rpartition(":")[2], each["priorityLevel"])
        for each in json.loads(body)["flows"]
    }


def test_life(pod: Pod) -> None:
    """Keys of the pod tell clients apart, and its objects count; the server outlives the drain.

    A client that stays connected is told to connect again, and no request of its fails.
    """
    with started(pod) as (proxy, server, port, admin_port):
        answers = [
            ask(port, "/orders", head="X-API-Key: shop-key\r\n"),
            ask(port, "/orders", head="X-API-Key: reports-key\r\n"),
            ask(port, "/exports/today"),
            ask(port, "/orders"),
        ]
        found = flows(admin_port)
        client = http.client.HTTPConnection("127.0.0.1", port)
        statuses = []
        pod.stop_hook(PROXY, proxy)
        proxy.line("draining")
        is_kept = True
        while is_kept:
            client.request("GET", "/orders")
            response = client.getresponse()
            response.read()
            statuses.append(response.status)
            is_kept = not response.will_close
        client.close()
        code, _ = proxy.rest()
        is_server_there = server.process.poll() is None
        # Only now has the server's own hook slept enough, and gets it its signal.
        server.process.terminate()
        server.process.wait()

    # The variables of its own Service are none of its flags.
    assert [] == [line for line in proxy.lines if "APFPROXY_" in line]
    assert [200, 200, 404, 200] == [status for status, _ in answers]
    assert ["orders"] * 3 == [body for status, body in answers if status == 200]
    # By its key, by its key, by the object for its path, and by its address.
    assert {
        ("shop", "interactive"),
        ("reports", "batch"),
        ("127.0.0.1", "batch"),
        ("127.0.0.1", "default"),
    } == found
    assert {200} == set(statuses)
    assert (0, True) == (code, is_server_there)


def test_a_wrong_setting_is_the_pods(pod: Pod, tmp_path: Path) -> None:
    """A file that is not in the pod ends the proxy with its name, before the server starts."""
    arguments = pod.arguments(PROXY)
    next((tmp_path / "pod").rglob("keys.csv")).unlink()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603

    assert 1 == done.returncode
    assert "keys.csv" in done.stderr


def api_of_the_pod(folder: Path, port: int) -> dict[str, str]:
    path = folder / "kubeconfig"
    path.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: ''}}],"
        f" clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]}}"
    )
    return {
        "kubernetes:\n    enabled: true": f"kubernetes: {{enabled: true, kubeconfig: {path}}}",
        "port: https}": f"port: https, kubeconfig: {path}}}",
    }


def test_kubernetes_api(tmp_path: Path, server_port: int) -> None:
    """Before a Kubernetes API the users whom the front proxy names have flows of their own.

    No one else can name one.
    """
    fronts, site = Authority("fronts"), Authority("site")
    certificate, key = site.issue("localhost", usage="server").write(tmp_path, "tls")
    tls = {"tls.crt": Path(certificate).read_bytes(), "tls.key": Path(key).read_bytes()}
    shown = fronts.issue("front-proxy-client", usage="client").write(tmp_path, "front")
    others = {
        "apfproxy-tls": tls,
        "apfproxy-front-proxy": {"ca.crt": fronts.pem},
        "kube-root-ca.crt": {"ca.crt": site.pem},
    }
    addresses = {
        "127.0.0.1:8000": f"127.0.0.1:{server_port}",
        "0.0.0.0:8080": "127.0.0.1:0",
        "0.0.0.0:8081": "127.0.0.1:0",
        **api_of_the_pod(tmp_path, server_port),
    }
    manifests = rendered(CONFIG / "kubernetes" / "sidecar-kubernetes")
    pod = Pod(manifests, tmp_path / "pod", addresses, others)
    anybody, front = (ssl.create_default_context(cadata=site.pem.decode()) for _ in range(2))
    front.load_cert_chain(*shown)
    (tmp_path / "pod").mkdir()
    with pod.running(SERVER) as server, pod.running(PROXY) as proxy:
        server.line("the API on http")
        found_ports = proxy.line(LISTENS)
        port, admin_port = int(found_ports[1]), int(found_ports[2])
        probed(pod.containers[PROXY], "readinessProbe", admin_port)
        for user in ("alice", "bob"):
            named = {"X-Remote-User": user, "X-Remote-Group": "site"}
            for context in (anybody, front):
                client = http.client.HTTPSConnection("localhost", port, context=context)
                client.request("GET", "/api/v1/namespaces/default/pods", headers=named)
                response = client.getresponse()
                response.read()
                client.close()
                assert 200 == response.status
        found = {flow for flow, _ in flows(admin_port)}

    assert {"alice", "bob", "anonymous"} <= found


def test_gateway(tmp_path: Path) -> None:
    """The proxy of the gateway starts with the settings and files of its pod."""
    site = Authority("site")
    certificate, key = site.issue("gateway", usage="server").write(tmp_path, "tls")
    tls = {"tls.crt": Path(certificate).read_bytes(), "tls.key": Path(key).read_bytes()}
    others = {"apfproxy-tls": tls, "kube-root-ca.crt": {"ca.crt": site.pem}}
    with running("apiserver", "--listen", "127.0.0.1:0") as port:
        addresses = {
            "0.0.0.0:8443": "127.0.0.1:0",
            "0.0.0.0:8081": "127.0.0.1:0",
            **api_of_the_pod(tmp_path, port),
        }
        manifests = rendered(CONFIG / "kubernetes" / "gateway")
        pod = Pod(manifests, tmp_path / "pod", addresses, others)
        with pod.running(PROXY) as proxy:
            admin_port = int(proxy.line(LISTENS)[2])
            probed(pod.containers[PROXY], "livenessProbe", admin_port)
            _, health = ask(admin_port, "/readyz?verbose")

    # That API has no EndpointSlices, for which the start waits.
    lacking = {"upstream", "start", "endpoints"}
    assert set() == set(re.findall(r"\[-\](\w+)", health)) - lacking


def test_static_pod(tmp_path: Path) -> None:
    """The proxy before kube-apiserver starts with the files that its pod has of the machine.

    The server comes up after it.
    """
    starter, pki = tmp_path / "starter", "/etc/kubernetes/pki"
    assert 0 == main(["init", "kube-apiserver", str(starter)])
    (starter / "token").write_bytes(b"token")
    authority = Authority("cluster")
    for name in ("apiserver", "front-proxy-client"):
        authority.issue(name, usage="both").write(tmp_path, name)
    authority.write(tmp_path)
    names = ("ca.crt", "apiserver.crt", "apiserver.key")
    others: dict[str, dict[str, bytes]] = {
        f"{pki}/{name}": {name: (tmp_path / name).read_bytes()}
        for name in (*names, "front-proxy-client.crt", "front-proxy-client.key")
    }
    others["/etc/kubernetes/apfproxy"] = {
        path.name: path.read_bytes() for path in starter.iterdir() if path.is_file()
    }
    static = yaml.safe_load((starter / "static-pod.yaml").read_text())
    addresses = {
        pki: f"{tmp_path / 'pod'}{pki}",
        '"10.0.0.10:6443"': '"127.0.0.1:0"',
        '"127.0.0.1:8081"': '"127.0.0.1:0"',
        "https://127.0.0.1:6443": f"https://127.0.0.1:{free_port()}",
    }
    pod = Pod({("Pod", "apfproxy"): static}, tmp_path / "pod", addresses, others)
    with pod.running(PROXY) as proxy:
        admin_port = int(proxy.line(LISTENS)[2])
        _, health = ask(admin_port, "/readyz?verbose")

    # The server is away, which has the objects for the start, too; flow control only observes.
    lacking = {"start", "upstream", "kubernetes", "enforcement"}
    assert set() == set(re.findall(r"\[-\](\w+)", health)) - lacking
