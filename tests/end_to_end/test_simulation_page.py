"""The page that `apfproxy simulate` writes, in a browser."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.cli.main import main
from loadtest.browser import Tab
from tests.docs.pages import ROOT
from tests.simulation.scene import LEVEL

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MIX = ROOT / "config" / "simulation" / "mix.yaml"
SEATS = ("--server-concurrency-limit", "60")
TOO_WIDE = """
[...document.querySelectorAll('.scroll, .verdict, figure')]
  .filter((node) => node.scrollWidth > node.clientWidth).map((node) => node.textContent)
""".strip()
NARROWEST_FIGURE = """
Math.min(...[...document.querySelectorAll('figure')].map((node) => node.clientWidth))
""".strip()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report about two configurations."""
    folder = tmp_path_factory.mktemp("simulation")
    objects, page = folder / "objects.yaml", folder / "report.html"
    objects.write_text(LEVEL.replace("LEVEL_ANNOTATIONS", "").replace("SCHEMA_ANNOTATIONS", ""))
    arguments = ["--mix", str(MIX), *SEATS, "--compare", str(objects), "--html", str(page)]
    assert 0 == main(["simulate", *arguments])
    return page.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1400])
def test_appearance(browser: Chrome, page: str, tmp_path: Path, width: int, theme: str) -> None:
    """Nothing has to be scrolled sideways, and plots of two configurations fill the width.

    Screenshots are kept where APFPROXY_SCREENSHOTS says.
    """
    folder = Path(os.environ.get("APFPROXY_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"simulation-{theme}-{width}.png"

    async def look() -> None:
        tab = Tab(browser)
        await tab.open(page, width=width, theme=theme)
        size = await tab.run("[document.documentElement.scrollWidth, innerWidth]")
        too_wide = await tab.run(TOO_WIDE)
        figure = await tab.run(NARROWEST_FIGURE)
        height = await tab.run("document.documentElement.scrollHeight")
        await tab.appear(width=width, theme=theme, height=height)
        await tab.screenshot(path)
        assert [width, width] == size
        assert [] == too_wide
        assert figure > 0.45 * width
        assert [] == await tab.errors()

    asyncio.run(look())
    assert b"\x89PNG" == path.read_bytes()[:4]
