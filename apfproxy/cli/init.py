"""`apfproxy init`: the files to begin with, for one of three uses."""

from __future__ import annotations

from pathlib import Path

import click

from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.shipped_files import shipped

MONITORING = ("kubernetes/monitoring", "prometheus", "grafana")
KINDS = {
    "kube-apiserver": ("starters/kube-apiserver",),
    "gateway": (
        "starters/gateway",
        "kubernetes/base",
        "kubernetes/fleet",
        "kubernetes/rbac",
        "kubernetes/gateway",
        *MONITORING,
    ),
    "http": (
        "starters/http",
        "kubernetes/base",
        "kubernetes/rbac",
        "kubernetes/sidecar",
        *MONITORING,
    ),
}
"""The uses, and the directories of `config/` whose files each gets."""

STARTERS = "starters"
"""The files of a directory of these are put at the top, those of others into a like directory."""

EPILOG = f"""\b
Kinds:
  kube-apiserver  beside a kube-apiserver, on its machine
  gateway         before a cluster, on a machine of its own or within the cluster
  http            before any HTTP API
\b
Examples:
  apfproxy init http my-proxy
  apfproxy init kube-apiserver /etc/kubernetes/apfproxy

README.md in the directory has the steps.  A file that is there already is never changed.

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def init(kind: str, directory: Path) -> int:
    """Write settings, manifests and the steps to try them."""
    files = {directory / name: source for name, source in starter_files(kind).items()}
    present = [path for path in files if path.exists()]
    if present:
        names = ", ".join(str(path) for path in present)
        raise CommandError(f"there already: {names}; name another directory.  Nothing was written")
    for path, source in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(source.read_bytes())
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from error
        click.echo(f"wrote {path}")
    click.echo(f"\nThe steps are in {directory / 'README.md'}; lines with CHANGE wait for you:")
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "# CHANGE: " in line:
                click.echo(f"  {path}:{number}: {line.rpartition('# CHANGE: ')[2]}")
    return OK


def starter_files(kind: str) -> dict[str, Path]:
    """The files of a use: where each comes from, by its path in the directory."""
    found = {}
    for name in KINDS[kind]:
        top = shipped(name)
        prefix = Path() if name.startswith(STARTERS) else Path(name)
        for source in sorted(top.rglob("*")):
            if source.is_file():
                found[str(prefix / source.relative_to(top))] = source
    return found
