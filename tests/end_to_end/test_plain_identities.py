"""Users as plain APIs have them, before a real proxy: tokens of a shared secret, and sessions."""

from __future__ import annotations

import hashlib
import http.client
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING

import httpx
import jwt
import pytest

from tests.end_to_end.served import Answer, Upstream, ask, command
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

OLD, NEW, NEXT = (word * 8 for word in ("the old-", "the new-", "the next"))
SETTINGS = """
preset: http
downstream: {listen: "127.0.0.1:0", http2: {cleartext: true}}
upstream:
  url: https://127.0.0.1:%d
  tls: {caFile: ca.crt}
  identity: frontProxy
  identityWithoutCertificate: true
authentication:
  jwt:
  - secretFile: secret
    usernameClaim: user_id
    groupsClaim: app_metadata.roles
    unnamed: anonymous
  unverified: {cookies: [sessionid], namesPerAddress: 2}
admin: "127.0.0.1:0"
"""
NOT_TAKEN = "changed, but not taken, the old contents stay in force"
ANONYMOUS = ["system:anonymous", ["system:unauthenticated"]]


class Echo(Answer):
    """Says who the proxy says that the client is."""

    def do_GET(self) -> None:  # noqa: N802  the library's name
        user = self.headers["X-Remote-User"], self.headers.get_all("X-Remote-Group")
        body = json.dumps(user).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """A server with TLS that believes X-Remote-User, and its port."""
    authority = Authority("ca")
    authority.write(tmp_path, "ca")
    authority.issue("127.0.0.1", usage="server").write(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    upstream = Upstream(("127.0.0.1", 0), Echo)
    upstream.daemon_threads = True
    upstream.socket = context.wrap_socket(upstream.socket, server_side=True)
    thread = threading.Thread(target=upstream.serve_forever, name="upstream")
    thread.start()
    yield upstream.server_port
    upstream.shutdown()
    upstream.server_close()
    thread.join()


def bearer(secret: str, **claims: object) -> str:
    token = jwt.encode({"exp": time.time() + 600, **claims}, secret, "HS256")
    return f"Authorization: Bearer {token}\r\n"


def who(port: int, *fields: str) -> object:
    """The user and groups that the server learns, or the status."""
    status, body = ask(port, "/x", head="".join(fields))
    return json.loads(body) if status == http.client.OK else status


def named(session: str) -> str:
    return f"cookie:{hashlib.sha256(session.encode()).hexdigest()[:16]}"


def test_users_of_plain_apis(tmp_path: Path, server: int) -> None:
    secret, settings = tmp_path / "secret", tmp_path / "settings.yaml"
    secret.write_text(f"{OLD}\n{NEW}\n")
    settings.write_text(SETTINGS % server)
    seven = ["7", ["admin", "system:authenticated"]]
    claims = {"user_id": 7, "app_metadata": {"roles": ["admin"]}}
    with command("serve", "--settings", str(settings)) as served:
        ports = served.line(r"listens on 127.0.0.1:(\d+), .*admin on 127.0.0.1:(\d+)")
        port, admin = int(ports[1]), int(ports[2])
        assert [seven, seven, 401] == [who(port, bearer(key, **claims)) for key in (OLD, NEW, NEXT)]
        assert ANONYMOUS == who(port, bearer(NEW, role="anon"))
        assert 401 == who(port, bearer(NEW, user_id="system:admin"))

        assert ANONYMOUS == who(port, "Cookie: a=b\r\n", "Cookie: sessionid=one; c=d\r\n")
        with httpx.Client(http1=False, http2=True) as client:
            crumbs = [("cookie", "a=b"), ("cookie", "sessionid=two")]
            assert ANONYMOUS == client.get(f"http://127.0.0.1:{port}/", headers=crumbs).json()
        assert ANONYMOUS == who(port, "Cookie: sessionid=three\r\n")
        _, flows = ask(admin, "/debug/top_flows")
        users = (named("one"), named("two"), named("three"), "address:127.0.0.1")
        assert [True, True, False, True] == [user in flows for user in users]

        secret.unlink()
        served.line("the old contents stay in force: .*secret: cannot be read")
        assert seven == who(port, bearer(NEW, **claims))
        _, checks = ask(admin, "/readyz?verbose")
        assert f"identification: {NOT_TAKEN}: {secret}" in checks
        secret.write_text(f"{NEW}\n{NEXT}\n")
        served.line("changed, and loaded again")
        assert [401, seven, seven] == [who(port, bearer(key, **claims)) for key in (OLD, NEW, NEXT)]
        assert 0 == served.end()[0]
    log = "".join(served.lines)
    assert not [each for each in (OLD, NEW, NEXT, "=one", "=two") if each in log]
