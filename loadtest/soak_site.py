"""What a soak runs on: ports, settings, certificates, tokens, objects, which change meanwhile."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from typing import TYPE_CHECKING

from loadtest.certificates import Authority
from loadtest.echo import EchoOrigin, Seen
from loadtest.faults import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SETTINGS = """
downstream:
  requestTimeout: 20s
  tls: {tls}
{http2}upstream: {{idleTimeout: 3s, answerTimeout: 15s}}
authentication: {authentication}
flowControl: {{serverConcurrencyLimit: 600, objects: [objects.yaml]}}
logLevel: warning
"""
HTTP2 = "  http2: {cleartext: true}\n"
"""For the proxy without TLS; with TLS it is on."""
USERS = ("ann", "bob", "cid", "dot")
GROUP = "testers"
SHUT_PERIOD_S = 10.0
SHUT_S = 3.0
"""How often an endpoint takes no connections, and for how long; open ones go on."""


class Site:
    """The files of a plain proxy and of one with TLS.

    Args:
        directory: An existing directory for them.
        http2: Whether most clients speak HTTP/2.
    """

    def __init__(self, directory: Path, *, http2: bool = False) -> None:
        self.directory = directory
        self.http2 = http2
        self._authority = Authority("soak")
        self._tokens = [secrets.token_hex(16) for _ in USERS]
        self._contexts: dict[tuple[bool, bool], list[ssl.SSLContext]] = {}
        self._changes = 0
        ca_file = self._authority.write(directory)
        self.renew_certificate()
        self.change_tokens()
        self.change_objects()
        for name, tls, authentication in (
            ("plain", "{}", "{tokenFile: tokens.csv}"),
            (
                "tls",
                "{certificateFile: server.crt, keyFile: server.key}",
                "{tokenFile: tokens.csv, clientCaFile: ca.crt}",
            ),
        ):
            clear = HTTP2 if http2 and name == "plain" else ""
            text = SETTINGS.format(tls=tls, authentication=authentication, http2=clear)
            (directory / f"{name}.yaml").write_text(text)
        files = [self._authority.issue(user, [GROUP]).write(directory, user) for user in USERS]
        for is_http2 in (False, True):
            contexts = [ssl.create_default_context(cafile=ca_file) for _ in range(len(USERS) + 1)]
            for context, names in zip(contexts, files, strict=False):
                context.load_cert_chain(*names)
            for context in contexts:
                context.set_alpn_protocols(["h2" if is_http2 else "http/1.1"])
            self._contexts[is_http2, True] = contexts[:-1]
            self._contexts[is_http2, False] = contexts[-1:]

    def __repr__(self) -> str:
        return f"<Site in {self.directory}>"

    def contexts(self, *, http2: bool, has_certificates: bool) -> Sequence[ssl.SSLContext]:
        """TLS of clients: those with certificates, or the one for clients without.

        Args:
            http2: Whether they ask for HTTP/2; otherwise for HTTP/1.1.
            has_certificates: Which of them.
        """
        return self._contexts[http2, has_certificates]

    @property
    def token_fields(self) -> Sequence[str]:
        return [f"Authorization: Bearer {token}\r\n" for token in self._tokens]

    def renew_certificate(self) -> None:
        self._authority.issue("localhost", usage="server").write(self.directory, "server")

    def change_tokens(self) -> None:
        lines = [
            f'{token},{user},{at},"{GROUP}"\n'
            for at, (user, token) in enumerate(zip(USERS, self._tokens, strict=True))
        ]
        lines.append(f'{secrets.token_hex(16)},eve,9,"{GROUP}"\n')
        self._replace("tokens.csv", "".join(lines))

    def change_objects(self) -> None:
        self._changes += 1
        text = OBJECTS
        if self._changes % 2:
            other = OBJECTS.replace("testers", "others")
            text = text.replace("queues: 32", "queues: 48") + "---" + other
        self._replace("objects.yaml", text)

    def _replace(self, name: str, text: str) -> None:
        new = self.directory / f".{name}.new"
        new.write_text(text)
        new.replace(self.directory / name)


class Endpoints:
    """The origin's ports.

    Args:
        seen: Notes of all connections.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._servers: list[asyncio.Server] = []
        self.ports: list[int] = []

    def __repr__(self) -> str:
        return f"<Endpoints: {self.ports}>"

    async def open(self, count: int) -> None:
        for _ in range(count):
            self._servers.append(await self._listen(0))
            self.ports.append(self._servers[-1].sockets[0].getsockname()[1])

    async def shut_one_after_the_other(self) -> None:
        while True:
            for at, port in enumerate(self.ports):
                await asyncio.sleep(SHUT_PERIOD_S - SHUT_S)
                self._servers[at].close()
                await asyncio.sleep(SHUT_S)
                self._servers[at] = await self._listen(port)

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: EchoOrigin(self._seen), "127.0.0.1", port, backlog=1024
        )
