"""A proxy that asks everybody who they are, and clients with certificates of all kinds."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from apfproxy.settings import (
    AuthenticationSettings,
    DownstreamTlsSettings,
    FrontProxySettings,
    ImpersonationSettings,
)
from tests.end_to_end.http2_peer import HTTP2, Http2Peer
from tests.end_to_end.scene import NARROW, Scene, Setup
from tests.end_to_end.secure_peer import SecurePeer, client_context
from tests.support.certificates import DAY, Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.peer import Peer
    from tests.support.certificates import Issued

OWN_TOKEN = b"token-of-the-proxy"
TOKENS = 'user-a,alice,1,"dev"\nuser-b,bob,2\nadmin,root,3,"system:masters"\n'

SCHEMA_NUMBERS = {"alice": 1, "bob": 2, "root": 3}
SCHEMAS = "---".join(
    f"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: of-{name}, uid: 00000000-0000-0000-0000-{number:012}}}
spec:
  matchingPrecedence: 50
  priorityLevelConfiguration: {{name: narrow}}
  rules:
  - subjects: [{{kind: User, user: {{name: {name}}}}}]
    resourceRules:
    - {{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}}
"""
    for name, number in SCHEMA_NUMBERS.items()
)


class Site:
    """The files of a proxy that asks everybody who they are, and of its clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = Authority("servers")
        users, proxies = Authority("users"), Authority("front proxies")
        self._client_ca = users.write(folder, "users")
        self._front_proxy_ca = proxies.write(folder, "proxies")
        now = dt.datetime.now(dt.UTC)
        self._clients: dict[str, Callable[[], Issued]] = {
            "client-ca:user": lambda: users.issue("alice", ["dev"]),
            "requestheader-ca:CN=other": lambda: proxies.issue("other"),
            "requestheader-ca:CN=front-proxy": lambda: proxies.issue("front-proxy"),
            "requestheader-ca:expired": lambda: proxies.issue(
                "front-proxy", not_before=now - 2 * DAY, not_after=now - DAY
            ),
            "requestheader-ca:serverAuth": lambda: proxies.issue("front-proxy", usage="server"),
        }

    def setup(
        self, mode: str, *, is_tls: bool, names: tuple[str, ...] = ("X-Remote-User",)
    ) -> Setup:
        """A proxy."""
        setup = Setup(objects=f"{NARROW}---{SCHEMAS}").with_upstream(
            identity=mode, token_file=self._write("own", OWN_TOKEN.decode())
        )
        authentication = AuthenticationSettings(
            token_file=self._write("tokens.csv", TOKENS),
            front_proxy=FrontProxySettings(username_headers=names),
            anonymous=False,
            impersonation=ImpersonationSettings(groups=("system:masters",)),
        )
        if not is_tls:
            return replace(setup, authentication=authentication)
        certificate, key = self.authority.issue("a", usage="server").write(self._folder, "server")
        return replace(
            setup,
            downstream=structs.replace(
                setup.downstream,
                tls=DownstreamTlsSettings(certificate_file=certificate, key_file=key),
            ),
            authentication=structs.replace(
                authentication,
                client_ca_file=self._client_ca,
                front_proxy=FrontProxySettings(
                    ca_file=self._front_proxy_ca, allowed_names=("front-proxy",)
                ),
            ),
        )

    async def connect(self, scene: Scene, client: str) -> Peer:
        own = self._clients[client]().write(self._folder, "client")
        context = client_context(self.authority, own)
        if scene.protocol == HTTP2:
            context.set_alpn_protocols([HTTP2])
        peer = await SecurePeer.of(await scene.connect_socket(), context)
        return Http2Peer.over_tls(peer) if scene.protocol == HTTP2 else peer

    def _write(self, name: str, text: str) -> str:
        path = self._folder / name
        path.write_text(text)
        return str(path)
