"""Files and processes of a soak: the origin's ports, objects, certificates, tokens."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from apfproxy.objects.types import QueuingConfiguration
from loadtest.echo import EchoOrigin, Seen
from loadtest.processes import Process, start_apfproxy
from tests.support.builders import as_text, flow_schema, group_subject, priority_level
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path


def level_of(group: str, queues: int = 32) -> str:
    """A file of objects that give a group a level of its own."""
    queuing = QueuingConfiguration(queues=queues, hand_size=4, queue_length_limit=200)
    level = priority_level(group, shares=300, queuing=queuing, borrowing_limit_percent=None)
    return as_text(level, flow_schema(group, group, group_subject(group)))


GROUP = "testers"
OBJECTS = level_of(GROUP)
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
SHUT_PERIOD_S = 10.0
SHUT_S = 3.0
"""How often an endpoint takes no connections, and for how long; open ones go on."""


async def start_proxy(directory: Path, name: str, ports: Sequence[int]) -> tuple[Process, int]:
    return await asyncio.to_thread(
        start_apfproxy,
        upstream_port=ports[0],
        directory=directory,
        arguments=[
            *("--settings", str(directory / f"{name}.yaml")),
            *(f"--upstream=http://127.0.0.1:{port}" for port in ports[1:]),
        ],
        name=name,
    )


def log_problem(log: Path) -> str | None:
    lines = log.read_text(errors="replace").splitlines()
    for at, line in enumerate(lines):
        if line.startswith("Traceback"):
            return "the proxy logged: " + " | ".join(lines[max(0, at - 2) : at + 40])
    return None


def replace_file(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


class Site:
    """The files of a plain proxy and of one with TLS, which change meanwhile."""

    def __init__(self, directory: Path, *, http2: bool) -> None:
        self.http2 = http2
        self._directory = directory
        self._authority = Authority("soak")
        self._tokens = [secrets.token_hex(16) for _ in USERS]
        self._contexts: dict[tuple[bool, bool], list[ssl.SSLContext]] = {}
        self._changes = 0
        ca_file = self._authority.write(directory)
        self.renew_certificate()
        self.change_tokens()
        self.change_objects()
        certificate = "{certificateFile: server.crt, keyFile: server.key}"
        for name, tls, authentication in (
            ("plain", "{}", "{tokenFile: tokens.csv}"),
            ("tls", certificate, "{tokenFile: tokens.csv, clientCaFile: ca.crt}"),
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

    def contexts(self, *, http2: bool, has_certificates: bool) -> Sequence[ssl.SSLContext]:
        return self._contexts[http2, has_certificates]

    @property
    def token_fields(self) -> Sequence[str]:
        return [f"Authorization: Bearer {token}\r\n" for token in self._tokens]

    def renew_certificate(self) -> None:
        self._authority.issue("localhost", usage="server").write(self._directory, "server")

    def change_tokens(self) -> None:
        lines = [
            f'{token},{user},{at},"{GROUP}"\n'
            for at, (user, token) in enumerate(zip(USERS, self._tokens, strict=True))
        ]
        lines.append(f'{secrets.token_hex(16)},eve,9,"{GROUP}"\n')
        replace_file(self._directory / "tokens.csv", "".join(lines))

    def change_objects(self) -> None:
        self._changes += 1
        text = level_of(GROUP, 48) + level_of("others") if self._changes % 2 else OBJECTS
        replace_file(self._directory / "objects.yaml", text)


class Endpoints:
    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._servers: list[asyncio.Server] = []
        self.ports: list[int] = []

    async def shut_one_after_the_other(self) -> None:
        while True:
            for at, port in enumerate(self.ports):
                await asyncio.sleep(SHUT_PERIOD_S - SHUT_S)
                self._servers[at].close()
                await asyncio.sleep(SHUT_S)
                self._servers[at] = await self._listen(port)

    @classmethod
    @asynccontextmanager
    async def opened(cls, seen: Seen, count: int) -> AsyncIterator[Endpoints]:
        endpoints = cls(seen)
        try:
            for _ in range(count):
                server = await endpoints._listen(0)
                endpoints._servers.append(server)
                endpoints.ports.append(server.sockets[0].getsockname()[1])
            yield endpoints
        finally:
            for server in endpoints._servers:
                server.close()

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: EchoOrigin(self._seen), "127.0.0.1", port, backlog=1024
        )
