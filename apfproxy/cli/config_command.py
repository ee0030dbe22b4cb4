"""`apfproxy config print`: the files for operators that come with the package."""

from __future__ import annotations

import click

from apfproxy.cli.errors import EXIT_CODES, OK
from apfproxy.shipped_files import shipped

FILES = {
    "alerts": ("prometheus/apfproxy-alerts.yaml",),
    "dashboard": ("grafana/apfproxy.json",),
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
    alerts     alerting rules for Prometheus
    dashboard  a dashboard for Grafana, to import
    objects    the built-in FlowSchemas and priority levels
    settings   every setting with its default and an explanation
    """  # noqa: D301 - click's mark
    click.echo(b"---\n".join(shipped(path).read_bytes() for path in FILES[name]), nl=False)
    return OK
