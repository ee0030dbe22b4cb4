"""The admin listener with TLS and credentials, before probes, scrapers, browsers and commands."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import http.client
import json
import re
import signal
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.x509.oid import NameOID

from apfproxy.cli.commands import cli
from loadtest.certificates import Authority
from tests.end_to_end.programs import installed
from tests.end_to_end.served import WITHIN_S, Served, ask, command, connections, started_upstream
from tests.support.browser import UNTIL, chromium

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

SCRAPERS = "scraper-token-of-32-characters-x"
OPERATORS = "operator-token-of-32-characters"
LATER = "another-token-of-32-characters-x"
PAGES = ("/", "/metrics", "/debug/limits", "/debug/live", "/events", "/nothing")
HEALTH = ("/livez", "/readyz", "/healthz", "/readyz/ping")
BEGUN = re.compile(r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)")
ASK = """
const done = arguments[0];
import("/page/ask.js").then(({ ask }) => ask("debug/limits", "")).then(
  (answer) => done(typeof answer), (error) => done(String(error)));
"""
"""Have a page ask as its parts do."""

Own = tuple[str, str]


@dataclass
class Site:
    """A proxy whose admin listener asks for credentials.

    Attributes:
        folder: Of the files that it names.
        authority: Signs its certificate, and those of its clients.
    """

    folder: Path
    authority: Authority = field(default_factory=lambda: Authority("admin"))
    port: int = 0
    admin: int = 0

    def write(self, tokens: str, name: str) -> None:
        """Give it tokens, and a certificate with a name."""
        self.authority.issue(name, usage="server").write(self.folder, "server")
        new = self.folder / "new"
        new.write_text(tokens)
        new.replace(self.folder / "tokens")

    def own(self, name: str, authority: Authority | None = None, hours: int = 24) -> Own:
        """The files of a client's certificate, and its key."""
        until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)
        issued = (authority or self.authority).issue(name, not_after=until)
        return issued.write(self.folder, name)

    @contextlib.contextmanager
    def connected(self, own: Own | None = None) -> Iterator[http.client.HTTPSConnection]:
        """A connection to the listener, with a client's certificate if there is one."""
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if own is not None:
            context.load_cert_chain(*own)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.admin, timeout=WITHIN_S, context=context
        )
        try:
            yield connection
        finally:
            connection.close()

    def ask(
        self, target: str, authorization: str = "", own: Own | None = None
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """GET a page: status, header, and what there is of the body at once."""
        with self.connected(own) as connection:
            header = {"Authorization": authorization} if authorization else {}
            connection.request("GET", target, headers=header)
            response = connection.getresponse()
            return response.status, response.headers, response.read1().decode()

    def status(self, target: str, authorization: str = "", own: Own | None = None) -> int:
        """The status alone."""
        return self.ask(target, authorization, own)[0]

    def server_name(self) -> str:
        """The common name of the certificate that it shows."""
        with self.connected() as connection:
            connection.connect()
            certificate = connection.sock.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        subject = x509.load_der_x509_certificate(certificate).subject
        return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command against it: exit code and output."""
        ca = self.authority.write(self.folder)
        flags = ("--admin", f"https://127.0.0.1:{self.admin}", "--admin-ca-file", ca)
        result = CliRunner().invoke(cli, [*arguments, *flags])
        return result.exit_code, result.output


@contextlib.contextmanager
def serving(site: Site, workers: int | None) -> Iterator[Served]:
    """A proxy with workers, or without."""
    settings = site.folder / "settings.json"
    with started_upstream() as upstream:
        settings.write_text(
            json.dumps({
                "upstream": {"url": upstream},
                "downstream": {"listen": "127.0.0.1:0"},
                "workers": workers,
                "admin": "127.0.0.1:0",
                "adminTls": {
                    "certificateFile": "server.crt",
                    "keyFile": "server.key",
                    "clientCaFile": "ca.crt",
                },
                "adminReadTokenFile": "tokens",
            })
        )  # fmt: skip
        site.authority.write(site.folder)
        site.write(f"# scrapers\n{SCRAPERS}\n\n{OPERATORS}\n", "before")
        with command("serve", "--settings", str(settings)) as served:
            found = served.line(BEGUN.pattern)
            site.port, site.admin = int(found[1]), int(found[2])
            yield served


def basic(password: str) -> str:
    """What a browser sends."""
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "workers"])
def test_who_may_read(tmp_path: Path, workers: int | None) -> None:
    """Health is open; all else needs a token or a certificate; clients of the proxy see nothing."""
    site = Site(tmp_path)
    with serving(site, workers) as served:
        health = {site.status(page) for page in HEALTH}
        nobody = {page: site.status(page) for page in PAGES}
        refused = [
            site.status("/metrics", f"Bearer {SCRAPERS}x"),
            site.status("/metrics", "Bearer "),
            site.status("/metrics", f"Bearer {SCRAPERS}, Bearer {SCRAPERS}"),
            site.status("/metrics", basic("wrong")),
            site.status("/metrics", "Basic =="),
            site.status("/metrics", own=site.own("late", hours=-1)),
        ]
        accepted = [
            site.status("/metrics", f"Bearer {SCRAPERS}"),
            site.status("/metrics", f"bearer {OPERATORS}"),
            site.status("/", basic(OPERATORS)),
            site.status("/events", basic(OPERATORS)),
            site.status("/metrics", own=site.own("ann")),
            site.status("/debug/limits", "Bearer wrong", site.own("ann")),
            site.status("/metrics", own=site.own("")),
        ]
        _, header, said = site.ask("/metrics")
        with pytest.raises(OSError, match=r"(?i)alert|reset|EOF|closed"):  # as the systems have it
            site.ask("/livez", own=site.own("eve", Authority("others")))
        with connections(site.admin, 1, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") as (plain,):
            in_plain = _rest(plain)
        metrics = _metrics(site)
        forwarded = ask(site.port, "/metrics")[0]
        code, rest = served.end()

    assert {200} == health
    assert dict.fromkeys(PAGES, 401) == nobody
    assert [401] * 6 == refused
    assert [200] * 7 == accepted
    assert ['Bearer realm="apfproxy"', 'Basic realm="apfproxy", charset="UTF-8"'] == header.get_all(
        "WWW-Authenticate"
    )
    assert "adminReadTokenFile" in said
    assert b"HTTP" not in in_plain
    assert len(PAGES) + 1 <= metrics["no-credentials"] + metrics["wrong-credentials"]
    assert 200 == forwarded
    log = "".join(served.lines) + rest
    assert 0 == code
    assert "the admin listener refused a request of 127.0.0.1" in log
    assert SCRAPERS not in log
    assert "wrong" not in log.replace("wrong credentials", "")


def _rest(connection: socket.socket) -> bytes:
    """All that comes until a connection ends."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(4096):
            found += piece
    return found


def _metrics(site: Site) -> dict[str, float]:
    """Requests that were refused, by reason."""
    page = _metrics_page(site)
    pattern = r'(?m)^apfproxy_admin_refused_requests_total\{reason="(.*)"\} (.*)$'
    return {reason: float(number) for reason, number in re.findall(pattern, page)}


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "workers"])
def test_browser(tmp_path: Path, workers: int | None) -> None:
    """The page is live, and asks what it asks, once the browser knows the token as a password."""
    installed("chromium")
    installed("chromedriver")
    site, profile = Site(tmp_path), tmp_path / "profile"
    profile.mkdir()
    asked: list[str] = []
    live = "document.getElementById('connection').dataset.state === 'live'"
    with serving(site, workers), chromium(profile, is_trusting=True) as driver:
        for user in (f"anybody:{OPERATORS}@", ""):
            driver.get(f"https://{user}127.0.0.1:{site.admin}/")
            driver.execute_async_script(UNTIL % live)
            asked.append(driver.execute_async_script(ASK))

    assert ["object", "object"] == asked


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "workers"])
def test_commands(tmp_path: Path, workers: int | None) -> None:
    """Those that ask a running proxy take a token or a certificate, and say what they lack."""
    site = Site(tmp_path)
    token = tmp_path / "token"
    token.write_text(OPERATORS)
    certificate, key = site.own("ann")
    by_token = ("--admin-token-file", str(token))
    by_certificate = ("--admin-cert-file", certificate, "--admin-key-file", key)
    asked = (("limits",), ("explain", "list", "pods", "-A"), ("top", "-o", "json"))
    with serving(site, workers):
        found = [
            site.run(*words, *flags)[0] for words in asked for flags in (by_token, by_certificate)
        ]
        refused = [site.run(*words) for words in asked]

    assert [0] * 6 == found
    assert all(code == 1 and "give --admin-token-file" in output for code, output in refused)


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "workers"])
def test_rotation(tmp_path: Path, workers: int | None) -> None:
    """Tokens and certificate are those of the files, for whoever comes from then on."""
    site = Site(tmp_path)
    with serving(site, workers) as served:
        before = site.server_name(), site.status("/metrics", f"Bearer {SCRAPERS}")
        site.write(LATER, "after")
        served.send(signal.SIGHUP)
        for _ in range(2):
            served.line("changed, and loaded again: ")
        after = (
            site.server_name(),
            [site.status("/metrics", f"Bearer {token}") for token in (SCRAPERS, LATER)],
        )
        site.write("short", "refused")
        served.line("shorter than 16 characters")
        kept = site.status("/metrics", f"Bearer {LATER}")

    assert ("before", 200) == before
    assert ("after", [401, 200]) == after
    assert 200 == kept


def test_credentials_that_come_and_go(tmp_path: Path) -> None:
    """Settings that change turn them on and off, on the listener that there is."""
    site = Site(tmp_path)
    with serving(site, None) as served:
        path = tmp_path / "settings.json"
        settings = json.loads(path.read_text())
        del settings["adminTls"], settings["adminReadTokenFile"]
        path.write_text(json.dumps(settings))
        served.line("read again; changed: .*adminTls")
        off = ask(site.admin, "/metrics")[0]
        path.write_text(json.dumps(settings | {"adminReadTokenFile": "tokens"}))
        served.line("read again; changed: adminReadTokenFile")
        on = [
            ask(site.admin, "/metrics", head=head)[0]
            for head in ("", f"Authorization: Bearer {OPERATORS}\r\n")
        ]

    assert 200 == off
    assert [401, 200] == on


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_warning(workers: tuple[str, ...]) -> None:
    """A listener that others reach, and that asks for nothing, is warned of at the start."""
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--upstream", upstream, *workers),
            *("--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"),
        ) as served,
    ):
        served.line("WARNING .*admin: others than this machine reach it .*adminReadTokenFile")
        assert 0 == served.end()[0]


def test_handshakes_without_end(tmp_path: Path) -> None:
    """They have places as all connections do: probes come through, clients are served."""
    site = Site(tmp_path)
    with serving(site, None), connections(site.admin, 200, b"\x16\x03\x01"):
        health = [site.status("/livez") for _ in range(5)]
        served = [ask(site.port, "/healthz")[0] for _ in range(5)]
        refused = _metrics_page(site)

    assert [200] * 5 == health == served
    assert re.search(r'apfproxy_admin_connections_ended_total\{reason="replaced"\} [1-9]', refused)
    assert float(re.findall(r"(?m)^apfproxy_admin_connections (.*)$", refused)[0]) <= 64


def _metrics_page(site: Site) -> str:
    with site.connected() as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {SCRAPERS}"})
        return connection.getresponse().read().decode()
