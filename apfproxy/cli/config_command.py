"""`apfproxy config print`: the files for operators that come with the package."""

from __future__ import annotations

import click

from apfproxy.cli.errors import EXIT_CODES, OK
from apfproxy.shipped_files import shipped

FILES = {
    "alerts": ("prometheus/apfproxy-alerts.yaml",),
    "apfproxy.service": ("systemd/apfproxy.service",),
    "apfproxy.socket": ("systemd/apfproxy.socket",),
    "apfproxy-admin.socket": ("systemd/apfproxy-admin.socket",),
    "dashboard": ("grafana/apfproxy.json",),
    "http-objects": ("bootstrap/mandatory.yaml", "bootstrap/http.yaml"),
    "objects": ("bootstrap/mandatory.yaml", "bootstrap/suggested.yaml"),
    "settings": ("apfproxy.yaml",),
}
"""Of each name the files; several are documents of one YAML file."""

EPILOG = f"""\b
Examples:
  apfproxy config print settings > apfproxy.yaml
  apfproxy config print dashboard > apfproxy.json
  apfproxy config print alerts > /etc/prometheus/apfproxy-alerts.yaml

{EXIT_CODES}"""


@click.group(epilog=EPILOG, no_args_is_help=False)
def config() -> None:
    """Print files that come with apfproxy: settings, alerts and so on."""


@config.command("print", epilog=EPILOG)
@click.argument("name", metavar="FILE", type=click.Choice(list(FILES)))
def print_(name: str) -> int:
    """Print a file that comes with this version.

    \b
    settings      every setting with its default and an explanation
    objects       the built-in FlowSchemas and priority levels
    http-objects  those of the preset http
    dashboard     a dashboard for Grafana, to import
    alerts        alerting rules for Prometheus

    \b
    apfproxy.service, apfproxy.socket, apfproxy-admin.socket
                  units for systemd
    """  # noqa: D301 - click's mark
    click.echo(b"---\n".join(shipped(path).read_bytes() for path in FILES[name]), nl=False)
    return OK
