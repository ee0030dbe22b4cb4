"""Points links of the site that leave docs/ to the repository, where they lead on GitHub."""  # noqa: INP001

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

OUTSIDE = re.compile(r"\]\(\.\./")


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: object) -> str:
    """Replace `../` of links, before mkdocs looks for their targets."""
    return OUTSIDE.sub(f"]({config.repo_url}/blob/main/", markdown)
