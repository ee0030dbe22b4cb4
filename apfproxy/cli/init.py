"""`apfproxy init`: the files to begin with, for one of four uses."""

from __future__ import annotations

import re
from pathlib import Path

import click

from apfproxy.base.build import shipped
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.objects.field_errors import counted

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
        "kubernetes/sidecar-http",
        "kubernetes/base",
        "kubernetes/sidecar",
        *MONITORING,
    ),
    "llm": (
        "starters/llm",
        "kubernetes/sidecar-llm",
        "kubernetes/base",
        "kubernetes/sidecar",
        *MONITORING,
    ),
}
"""The uses, and the directories of `config/` whose files each gets."""

AT_THE_TOP = ("starters/", "kubernetes/sidecar-http", "kubernetes/sidecar-llm")
"""The files of these are put at the top, those of others into a like directory."""

IMAGE = re.compile(
    r"^( +image: )apfproxy:[\d.]+ +# CHANGE:.*\n|^ +newName: apfproxy +# CHANGE:.*\n +newTag:.*\n",
    re.MULTILINE,
)
"""The lines that name the image: of a pod, or of a kustomization.  Each use has them once."""
NAME = re.compile(
    r"(?P<name>\w[\w.-]*(?::\d+(?=/))?(?:/\w[\w.-]*)*)"
    r"(?::(?P<tag>\w[\w.-]*))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
"""The name of an image: a port of its registry has a slash behind it."""

EPILOG = f"""\b
Kinds:
  kube-apiserver  beside a kube-apiserver, on its machine
  gateway         before a cluster, on a machine of its own or within it
  http            before any HTTP API
  llm             before a server of language models
\b
Examples:
  apfproxy init http my-proxy
  apfproxy init http my-proxy --image registry.example/apfproxy:0.1.0
  apfproxy init kube-apiserver /etc/kubernetes/apfproxy

README.md in the directory has the steps.  Each use has a directory of its own: a file that is
there already is never changed.

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--image", metavar="NAME", help="The image that you built, for pods.")
def init(kind: str, directory: Path, image: str | None) -> int:
    """Write settings, manifests and the steps to try them."""
    if image is not None and NAME.fullmatch(image) is None:
        raise click.BadParameter(
            f"{image!r} is not NAME, NAME:TAG or NAME@sha256:DIGEST", param_hint="'--image'"
        )
    texts = {directory / name: text for name, text in starter_files(kind).items()}
    if present := [path for path in texts if path.exists()]:
        more = f" and {counted(len(present) - 1, 'more file')} are" if present[1:] else " is"
        raise CommandError(
            f"{present[0]}{more} there already: each use has a directory of its own, so name"
            " another one.  Nothing was written"
        )
    if image is not None:
        texts = {path: with_image(text, image) for path, text in texts.items()}
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CommandError(f"{path}: cannot be made: {error.strerror}") from error
        click.echo(f"wrote {path}")
    click.echo(f"\nThe steps are in {directory / 'README.md'}; lines with CHANGE wait for you:")
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if "# CHANGE: " in line:
                click.echo(f"  {path}:{number}: {line.rpartition('# CHANGE: ')[2]}")
    return OK


def with_image(text: str, image: str) -> str:
    found = NAME.fullmatch(image)
    assert found is not None
    lines = f"  newName: {found['name']}\n"
    lines += f'  newTag: "{found["tag"]}"\n' if found["tag"] else ""
    lines += f"  digest: {found['digest']}\n" if found["digest"] else ""
    return IMAGE.sub(lambda match: f"{match[1]}{image}\n" if match[1] else lines, text)


def starter_files(kind: str) -> dict[str, str]:
    """Texts of files, by their paths in the directory."""
    found = {}
    for name in KINDS[kind]:
        top = shipped(name)
        is_at_the_top = name.startswith(AT_THE_TOP)
        prefix = Path() if is_at_the_top else Path(name)
        for source in sorted(top.rglob("*")):
            if source.is_file():
                text = source.read_text("utf-8")
                if is_at_the_top and source.name == "kustomization.yaml":
                    text = text.replace("../", "kubernetes/")
                found[str(prefix / source.relative_to(top))] = text
    return found
