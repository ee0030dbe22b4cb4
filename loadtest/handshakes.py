"""What a client's connection over TLS 1.3 costs: CPU, with and without an earlier one's session.

apfproxy runs on one core before an nginx origin; a client on the other core opens a connection for
each request.  In each round both kinds are driven in turn, for a certificate with a key on P-256
and for one with a key of RSA 2048, as kubeadm makes them.

    python -m loadtest.handshakes --rounds 5 --seconds 2
"""

from __future__ import annotations

import socket
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.arguments import Parser, count_up_to
from loadtest.certificates import Authority, new_rsa_key
from loadtest.nginx_origin import start_nginx_origin
from loadtest.processes import LoadTestError, Process, exit_status, pin, start_apfproxy
from loadtest.site import Site
from loadtest.tls_site import CURVE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

REQUEST = b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
FULL, RESUMED = "full", "resumed"
PROXY_CORE, LOAD_CORE = 0, 1
WITHIN_S = 10.0
SETTINGS = "downstream:\n  tls: {{certificateFile: {}, keyFile: {}}}\n"


def ask(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[bool, ssl.SSLSession | None]:
    """Ask once on a new connection: whether it took up the session, and its own session."""
    with (
        socket.create_connection(("127.0.0.1", port), WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as client,
    ):
        client.sendall(REQUEST)
        if not client.recv(4096).startswith(b"HTTP/1.1 200 "):
            raise LoadTestError("an answer was no success")
        return bool(client.session_reused), client.session


def drive(proxy: Process, context: ssl.SSLContext, kind: str, seconds: float) -> float:
    """CPU microseconds of the proxy per connection of a kind."""
    _, session = ask(proxy.port, context, None)
    count = 0
    before_ns, end = proxy.cpu_ns(), time.monotonic() + seconds
    while time.monotonic() < end:
        reused, _ = ask(proxy.port, context, session if kind == RESUMED else None)
        if reused is not (kind == RESUMED):
            raise LoadTestError(f"a handshake was not {kind}")
        count += 1
    return (proxy.cpu_ns() - before_ns) / 1000 / count


def measure(options: argparse.Namespace, directory: Path) -> None:
    """Print the medians."""
    pin(0, LOAD_CORE)
    authority = Authority("handshakes")
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve(CURVE)
    print(f"{'key':<10}{'handshake':<11}{'CPU us':>9}{'x full':>9}")
    with start_nginx_origin(Site(directory, PROXY_CORE, LOAD_CORE)) as origin:
        for name, key in (("P-256", None), ("RSA 2048", new_rsa_key())):
            files = authority.issue("localhost", usage="server", key=key).write(directory, name)
            settings = directory / "handshakes.yaml"
            settings.write_text(SETTINGS.format(*files))
            proxy, _ = start_apfproxy(
                upstream_port=origin.port,
                directory=directory,
                core=PROXY_CORE,
                arguments=["--settings", str(settings)],
            )
            with proxy:
                rounds = [
                    [drive(proxy, context, kind, options.seconds) for kind in (FULL, RESUMED)]
                    for _ in range(options.rounds)
                ]
            full, resumed = (statistics.median(column) for column in zip(*rounds, strict=True))
            ratio = statistics.median(each[1] / each[0] for each in rounds)
            print(f"{name:<10}{FULL:<11}{full:>9.0f}{1:>9.2f}")
            print(f"{name:<10}{RESUMED:<11}{resumed:>9.0f}{ratio:>9.2f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the result is the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count_up_to(1000), default=5, help="of both kinds (5)")
    parser.add_argument("--seconds", type=count_up_to(3600), default=2, help="of each kind (2)")
    options = parser.parse_args(arguments)

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="apfproxy-handshakes-") as directory:
            measure(options, Path(directory))

    return exit_status("handshakes", run)


if __name__ == "__main__":
    sys.exit(main())
