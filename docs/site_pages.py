"""Adds to the site: links into the repository, and a table of all metrics."""  # noqa: INP001

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.admin.metric_table import TABLE

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

OUTSIDE: Final = re.compile(r"\]\(\.\./")
PLACE: Final = re.compile(r"<!-- The site has the table of all metrics here.* -->")


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: object) -> str:
    """Write the table of metrics, and replace `../` of links before mkdocs looks for targets."""
    return OUTSIDE.sub(f"]({config.repo_url}/blob/main/", PLACE.sub(metrics(), markdown))


def metrics() -> str:
    """Return a table of all metrics and their help texts."""
    rows = "\n".join(f"| `{each.name}` | {each.help} |" for each in TABLE)
    return f"| metric | meaning |\n|---|---|\n{rows}"
