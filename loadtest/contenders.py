"""HAProxy, nginx and apfproxy as like-for-like reverse proxies, each one thread on one core.

Every one keeps client and upstream connections alive, logs no requests and has time limits long
enough to never matter.  HAProxy gets `http-no-delay`, without which it holds back each event of a
watch for 200 ms; that costs it nothing measurable on whole answers.  HAProxy and nginx add no
fields by default, which is the strictest comparison; with `adds_headers` they set `Via`,
`X-Forwarded-For` and `X-Forwarded-Proto` as apfproxy always does.

With TLS, that is between clients and proxies alone.  All ask for clients' certificates and go on
without, and none takes sessions up again: every connection has a whole handshake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadtest.processes import Process, free_ports, start_apfproxy
from loadtest.tls_site import CIPHER, CURVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from loadtest.tls_site import TlsSite

CONTENDERS = ("haproxy", "nginx", "apfproxy")
WITH = "apf+with"
"""A second apfproxy, with features on that the first, beside it, has off."""
FEATURES = ("access-log", "top-flows", "observe")
"""Features of apfproxy that may be compared with none of them."""

MAX_CONNECTIONS = 9500
"""Client connections per proxy; HAProxy and nginx need two descriptors for each."""

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
    timeout http-keep-alive 300s
    option http-no-delay
    http-reuse always
{headers}
frontend clients
    bind 127.0.0.1:{port} backlog 4096{tls}
    default_backend origin
backend origin
    server origin 127.0.0.1:{upstream_port}
"""

HAPROXY_TLS = (
    " ssl crt {pem} ssl-min-ver TLSv1.3 ciphersuites {cipher} curves {curve}"
    " alpn http/1.1 no-tls-tickets verify optional ca-file {authority}"
)

HAPROXY_HEADERS = """    option forwardfor
    http-request set-header X-Forwarded-Proto {scheme}
    http-request set-header Via "1.1 haproxy"
    http-response set-header Via "1.1 haproxy"
"""

NGINX_PREAMBLE = """
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

NGINX_PROXY = (
    NGINX_PREAMBLE
    + """
    upstream origin {{
        server 127.0.0.1:{upstream_port};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 300s;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096{tls}
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_read_timeout 300s;
{headers}
        }}
    }}
}}
"""
)

NGINX_TLS = """ ssl;
        ssl_protocols TLSv1.3;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_ecdh_curve {curve};
        ssl_session_tickets off;
        ssl_verify_client optional;
        ssl_client_certificate {authority};
"""

NGINX_HEADERS = """            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header Via "1.1 nginx";
            add_header Via "1.1 nginx";
"""

NGINX_ORIGIN = (
    NGINX_PREAMBLE
    + """
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        default_type application/json;
        location / {{
            return 200 '{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"x"}}}}';
        }}
    }}
}}
"""
)


class Site(NamedTuple):
    """Where and how the programs of one load test run."""

    directory: Path
    """An existing directory for configurations and output."""

    proxy_core: int | None
    """The CPU of each proxy; None leaves it to the scheduler."""

    load_core: int | None
    """The CPU of the origin and of the load generator."""

    adds_headers: bool
    """Whether HAProxy and nginx set the fields that apfproxy sets."""

    tls: TlsSite | None = None
    """What proxies and clients speak TLS with, if they do."""

    features: Sequence[str] | None = None
    """What `WITH` has on and apfproxy has not; None leaves apfproxy its defaults."""


def start_contender(name: str, site: Site, upstream_port: int) -> Process:
    """Start one proxy before an origin.

    Args:
        name: One of `CONTENDERS`, or `WITH`.
        site: Where to run it.
        upstream_port: Where the origin listens on 127.0.0.1.

    Returns:
        The running proxy.

    Raises:
        LoadTestError: It is not installed or does not start.
    """
    tls = site.tls
    if name in {"apfproxy", WITH}:
        process, _ = start_apfproxy(
            upstream_port=upstream_port,
            directory=site.directory,
            core=site.proxy_core,
            arguments=_apfproxy_arguments(name, site),
            name=name,
        )
        return process
    if name == "haproxy":
        (port,) = free_ports(1)
        headers = HAPROXY_HEADERS.format(scheme="http" if tls is None else "https")
        text = HAPROXY_CONFIG.format(
            port=port,
            upstream_port=upstream_port,
            max_connections=MAX_CONNECTIONS,
            headers=headers if site.adds_headers else "",
            tls=""
            if tls is None
            else HAPROXY_TLS.format(
                pem=tls.certificate_and_key, authority=tls.authority, cipher=CIPHER, curve=CURVE
            ),
        )
        config = site.directory / "haproxy.cfg"
        config.write_text(text)
        argv = ["haproxy", "-db", "-f", str(config)]
        return Process(name, argv, port=port, core=site.proxy_core, directory=site.directory)
    headers = NGINX_HEADERS if site.adds_headers else ""
    return _start_nginx("nginx", NGINX_PROXY, site, site.proxy_core, upstream_port, headers)


def _apfproxy_arguments(name: str, site: Site) -> list[str]:
    """The arguments of one apfproxy, whose settings file is written here if it takes one."""
    tls, features = site.tls, site.features
    if features is None:
        return ["--settings", str(tls.apfproxy_config)] if tls is not None else []
    if name != WITH:
        features = ()
    settings = "" if tls is None else tls.apfproxy_config.read_text()
    is_on = str("top-flows" in features).lower()
    config = site.directory / f"{name}.yaml"
    config.write_text(f"{settings}\ntopFlows: {{enabled: {is_on}}}\n")
    arguments = ["--settings", str(config)]
    if "access-log" in features:
        arguments += ["--access-log", str(site.directory / "access.log")]
    if "observe" in features:
        arguments += ["--enforcement", "observe"]
    return arguments


def start_nginx_origin(site: Site) -> Process:
    """Start the origin of the comparison: a small JSON answer from memory, keep-alive.

    Args:
        site: Where to run it.

    Returns:
        The running origin.

    Raises:
        LoadTestError: It is not installed or does not start.
    """
    return _start_nginx("nginx-origin", NGINX_ORIGIN, site, site.load_core)


def _start_nginx(
    name: str,
    template: str,
    site: Site,
    core: int | None,
    upstream_port: int = 0,
    headers: str = "",
) -> Process:
    (port,) = free_ports(1)
    config = site.directory / f"{name}.conf"
    config.write_text(
        template.format(
            name=name,
            directory=site.directory,
            descriptors=2 * MAX_CONNECTIONS,
            port=port,
            upstream_port=upstream_port,
            headers=headers,
            tls=";"
            if site.tls is None
            else NGINX_TLS.format(
                certificate=site.tls.certificate,
                key=site.tls.key,
                authority=site.tls.authority,
                curve=CURVE,
            ),
        )
    )
    argv = ["nginx", "-e", "stderr", "-c", str(config)]
    return Process(name, argv, port=port, core=core, directory=site.directory)
