"""HAProxy and nginx of config/in-front, which end TLS before the proxy; a server that redirects."""

from __future__ import annotations

import http.client
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from loadtest.contenders import make_tls
from loadtest.processes import ROOT
from tests.end_to_end.programs import free_port, haproxy_with, nginx
from tests.end_to_end.served import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from loadtest.contenders import TlsSite

    Front = Callable[[Path, TlsSite, int], AbstractContextManager[int]]

pytestmark = pytest.mark.e2e

REGISTRY = "location / { return 301 $http_x_forwarded_proto://$http_host/v2/; }"
"""Holds what a registry of images does, which knows by this field alone how its clients came."""

FILES = ROOT / "config" / "in-front"
SETTINGS = """
preset: http
upstream: {url: "http://127.0.0.1:%d"}
downstream: {listen: "127.0.0.1:%d", trustedProxies: [%s]}
admin: "127.0.0.1:0"
"""


@contextmanager
def page_nginx(directory: Path, tls: TlsSite, port: int) -> Iterator[int]:
    own = free_port()
    text = (FILES / "nginx.conf").read_text().replace("10.0.0.5:8443", f"127.0.0.1:{port}")
    text = text.replace("https://apfproxy", "http://apfproxy").replace(
        "listen 443 ssl http2;",
        f"listen 127.0.0.1:{own} ssl http2; ssl_certificate {tls.certificate};"
        f" ssl_certificate_key {tls.key};",
    )
    with nginx(directory, "return 404;", text):
        yield own


@contextmanager
def page_haproxy(directory: Path, tls: TlsSite, port: int) -> Iterator[int]:
    own = free_port()
    server, rest = (FILES / "haproxy.cfg").read_text().split("\n    server apfproxy ")
    assert rest.startswith("10.0.0.5:8443 ssl ")
    text = server.replace(":443", f"127.0.0.1:{own}")
    text = text.replace("/etc/haproxy/site.pem", str(tls.certificate_and_key))
    defaults = (
        "defaults\n mode http\n timeout client 20s\n timeout connect 5s\n timeout server 20s\n"
    )
    with haproxy_with(directory, f"{defaults}{text}\n    server apfproxy 127.0.0.1:{port}\n"):
        yield own


@pytest.mark.parametrize(
    ("front", "trusted", "scheme"),
    [
        pytest.param(page_nginx, "127.0.0.1", "https", id="nginx"),
        pytest.param(page_haproxy, "127.0.0.1", "https", id="haproxy"),
        pytest.param(page_haproxy, "192.0.2.1", "http", id="not-trusted"),
    ],
)
def test_redirects_keep_https(front: Front, trusted: str, scheme: str, tmp_path: Path) -> None:
    """Clients that came by https are sent there, where the terminator is trusted."""
    tls = make_tls(tmp_path)
    folders = tmp_path / "upstream", tmp_path / "front"
    for each in folders:
        each.mkdir()
    settings, port = tmp_path / "apfproxy.yaml", free_port()
    with nginx(folders[0], REGISTRY) as upstream:
        settings.write_text(SETTINGS % (upstream, port, trusted))
        with command("serve", "--settings", str(settings)) as served:
            served.line("listens on")
            with front(folders[1], tls, port) as own:
                context = ssl.create_default_context(cafile=str(tls.authority))
                client = http.client.HTTPSConnection("localhost", own, context=context)
                client.request("GET", "/v2", headers={"Host": "registry.example"})
                answer = client.getresponse()
                answer.read()
                client.close()

    assert f"{scheme}://registry.example/v2/" == answer.headers["Location"]
