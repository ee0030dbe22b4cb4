"""nginx as the origin of a comparison, which answers from memory; and how any nginx is started.

It listens on several addresses of this machine, so it can be one origin or be taken for several.

Before the mix `cluster` it answers as kube-apiserver does: 1 to 20 KB, of a size that the target
decides, with an Audit-Id of its own each.  Before the others it has one small answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtest.processes import Process, free_ports

if TYPE_CHECKING:
    from loadtest.site import Site, TlsSite

ENDPOINTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
"""Where an origin listens, always on the same port."""

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

SMALL = (
    PREAMBLE
    + """
    server {{
{more_addresses}
        listen 127.0.0.1:{port} backlog=4096{tls}
        default_type application/json;
        location / {{
            return 200 '{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"x"}}}}';
        }}
    }}
}}
"""
)

CLUSTER = (
    PREAMBLE
    + """
    client_body_buffer_size 16k;
    split_clients "$request_uri" $size {{
        35% 1;
        25% 2;
        20% 4;
        12% 9;
        * 20;
    }}
    map "" $kb {{ default "{kilobyte}"; }}
    map $size $answer {{
{answers}
    }}
    split_clients "$request_uri" $schema {{
        50% "5f6b1c0e-3f0a-4a52-9d0b-5d3c2b1a0f9e";
        30% "0d9c8b7a-6f5e-4d3c-8b2a-190817263544";
        * "c1d2e3f4-a5b6-4c7d-8e9f-0a1b2c3d4e5f";
    }}
    server {{
{more_addresses}
        listen 127.0.0.1:{port} backlog=4096{tls}
        default_type application/json;
        add_header Audit-Id $request_id;
        add_header Cache-Control "no-cache, private";
        add_header X-Kubernetes-Pf-Flowschema-Uid $schema;
        add_header X-Kubernetes-Pf-Prioritylevel-Uid 8e7d6c5b-4a39-4281-9706-f5e4d3c2b1a0;
        location / {{
            return 200 $answer;
        }}
    }}
}}
"""
)
SIZES_KB = (1, 2, 4, 9, 20)


def start_nginx_origin(site: Site, mix: str = "same") -> Process:
    name = f"nginx-origin-{mix}"
    if mix != "cluster":
        return start_nginx(name, SMALL, site, site.load_core, site.upstream_tls)
    return start_nginx(
        name,
        CLUSTER,
        site,
        site.load_core,
        site.upstream_tls,
        kilobyte=("0123456789abcdef" * 64)[:1000],
        answers="\n".join(f'        {size} "{"$kb" * size}";' for size in SIZES_KB),
    )


def start_nginx(
    name: str,
    template: str,
    site: Site,
    core: int | None,
    tls: TlsSite | None,
    *,
    http2: bool = False,
    **texts: object,
) -> Process:
    (port,) = free_ports(1)
    config = site.directory / f"{name}.conf"
    ssl = "" if tls is None else " ssl"
    config.write_text(
        template.format(
            name=name,
            more_addresses="\n".join(
                f"        listen {address}:{port} backlog=4096{ssl};" for address in ENDPOINTS[1:]
            ),
            directory=site.directory,
            descriptors=2 * MAX_CONNECTIONS,
            port=port,
            tls=" http2" * http2 + (";" if tls is None else TLS.format(**tls.names())),
            **texts,
        )
    )
    argv = ["nginx", "-e", "stderr", "-c", str(config)]
    return Process(name, argv, port=port, core=core, directory=site.directory)
