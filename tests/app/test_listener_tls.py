"""TLS towards clients where it depends on the host that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.app import listener_tls
from apfproxy.settings.file import parse_settings
from tests.end_to_end.gateway import WHOLE, Gateway, gateway, get
from tests.end_to_end.http2_peer import HTTP2, SPOKEN, Http2Peer
from tests.end_to_end.scene import on_uvloop, over_both_protocols
from tests.end_to_end.secure_peer import SecurePeer, client_context
from tests.support.certificates import Authority

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


TLS, CLEARTEXT = "tls: {certificateFile: a, keyFile: a}", "http2: {cleartext: true}"
LONG = "maxHeadBytes: 65537"
PRIOR, OVER_TLS = ", with HTTP/2 by prior knowledge", " with TLS and HTTP/2"
NO_EFFECT = "downstream.http2.cleartext has no effect: "
NOT_BUILT = "this build has no HTTP/2; install it"


@pytest.mark.parametrize(
    ("text", "why_not", "spoken", "warning"),
    [
        ("", "", "", ""),
        (CLEARTEXT, "", PRIOR, ""),
        (f"{TLS}, proxyProtocol: true", "", f"{OVER_TLS}, behind the PROXY protocol", ""),
        (f"{TLS}, {CLEARTEXT}", "", OVER_TLS, f"{NO_EFFECT}downstream.tls is on; clients speak"),
        (
            *(f"{TLS}, http2: {{enabled: false, cleartext: true}}", "", " with TLS"),
            f"{NO_EFFECT}downstream.http2.enabled is false",
        ),
        (f"{TLS}, {LONG}", "", OVER_TLS, "downstream.maxHeadBytes: over HTTP/2 one field has 64"),
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
    monkeypatch.setattr(listener_tls, "WHY_NOT", why_not)
    downstream = parse_settings(f"downstream: {{{text}}}".encode(), "f").downstream
    listener_tls.say_why_not(downstream)
    found = listener_tls.warning(downstream)

    assert spoken == listener_tls.spoken(downstream)
    assert bool(warning) == len(caplog.messages)
    assert all(each.startswith(warning) for each in caplog.messages)
    assert found == ("" if warning.startswith("clients") else "".join(caplog.messages))
