"""TLS towards clients where it depends on the host that they name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.app import listener_tls
from apfproxy.app.listener_tls import all_client_cas
from apfproxy.base.errors import OperatorError
from apfproxy.settings.file import load_settings, parse_settings
from loadtest.certificates import Authority
from tests.end_to_end.gateway import WHOLE, Gateway, gateway, get
from tests.end_to_end.http2_peer import HTTP2, SPOKEN, Http2Peer
from tests.end_to_end.scene import on_uvloop, over_both_protocols
from tests.end_to_end.secure_peer import SecurePeer, client_context

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.peer import Peer

SERVERS = Authority("servers")
CLIENTS = {name: Authority(f"clients of {name}") for name in "ab"}


@pytest.fixture
def settings(tmp_path: Path) -> tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]:
    for name in ("whole", "a"):
        SERVERS.issue(name, usage="server", hosts=[f"{name}.test"]).write(tmp_path, name)
    clusters: list[dict[str, Any]] = []
    for name, authority in CLIENTS.items():
        authority.write(tmp_path, f"ca-{name}")
        authentication = {
            "clientCaFile": str(tmp_path / f"ca-{name}.crt"),
            "anonymous": False,
        }
        clusters.append({"name": name, "hosts": [f"{name}.test"], "authentication": authentication})
    files = {"certificateFile": str(tmp_path / "a.crt"), "keyFile": str(tmp_path / "a.key")}
    clusters[0]["tls"] = files
    tls = f"tls: {{certificateFile: {tmp_path / 'whole.crt'}, keyFile: {tmp_path / 'whole.key'}}}"
    whole = WHOLE.replace("downstream: {", f"downstream: {{{tls}, ")
    return whole, clusters[0], clusters[1], {"name": "c", "hosts": ["c.test", "d.test"]}


Clusters = tuple[str, "dict[str, Any]", "dict[str, Any]", "dict[str, Any]"]


async def handshake(
    scene: Gateway, host: str | None, own: tuple[str, str] | None = None
) -> SecurePeer:
    """A client that names a host in its handshake, with a certificate if it has one."""
    context = client_context(SERVERS, own)
    context.check_hostname = False
    context.set_alpn_protocols([SPOKEN.get()])
    return await SecurePeer.of(await scene.connect_socket(), context, host)


async def connect(scene: Gateway, host: str | None, own: tuple[str, str] | None = None) -> Peer:
    """The same, ready for requests."""
    peer = await handshake(scene, host, own)
    return Http2Peer.over_tls(peer) if SPOKEN.get() == HTTP2 else peer


def certificate(folder: Path, name: str) -> tuple[str, str]:
    return CLIENTS[name].issue(f"user-of-{name}").write(folder, f"user-{name}")


@on_uvloop
async def test_certificates_by_the_host_of_the_handshake(
    tmp_path: Path, settings: Clusters
) -> None:
    """The cluster's own one; that of the whole proxy for all else."""
    whole, *clusters = settings
    async with gateway(tmp_path, *clusters, whole=whole) as scene:
        names = [
            (await handshake(scene, host)).server_name
            for host in ("a.test", "A.TEST", "b.test", "c.test", "unknown.test", None)
        ]

    assert ["a", "a", *["whole"] * 4] == names


@over_both_protocols
@on_uvloop
async def test_a_certificate_of_another_clusters_ca_says_nothing(
    tmp_path: Path, settings: Clusters
) -> None:
    whole, *clusters = settings
    async with gateway(tmp_path, *clusters, whole=whole) as scene:
        for name, other in ("ab", "ba"):
            own = certificate(tmp_path, name)
            client = await connect(scene, None, own)
            found = [
                (await scene.ask(get(f"{each}.test"), client)).status
                for each in (name, other, name, other, name)
            ]
            assert [200, 401, 200, 401, 200] == found
            named = await connect(scene, f"{name}.test", own)
            assert 200 == (await scene.ask(get(f"{name}.test"), named)).status


@over_both_protocols
@on_uvloop
async def test_a_handshake_for_another_cluster(tmp_path: Path, settings: Clusters) -> None:
    """A request of a cluster with other certificates needs another connection."""
    whole, a, b, c = settings
    more = {"name": "d", "pathPrefix": "/d"}
    async with gateway(tmp_path, a, b, c, more, whole=whole) as scene:
        first = await connect(scene, "a.test", certificate(tmp_path, "a"))
        assert 200 == (await scene.ask(get("a.test"), first)).status
        answer = await scene.ask(get("b.test"), first)
        alike = await connect(scene, "c.test")
        codes = [
            (await scene.ask(get(host, target), alike)).status
            for host, target in (("c.test", "/"), ("d.test", "/"), ("x.test", "/d"))
        ]

    assert 421 == answer.status
    assert b"open another connection" in answer.body
    assert [200, 200, 200] == codes


@on_uvloop
async def test_a_ca_that_is_mended(tmp_path: Path, settings: Clusters) -> None:
    """Clients are asked for certificates of it, whether they name the host or not."""
    whole, _, b, c = settings
    good = (tmp_path / "ca-b.crt").read_bytes()
    (tmp_path / "ca-b.crt").unlink()
    async with gateway(tmp_path, b, c, whole=whole) as scene:
        assert 200 == (await scene.ask(get("c.test"), await connect(scene, "c.test"))).status
        (tmp_path / "ca-b.crt").write_bytes(good)
        await scene.process.read_again()
        await scene.process.clusters.try_again()
        own = certificate(tmp_path, "b")
        clients = [await connect(scene, host, own) for host in ("b.test", None)]

        assert [200, 200] == [(await scene.ask(get("b.test"), each)).status for each in clients]


@on_uvloop
async def test_a_ca_that_breaks(tmp_path: Path, settings: Clusters) -> None:
    """The proxy's own certificate is renewed all the same, and what was in the file stays."""
    whole, *clusters = settings
    async with gateway(tmp_path, *clusters, whole=whole) as scene:
        (tmp_path / "ca-b.crt").unlink()
        SERVERS.issue("renewed", usage="server").write(tmp_path, "whole")
        await scene.process.read_again()

        client = await handshake(scene, None, certificate(tmp_path, "b"))
        assert "renewed" == client.server_name
        assert 200 == (await scene.ask(get("b.test"), client)).status


@on_uvloop
async def test_another_certificate(tmp_path: Path, settings: Clusters) -> None:
    """New connections see it, of a cluster and of the whole proxy."""
    whole, a, b, c = settings
    SERVERS.issue("new", usage="server").write(tmp_path, "new")
    files = {"certificateFile": str(tmp_path / "new.crt"), "keyFile": str(tmp_path / "new.key")}
    async with gateway(tmp_path, a, b, c, whole=whole) as scene:
        await scene.reload(a, {**b, "tls": files}, c, whole=whole)
        assert ["new", "a"] == [
            (await handshake(scene, host)).server_name for host in ("b.test", "a.test")
        ]
        await scene.reload(a, b, c, whole=whole.replace("whole.", "new."))
        assert ["new", "a"] == [
            (await handshake(scene, host)).server_name for host in ("b.test", "a.test")
        ]


async def test_a_certificate_that_is_missing(tmp_path: Path, settings: Clusters) -> None:
    whole, a, *_ = settings
    scene = Gateway(tmp_path)
    scene.write({**a, "upstream": {"url": "http://a"}}, whole=whole)
    (tmp_path / "whole.crt").unlink()
    with pytest.raises(OperatorError, match="whole"):
        await scene.start()


def test_cas_of_all_clusters(tmp_path: Path, settings: Clusters) -> None:
    """Each file once; none of a cluster that is refused."""
    whole, a, b, c = settings
    clusters = json.dumps([a, {**a, "name": "a2", "hosts": ["a2"]}, b, {**c, "x": 1}])
    text = f"{whole}\nclusters: {clusters}\nupstream: {{url: 'http://a'}}"
    (tmp_path / "f.yaml").write_text(text)
    found = all_client_cas(load_settings(tmp_path / "f.yaml"))

    assert [str(tmp_path / f"ca-{name}.crt") for name in "ab"] == [each.path for each in found]


TLS, CLEARTEXT = "tls: {certificateFile: a, keyFile: a}", "http2: {cleartext: true}"
LONG = "maxHeadBytes: 65537"
PRIOR, OVER_TLS = ", with HTTP/2 by prior knowledge", " with TLS and HTTP/2"
LONG_FIELDS = (
    "downstream.maxHeadBytes: over HTTP/2 one field has 64 KiB at most, and a longer one gets 431;"
    " where clients send such fields, set downstream.http2.enabled to false"
)
NO_EFFECT = "downstream.http2.cleartext has no effect: "
NOT_BUILT = "this build has no HTTP/2; install it"


@pytest.mark.parametrize(
    ("text", "why_not", "spoken", "warning"),
    [
        ("", "", "", ""),
        (CLEARTEXT, "", PRIOR, ""),
        (TLS, "", OVER_TLS, ""),
        (f"{TLS}, proxyProtocol: true", "", f"{OVER_TLS}, behind the PROXY protocol", ""),
        (
            *(f"{TLS}, {CLEARTEXT}", "", OVER_TLS),
            f"{NO_EFFECT}downstream.tls is on; clients speak HTTP/2 over TLS without it",
        ),
        (
            *(f"{TLS}, http2: {{enabled: false, cleartext: true}}", "", " with TLS"),
            f"{NO_EFFECT}downstream.http2.enabled is false",
        ),
        (f"{TLS}, {LONG}", "", OVER_TLS, LONG_FIELDS),
        (f"{TLS}, {LONG}, http2: {{enabled: false}}", "", " with TLS", ""),
        (LONG, "", "", ""),
        (f"{TLS}, http2: {{enabled: false}}", NOT_BUILT, " with TLS", ""),
        (TLS, NOT_BUILT, " with TLS", f"clients are offered HTTP/1.1 only: {NOT_BUILT}"),
        (CLEARTEXT, NOT_BUILT, "", f"{NO_EFFECT}{NOT_BUILT}"),
    ],
)
def test_whether_clients_can_speak_http2(
    text: str,
    why_not: str,
    spoken: str,
    warning: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line says why they cannot, where they might expect it."""
    monkeypatch.setattr(listener_tls, "WHY_NOT", why_not)
    downstream = parse_settings(f"downstream: {{{text}}}".encode(), "f").downstream
    listener_tls.say_why_not(downstream)

    assert spoken == listener_tls.spoken(downstream)
    assert [warning] * bool(warning) == caplog.messages
    assert ("" if warning.startswith("clients") else warning) == listener_tls.warning(downstream)
