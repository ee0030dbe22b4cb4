"""A headless browser, driven from the event loop of a test."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

from loadtest.processes import installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

WAIT_S = 10.0
"""How long a condition in a page may take to become true."""

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which needs rights that containers and root do not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

UNTIL = """
const done = arguments[arguments.length - 1];
const check = () => {
  let value = null;
  try { value = %s; } catch (error) { value = null; }
  if (value) done(value); else requestAnimationFrame(check);
};
check();
"""


@contextlib.contextmanager
def chromium(profile: Path, *, is_trusting: bool = False) -> Iterator[webdriver.Chrome]:
    """A running browser, which ends with the block.

    Args:
        profile: An empty folder for what it keeps.
        is_trusting: Whether it takes any server's certificate.
    """
    options = Options()
    options.accept_insecure_certs = is_trusting
    options.binary_location = installed("chromium")
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(installed("chromedriver")))
    try:
        driver.set_script_timeout(WAIT_S)
        yield driver
    finally:
        driver.quit()


class Tab:
    """A page in the browser; while it works the test's event loop goes on.

    Args:
        driver: The browser.
    """

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    async def open(self, url: str, *, width: int = 1280, theme: str = "light") -> None:
        """Go to a page."""
        await self.appear(width=width, theme=theme)
        await asyncio.to_thread(self._driver.get_log, "browser")  # forgets what was before
        await asyncio.to_thread(self._driver.get, url)

    @contextlib.asynccontextmanager
    async def prepared(self, script: str) -> AsyncIterator[None]:
        """Have a script run first in each page that is opened within the block."""
        command = "Page.addScriptToEvaluateOnNewDocument"
        added = await self._command(command, {"source": script})
        try:
            yield
        finally:
            await self._command("Page.removeScriptToEvaluateOnNewDocument", added)

    async def appear(self, *, width: int, theme: str, height: int = 900) -> None:
        """Have a screen of that size, and that colour scheme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        await self._command("Emulation.setDeviceMetricsOverride", metrics)
        await self._command("Emulation.setEmulatedMedia", media)

    async def run(self, script: str) -> Any:  # noqa: ANN401  whatever it returns
        """The value of an expression in the page."""
        return await asyncio.to_thread(self._driver.execute_script, f"return {script}")

    async def until(self, condition: str) -> Any:  # noqa: ANN401  whatever it is
        """Wait until an expression is true in a frame of the page: its value."""
        return await asyncio.to_thread(self._driver.execute_async_script, UNTIL % condition)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await asyncio.to_thread(ActionChains(self._driver, duration=0).send_keys(*keys).perform)

    async def screenshot(self, path: Path) -> None:
        """Draw the visible part into a file."""
        await asyncio.to_thread(self._driver.save_screenshot, str(path))

    async def errors(self) -> list[str]:
        entries = await asyncio.to_thread(self._driver.get_log, "browser")
        return [each["message"] for each in entries if each["level"] in {"SEVERE", "WARNING"}]

    async def _command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self._driver.execute_cdp_cmd, name, arguments)
