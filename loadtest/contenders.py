"""HAProxy, nginx and apfproxy as like-for-like reverse proxies, each one thread on one core.

The origin is nginx, which responds from memory.  Before the mix `cluster` it responds as
kube-apiserver does: 1 to 20 KB, of a size that the target decides, with an Audit-Id each; before
the others with one small body.

Every one keeps client and upstream connections alive, logs no requests and has time limits long
enough to never matter.  HAProxy gets `http-no-delay`, without which it holds back each event of a
watch for 200 ms; that costs it nothing measurable on whole responses.  HAProxy and nginx add no
fields, which is the strictest comparison: apfproxy sets `Via`, `X-Forwarded-For` and
`X-Forwarded-Proto`.

Clients may speak HTTP/2 to each; to the origin all speak HTTP/1.1.

With TLS between clients and proxies, all ask for clients' certificates and go on without, and none
takes sessions up again: every connection has a whole handshake.

The key of the certificate is on P-256.  Clients offer TLS 1.3 with one cipher and one curve, so
that each proxy does the same arithmetic, whatever it would choose.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from loadtest.processes import ROOT, LoadTestError, Process, Proxy, free_ports
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESPONDS_WITHIN_S = 60
COMPILED, INTERPRETED = "compiled", "interpreted"
CIPHER = "TLS_AES_128_GCM_SHA256"
CURVE = "prime256v1"

CLIENT_CONFIG = f"""
openssl_conf = openssl
[openssl]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
MinProtocol = TLSv1.3
Ciphersuites = {CIPHER}
Groups = {CURVE}
"""
"""For OpenSSL in a client that has no options of its own for it."""


class Build(NamedTuple):
    """An apfproxy that can be started: its interpreter, and the path of its packages, if any."""

    python: str
    path: str

    def command(self) -> list[str]:
        # -P: the package in the current directory is this checkout's.
        return [self.python, "-P", "-m", "apfproxy"]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": self.path}

    def version(self) -> str:
        done = subprocess.run(
            [*self.command(), "--version"],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=RESPONDS_WITHIN_S,
        )
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise LoadTestError(f"{' '.join(self.command())} does not run: {words}")
        return done.stdout.strip()


THIS = Build(sys.executable, str(ROOT))
"""The package of this checkout, in this interpreter."""


def kind_of(version: str) -> str:
    return COMPILED if f"({COMPILED}" in version else INTERPRETED


def named_build(text: str) -> tuple[str, Build]:
    name, _, place = text.partition("=")
    path = Path(place)
    if re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no name of at most 20 letters a-z, digits and '-': NAME=PYTHON"
        )
    if place and (path / "apfproxy").is_dir():
        return name, Build(sys.executable, str(path.resolve()))
    if place and path.is_file():
        # Not resolved: the link itself is what tells which virtual environment it is of.
        return name, Build(str(path.absolute()), "")
    if not place:
        raise argparse.ArgumentTypeError(f"{text!r} names no interpreter: NAME=PYTHON")
    raise argparse.ArgumentTypeError(f"{place!r} is no interpreter, nor a checkout of apfproxy")


class TlsSite(NamedTuple):
    """The files of TLS; HAProxy has two in one, and OPENSSL_CONF of a client names the last."""

    certificate: Path
    key: Path
    certificate_and_key: Path
    authority: Path
    client_config: Path

    def names(self) -> dict[str, str]:
        return {"certificate": str(self.certificate), "key": str(self.key), "curve": CURVE}

    def as_settings(self) -> dict[str, str]:
        return {"certificateFile": str(self.certificate), "keyFile": str(self.key)}

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_ecdh_curve(CURVE)
        return context


def make_tls(directory: Path) -> TlsSite:
    authority = Authority("peers")
    issued = authority.issue("localhost", usage="server")
    certificate, key = issued.write(directory, "server")
    site = TlsSite(
        certificate=directory / certificate,
        key=directory / key,
        certificate_and_key=directory / "server.pem",
        authority=directory / authority.write(directory),
        client_config=directory / "client-openssl.cnf",
    )
    site.certificate_and_key.write_bytes(issued.cert_pem + issued.key_pem)
    site.client_config.write_text(CLIENT_CONFIG)
    return site


class Site(NamedTuple):
    """Where and how the programs of one comparison run.

    Attributes:
        directory: An existing one for configurations and output.
        proxy_core: The CPU of each proxy; None leaves it to the scheduler.
        load_core: The CPU of the origin and of the load generator.
        tls: Between clients and proxies, if they use it.
        http2: Whether clients speak HTTP/2 to the proxies; HTTP/1.1 otherwise.
        features: Those that `WITH` has on and apfproxy has not; None leaves apfproxy its defaults.
        builds: Each apfproxy by its name; `WITH` is the last of them.
        token_file: The tokens that apfproxy knows; without, it believes identity headers.
    """

    directory: Path
    proxy_core: int | None
    load_core: int | None
    tls: TlsSite | None = None
    http2: bool = False
    features: Sequence[str] | None = None
    builds: Mapping[str, Build] = MappingProxyType({"apfproxy": THIS})
    token_file: Path | None = None


MAX_CONNECTIONS = 9500
"""Client connections per proxy; HAProxy and nginx need two descriptors for each."""

PREAMBLE = """
daemon off;
master_process off;
worker_processes 1;
pid {directory}/{name}.pid;
error_log stderr crit;
events {{ worker_connections {descriptors}; }}
http {{
    access_log off;
    client_body_temp_path {directory}/{name}.client;
    proxy_temp_path {directory}/{name}.proxy;
    fastcgi_temp_path {directory}/{name}.fastcgi;
    uwsgi_temp_path {directory}/{name}.uwsgi;
    scgi_temp_path {directory}/{name}.scgi;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    tcp_nodelay on;
"""

TLS = """ ssl;
        ssl_protocols TLSv1.3;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_ecdh_curve {curve};
        ssl_session_tickets off;
"""

ORIGIN = (
    PREAMBLE
    + """
{answers}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        default_type application/json;
{fields}
        location / {{ return 200 {answer}; }}
    }}
}}
"""
)
SMALL = {
    "answers": "",
    "fields": "",
    "answer": """'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}'""",
}
CLUSTER = {
    "answers": """
    client_body_buffer_size 16k;
    split_clients "$request_uri" $size {{ 35% 1; 25% 2; 20% 4; 12% 9; * 20; }}
    map "" $kb {{ default "{kilobyte}"; }}
    map $size $answer {{ {sizes} }}
    split_clients "$request_uri" $schema {{
        50% "5f6b1c0e-3f0a-4a52-9d0b-5d3c2b1a0f9e";
        30% "0d9c8b7a-6f5e-4d3c-8b2a-190817263544";
        * "c1d2e3f4-a5b6-4c7d-8e9f-0a1b2c3d4e5f";
    }}
""".format(
        kilobyte=("0123456789abcdef" * 64)[:1000],
        sizes=" ".join(f'{size} "{"$kb" * size}";' for size in (1, 2, 4, 9, 20)),
    ),
    "fields": """
        add_header Audit-Id $request_id;
        add_header Cache-Control "no-cache, private";
        add_header X-Kubernetes-Pf-Flowschema-Uid $schema;
        add_header X-Kubernetes-Pf-Prioritylevel-Uid 8e7d6c5b-4a39-4281-9706-f5e4d3c2b1a0;
""",
    "answer": "$answer",
}

CONTENDERS = ("haproxy", "nginx", "apfproxy")
WITH = "apf+with"
"""A second apfproxy, with features on that the first, beside it, has off."""
TRACED_PER_MILLION = {"tracing": 10_000, "tracing-all": 1_000_000}
"""How many requests are traced; the origin is the collector, which takes whatever is posted."""
FEATURES = ("access-log", "top-flows", "observe", "auto-limit", *TRACED_PER_MILLION)
"""Features of apfproxy that may be compared with none of them."""

HAPROXY_CONFIG = """
global
    nbthread 1
    maxconn {max_connections}
    tune.ssl.cachesize 0
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout queue 60s
    timeout http-keep-alive 300s
    option http-no-delay
    http-reuse always
frontend clients
    bind 127.0.0.1:{port} backlog 4096{listening}
    default_backend origin
{rules}
backend origin
    server origin 127.0.0.1:{upstream_port}{server}
"""

HAPROXY_TLS = (
    " ssl crt {pem} ssl-min-ver TLSv1.3 ciphersuites {cipher} curves {curve}"
    " no-tls-tickets verify optional ca-file {authority}"
)

NGINX_PROXY = (
    PREAMBLE
    + """
    upstream origin {{
        server 127.0.0.1:{upstream_port};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 300s;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096{tls}
{asks_for_certificates}
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_request_buffering off;
            client_max_body_size 0;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""
)

NGINX_ASKS_FOR_CERTIFICATES = """
        ssl_verify_client optional;
        ssl_client_certificate {authority};
"""


def start_nginx_origin(site: Site, mix: str = "same") -> Process:
    texts = CLUSTER if mix == "cluster" else SMALL
    return start_nginx(f"nginx-origin-{mix}", ORIGIN, site, site.load_core, **texts)


def start_nginx(name: str, template: str, site: Site, core: int | None, **texts: object) -> Process:
    (port,) = free_ports(1)
    config = site.directory / f"{name}.conf"
    config.write_text(
        template.format(
            name=name,
            directory=site.directory,
            descriptors=2 * MAX_CONNECTIONS,
            port=port,
            **texts,
        )
    )
    argv = ["nginx", "-e", "stderr", "-c", str(config)]
    return Process(name, argv, port=port, core=core, directory=site.directory)


def start_contender(name: str, site: Site, upstream_port: int) -> Process:
    if name == WITH or name in site.builds:
        return _start_apfproxy(name, site, upstream_port)
    if name == "haproxy":
        return _start_haproxy(site, upstream_port)
    tls, asks = ";", ""
    if site.tls is not None:
        tls = TLS.format(**site.tls.names())
        asks = NGINX_ASKS_FOR_CERTIFICATES.format(authority=site.tls.authority)
    return start_nginx(
        name,
        NGINX_PROXY,
        site,
        site.proxy_core,
        upstream_port=upstream_port,
        tls=" http2" * site.http2 + tls,
        asks_for_certificates=asks,
    )


def start_haproxy(
    directory: Path,
    upstream_port: int,
    *,
    core: int | None = None,
    listening: str = "",
    rules: str = "",
    server: str = "",
) -> Process:
    (port,) = free_ports(1)
    config = directory / f"haproxy-{port}.cfg"
    config.write_text(
        HAPROXY_CONFIG.format(
            port=port,
            upstream_port=upstream_port,
            max_connections=MAX_CONNECTIONS,
            listening=listening,
            rules=rules,
            server=server,
        )
    )
    argv = ["haproxy", "-db", "-f", str(config)]
    return Process("haproxy", argv, port=port, core=core, directory=directory)


def _start_haproxy(site: Site, upstream_port: int) -> Process:
    listening = " proto h2" * site.http2
    if (tls := site.tls) is not None:
        listening = f" alpn {'h2' if site.http2 else 'http/1.1'}" + HAPROXY_TLS.format(
            pem=tls.certificate_and_key, authority=tls.authority, cipher=CIPHER, curve=CURVE
        )
    core = site.proxy_core
    return start_haproxy(site.directory, upstream_port, core=core, listening=listening)


def _start_apfproxy(name: str, site: Site, upstream_port: int) -> Proxy:
    features = (site.features or ()) if name == WITH else ()
    settings: dict[str, dict[str, object]] = {"authentication": {}, "downstream": {}}
    arguments: list[str] = []
    if site.http2:
        settings["downstream"]["http2"] = {"enabled": True, "cleartext": site.tls is None}
    if site.tls is not None:
        settings["downstream"]["tls"] = site.tls.as_settings()
        settings["authentication"]["clientCaFile"] = str(site.tls.authority)
    if site.token_file is not None:
        settings["authentication"]["tokenFile"] = str(site.token_file)
    if site.features is not None:
        settings["topFlows"] = {"enabled": "top-flows" in features}
    for feature in features:
        if feature in TRACED_PER_MILLION:
            settings["tracing"] = {
                "endpoint": f"http://127.0.0.1:{upstream_port}",
                "samplingRatePerMillion": TRACED_PER_MILLION[feature],
            }
    if "access-log" in features:
        settings["accessLog"] = {"maxBytesPerSecond": None}  # a line of each request is measured
        arguments += ["--access-log", str(site.directory / "access.log")]
    if "observe" in features:
        arguments += ["--enforcement", "observe"]
    if "auto-limit" in features:
        # Held at the limit that others have: another one is another load, not the finder's cost.
        settings["flowControl"] = {
            "serverConcurrencyLimit": "auto",
            "autoLimit": {"min": 600, "max": 600, "initial": 600},
        }
    return Proxy(
        site.directory,
        [upstream_port],
        name=f"{name}-{'h2' if site.http2 else 'h1'}-{upstream_port}",
        settings=json.dumps(settings),
        arguments=arguments,
        core=site.proxy_core,
        build=site.builds[list(site.builds)[-1] if name == WITH else name],
        believes_headers=site.token_file is None,
    )
