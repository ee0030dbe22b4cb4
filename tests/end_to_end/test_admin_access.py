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
from tests.end_to_end.programs import installed
from tests.end_to_end.served import WITHIN_S, Served, ask, command, started_upstream
from tests.support.browser import UNTIL, chromium
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Own = tuple[str, str]
    """The files of a client's certificate and of its key."""

SCRAPERS = "scraper-token-of-32-characters-x"
OPERATORS = "operator-token-of-32-characters"
LATER = "another-token-of-32-characters-x"
PAGES = ("/", "/metrics", "/debug/limits", "/debug/live", "/events", "/nothing")
HEALTH = ("/livez", "/readyz", "/healthz", "/readyz/ping")
ASK = """
const done = arguments[0];
import("/page/ask.js").then(({ ask }) => ask("debug/limits", "")).then(
  (answer) => done(typeof answer), (error) => done(String(error)));
"""
"""Has a page ask as its parts do."""


@dataclass
class Site:
    """A proxy whose admin listener asks for credentials, in files of a folder."""

    folder: Path
    authority: Authority = field(default_factory=lambda: Authority("admin"))
    served: Served = field(init=False)
    port: int = 0
    admin: int = 0

    def write(self, tokens: str, name: str) -> None:
        self.authority.issue(name, usage="server").write(self.folder, "server")
        new = self.folder / "new"
        new.write_text(tokens)
        new.replace(self.folder / "tokens")

    def rotate(self, tokens: str, name: str) -> None:
        self.write(tokens, name)
        self.served.send(signal.SIGHUP)
        for _ in range(2):
            self.served.line("changed, and loaded again: ")

    def own(self, name: str, authority: Authority | None = None, hours: int = 24) -> Own:
        until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)
        issued = (authority or self.authority).issue(name, not_after=until)
        return issued.write(self.folder, name)

    @contextlib.contextmanager
    def connected(self, own: Own | None = None) -> Iterator[http.client.HTTPSConnection]:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if own is not None:
            context.load_cert_chain(*own)
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", self.admin, timeout=WITHIN_S, context=context)
        ) as connection:
            yield connection

    def ask(
        self,
        target: str,
        authorization: str = "",
        own: Own | None = None,
        *,
        is_whole: bool = False,
    ) -> tuple[int, http.client.HTTPMessage, str]:
        with self.connected(own) as connection:
            header = {"Authorization": authorization} if authorization else {}
            connection.request("GET", target, headers=header)
            response = connection.getresponse()
            body = response.read() if is_whole else response.read1()
            return response.status, response.headers, body.decode()

    def status(self, target: str, authorization: str = "", own: Own | None = None) -> int:
        return self.ask(target, authorization, own)[0]

    def metrics(self) -> str:
        return self.ask("/metrics", f"Bearer {SCRAPERS}", is_whole=True)[2]

    def server_name(self) -> str:
        with self.connected() as connection:
            connection.connect()
            certificate = connection.sock.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        subject = x509.load_der_x509_certificate(certificate).subject
        return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    def run(self, *arguments: str) -> tuple[int, str]:
        ca = self.authority.write(self.folder)
        flags = ("--admin", f"https://127.0.0.1:{self.admin}", "--admin-ca-file", ca)
        result = CliRunner().invoke(cli, [*arguments, *flags])
        return result.exit_code, result.output


TOKENS = f"# scrapers\n{SCRAPERS}\n\n{OPERATORS}\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    made, settings = Site(folder), folder / "settings.json"
    tls = {"certificateFile": "server.crt", "keyFile": "server.key", "clientCaFile": "ca.crt"}
    with started_upstream() as upstream:
        settings.write_text(
            json.dumps({
                "upstream": {"url": upstream},
                "downstream": {"listen": "127.0.0.1:0"},
                "workers": 2,
                "admin": "127.0.0.1:0",
                "adminTls": tls,
                "adminReadTokenFile": "tokens",
            })
        )  # fmt: skip
        made.authority.write(folder)
        made.write(TOKENS, "before")
        with command("serve", "--settings", str(settings)) as made.served:
            found = made.served.line(
                r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)"
            )
            made.port, made.admin = int(found[1]), int(found[2])
            yield made
            code = made.served.end()[0]
    log = "".join(made.served.lines)
    assert 0 == code
    assert SCRAPERS not in log
    assert "wrong" not in log.replace("wrong credentials", "")


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


def test_who_may_read(site: Site) -> None:
    """Health is open; all else needs a token or a certificate; clients of the proxy see nothing."""
    health = {site.status(page) for page in HEALTH}
    unknown = {page: site.status(page) for page in PAGES}
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
    in_plain = ask(site.admin, "/metrics")
    counted = re.findall(
        r'(?m)^apfproxy_admin_refused_requests_total\{reason="\w+-credentials"\} (.*)$',
        site.metrics(),
    )

    assert {200} == health
    assert dict.fromkeys(PAGES, 401) == unknown
    assert [401] * 6 == refused
    assert [200] * 7 == accepted
    assert ['Bearer realm="apfproxy"', 'Basic realm="apfproxy", charset="UTF-8"'] == header.get_all(
        "WWW-Authenticate"
    )
    assert "adminReadTokenFile" in said
    assert (0, "") == in_plain
    assert len(PAGES) + 1 <= sum(map(float, counted))
    assert 200 == ask(site.port, "/metrics")[0]


def test_browser(site: Site, tmp_path: Path) -> None:
    """The page is live, and asks what it asks, once the browser knows the token as a password."""
    installed("chromium")
    installed("chromedriver")
    asked: list[str] = []
    live = "document.getElementById('connection').dataset.state === 'live'"
    with chromium(tmp_path, is_trusting=True) as driver:
        for user in (f"anybody:{OPERATORS}@", ""):
            driver.get(f"https://{user}127.0.0.1:{site.admin}/")
            driver.execute_async_script(UNTIL % live)
            asked.append(driver.execute_async_script(ASK))

    assert ["object", "object"] == asked


def test_commands(site: Site, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(OPERATORS)
    certificate, key = site.own("ann")
    by_token = ("--admin-token-file", str(token))
    by_certificate = ("--admin-cert-file", certificate, "--admin-key-file", key)
    for words in (("limits",), ("explain", "list", "pods", "-A"), ("top", "-o", "json")):
        assert [0, 0] == [site.run(*words, *flags)[0] for flags in (by_token, by_certificate)]
        code, output = site.run(*words)
        assert (1, True) == (code, "give --admin-token-file" in output)


def test_rotation(site: Site) -> None:
    """Tokens and certificate are those of the files, for all who come from then on."""
    site.rotate(LATER, "after")
    after = [site.status("/metrics", f"Bearer {token}") for token in (SCRAPERS, LATER)]
    name = site.server_name()
    site.write("short", "refused")
    site.served.line("shorter than 16 characters")
    kept = site.status("/metrics", f"Bearer {LATER}")
    site.rotate(TOKENS, "before")

    assert ("after", [401, 200], 200) == (name, after, kept)
    assert ("before", 200) == (site.server_name(), site.status("/", f"Bearer {SCRAPERS}"))
