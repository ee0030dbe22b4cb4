"""`apfproxy config print`: the files for operators that come with the package."""

from __future__ import annotations

import textwrap

import click

from apfproxy.base.build import shipped
from apfproxy.cli.errors import EXIT_CODES, OK

FILES = {
    "alerts": ("prometheus/prometheusrule.yaml",),
    "apfproxy.service": ("systemd/apfproxy.service",),
    "apfproxy.socket": ("systemd/apfproxy.socket",),
    "apfproxy-admin.socket": ("systemd/apfproxy-admin.socket",),
    "dashboard": ("grafana/apfproxy.json",),
    "http-objects": ("bootstrap/mandatory.yaml", "bootstrap/http.yaml"),
    "llm-objects": ("bootstrap/mandatory.yaml", "bootstrap/llm.yaml"),
    "objects": ("bootstrap/mandatory.yaml", "bootstrap/suggested.yaml"),
    "prometheusrule": ("prometheus/prometheusrule.yaml",),
    "settings": ("apfproxy.yaml",),
}
"""Files by name; several are documents of one YAML file."""

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
    settings        every setting with its default and an explanation
    objects         the built-in FlowSchemas and priority levels
    http-objects    those of the preset http
    llm-objects     those of the preset llm
    dashboard       a dashboard for Grafana, to import
    alerts          a file of rules for Prometheus
    prometheusrule  the same rules for the Prometheus operator

    \b
    apfproxy.service, apfproxy.socket, apfproxy-admin.socket
                  units for systemd
    """  # noqa: D301 - click's mark
    content = b"---\n".join(shipped(path).read_bytes() for path in FILES[name])
    if name == "alerts":  # what the PrometheusRule has below its spec
        content = textwrap.dedent(content.decode().partition("\nspec:\n")[2]).encode()
    click.echo(content, nl=False)
    return OK
