"""What a test of streams plays on: upstreams over TLS, proxies before them, and who asks."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from apfproxy.request.attributes import User, authenticated
from loadtest.certificates import Authority, new_rsa_key, to_pem
from tests.end_to_end.streaming_upstream.identities import Identities, credential_id
from tests.end_to_end.streaming_upstream.server import StreamingUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

CERTIFICATE, TOKEN, ACCOUNT = "certificate", "token", "account"
"""What a client has: a certificate, a static token, or the JWT of a service account."""
CREDENTIALS = (CERTIFICATE, TOKEN, ACCOUNT)
STRANGER = "stranger"
"""One with a token that is nobody's."""

DIRECT = "direct"
PASS_THROUGH, FRONT_PROXY, IMPERSONATE = "passThrough", "frontProxy", "impersonate"
MODES = (PASS_THROUGH, FRONT_PROXY, IMPERSONATE)
"""How the proxies name the user to the upstream."""
TARGETS = (DIRECT, *MODES)

ISSUER = "https://kubernetes.example.test"
AUDIENCE = "https://kubernetes.example.test"
PROXY = "system:apfproxy"
"""The proxies' own name, in their certificate and of their token."""
STATIC_TOKEN = "static-token-of-tess"  # noqa: S105  a test's
PROXY_TOKEN = "static-token-of-the-proxy"  # noqa: S105  a test's
WRONG_TOKEN = "static-token-of-nobody"  # noqa: S105  a test's
LIFETIME_S = 3600

CAROL = User("carol", ("team:a", "team:b"))
TESS = User("tess", ("team:a", "team:c"), "uid-of-tess")
ACCOUNT_USER = User(
    "system:serviceaccount:shop:builder",
    ("system:serviceaccounts", "system:serviceaccounts:shop"),
    "uid-of-builder",
    (
        ("authentication.kubernetes.io/credential-id", ("JTI=jti-of-builder",)),
        ("authentication.kubernetes.io/pod-name", ("builder-0",)),
        ("authentication.kubernetes.io/pod-uid", ("uid-of-builder-0",)),
    ),
)

LISTENS = re.compile(r"listens on 127\.0\.0\.1:(\d+) with TLS and HTTP/2,")
START_S = 100
DRAIN_S = 5


def account_token() -> str:
    """A token of a service account, bound to a pod."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": [AUDIENCE],
        "sub": ACCOUNT_USER.name,
        "iat": now,
        "nbf": now,
        "exp": now + LIFETIME_S,
        "jti": "jti-of-builder",
        "kubernetes.io": {
            "namespace": "shop",
            "serviceaccount": {"name": "builder", "uid": ACCOUNT_USER.uid},
            "pod": {"name": "builder-0", "uid": "uid-of-builder-0"},
        },
    }
    return jwt.encode(claims, to_pem(new_rsa_key()), algorithm="RS256")


@dataclass(frozen=True)
class Stage:
    """Servers, one of each target, and clients.

    Attributes:
        folder: Has all files.
        token: Of the service account.
        users: Credential to whose it is.
        upstreams: Target to the upstream itself, which has its own pods.
        ports: Target to where clients connect.
        logs: Mode to the lines that the proxy has written.
    """

    folder: Path
    token: str = field(repr=False)
    users: dict[str, User]
    upstreams: dict[str, StreamingUpstream]
    ports: dict[str, int]
    logs: dict[str, list[str]]

    def url(self, target: str) -> str:
        """Where clients connect."""
        return f"https://127.0.0.1:{self.ports[target]}"

    def write_kubeconfig(self, home: Path, credential: str) -> None:
        """Give a kubectl, by its home, a credential and the CA."""
        certificate, key = str(self.folder / "client.crt"), str(self.folder / "client.key")
        user = {
            CERTIFICATE: {"client-certificate": certificate, "client-key": key},
            TOKEN: {"token": STATIC_TOKEN},
            ACCOUNT: {"token": self.token},
            STRANGER: {"token": WRONG_TOKEN},
        }[credential]
        cluster = {"certificate-authority": str(self.folder / "ca.crt"), "server": "https://none"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        (home / ".kube").mkdir(parents=True)
        (home / ".kube" / "config").write_text(json.dumps(config))


@contextlib.contextmanager
def proxies(stage: Stage) -> Iterator[None]:
    """Run a proxy in each mode before its upstream, in processes of their own."""
    with contextlib.ExitStack() as stack:
        started = {
            mode: stack.enter_context(_process(_write_settings(stage, mode))) for mode in MODES
        }
        for mode, process in started.items():
            lines = stage.logs[mode] = []
            stage.ports[mode] = _port_of(process, lines)
            assert process.stderr is not None
            reader = threading.Thread(target=lines.extend, args=(process.stderr,))
            reader.start()
            stack.callback(reader.join)
        try:
            yield
        finally:
            for process in started.values():
                process.send_signal(signal.SIGTERM)
            codes = {mode: process.wait(START_S) for mode, process in started.items()}
        assert dict.fromkeys(MODES, 0) == codes, stage.logs


@contextlib.contextmanager
def _process(settings: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(  # noqa: S603  this interpreter
        [sys.executable, "-m", "apfproxy", "serve", "--settings", str(settings)],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _port_of(process: subprocess.Popen[str], lines: list[str]) -> int:
    """Where a proxy listens, once it says so."""
    assert process.stderr is not None
    limit = threading.Timer(START_S, process.kill)
    limit.start()
    try:
        for line in process.stderr:
            lines.append(line)
            if match := LISTENS.search(line):
                return int(match[1])
    finally:
        limit.cancel()
    raise AssertionError("".join(lines))


def _write_settings(stage: Stage, mode: str) -> Path:
    folder = stage.folder
    settings: dict[str, Any] = {
        "downstream": {
            "listen": "127.0.0.1:0",
            "overload": {"loopDelay": None},
            "tls": {"certificateFile": "server.crt", "keyFile": "server.key"},
        },
        "upstream": {
            "url": f"https://127.0.0.1:{stage.upstreams[mode].port}",
            "identity": mode,
            "tls": {"caFile": "ca.crt"},
        },
        "authentication": {
            "clientCaFile": "ca.crt",
            "tokenFile": "tokens.csv",
            "jwt": [
                {
                    "issuer": ISSUER,
                    "audiences": [AUDIENCE],
                    "keysFile": "accounts.pub",
                    "serviceAccounts": True,
                }
            ],
        },
        "drain": {"timeout": f"{DRAIN_S}s"},
        "admin": None,
        "logLevel": "debug",
    }
    if mode == FRONT_PROXY:
        settings["upstream"]["tls"] |= {"certificateFile": "proxy.crt", "keyFile": "proxy.key"}
    elif mode == IMPERSONATE:
        settings["upstream"]["tokenFile"] = "proxy.token"
    path = folder / f"{mode}.yaml"
    path.write_text(json.dumps(settings))
    return path


def write_files(folder: Path) -> dict[str, User]:
    """Write the credentials of everybody: credential to whose it is."""
    authority = Authority("tests")
    authority.write(folder)
    authority.issue("127.0.0.1", usage="server").write(folder, "server")
    client = authority.issue(CAROL.name, CAROL.groups)
    client.write(folder, "client")
    authority.issue(PROXY).write(folder, "proxy")
    (folder / "tokens.csv").write_text(
        f'{STATIC_TOKEN},{TESS.name},{TESS.uid},"{",".join(TESS.groups)}"\n'
    )
    (folder / "proxy.token").write_text(PROXY_TOKEN)
    public_key = new_rsa_key().public_key()
    (folder / "accounts.pub").write_bytes(
        public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    carol = User(CAROL.name, CAROL.groups, extra=credential_id(client.der))
    users = {CERTIFICATE: carol, TOKEN: TESS, ACCOUNT: ACCOUNT_USER}
    return {credential: authenticated(user) for credential, user in users.items()}


@contextlib.asynccontextmanager
async def upstreams(folder: Path) -> AsyncIterator[Stage]:
    """An upstream for each target, over TLS; of the proxies there are none yet."""
    users = write_files(folder)
    token = account_token()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    tls.verify_mode = ssl.CERT_OPTIONAL
    clients = Identities({STATIC_TOKEN: TESS, token: ACCOUNT_USER})
    known = {
        DIRECT: clients,
        PASS_THROUGH: clients,
        FRONT_PROXY: Identities(front_proxies=(PROXY,)),
        IMPERSONATE: Identities({PROXY_TOKEN: User(PROXY, ())}, impersonators=(PROXY,)),
    }
    async with contextlib.AsyncExitStack() as stack:
        running = {}
        for target in TARGETS:
            (folder / target).mkdir()
            upstream = StreamingUpstream(folder / target, known[target])
            running[target] = await stack.enter_async_context(upstream.running(tls))
        yield Stage(folder, token, users, running, {DIRECT: running[DIRECT].port}, {})
