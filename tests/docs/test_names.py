"""Each setting, metric, alert, logger and page that a document names is one that there is."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml

from apfproxy.admin.apiserver_metrics import TABLE as APISERVER_TABLE
from apfproxy.admin.live_state import page_name
from apfproxy.admin.metric_table import TABLE
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.main import main
from apfproxy.settings import ClusterSection, JwtSettings
from apfproxy.settings.contradictions import check
from apfproxy.settings.file import parse_settings, setting_paths, settings_in
from tests.docs.pages import ROOT, SPAN, Page, page, pages, table
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*)(?:: .+)?")
CAMEL = re.compile(r"[a-z]+[A-Z]")
METRIC = re.compile(r"((?:apfproxy|apiserver)_[a-z0-9_]+\*?)(?:\{.*)?")
METRICS_PAGE = "docs/metrics.md"
NAMES_OF_OTHERS = {
    "caBundle": "an APIService",
    "inFlightReq": "a middleware of Traefik",
    "insecureSkipTLSVerify": "an APIService",
    "impersonatedUser": "an audit event",
    "privateFqdn": "a cluster of AKS",
}
"""Names in camel case that are no setting, nor read or written by the package."""

LOGGER = re.compile(r"\b(?:INFO|WARNING|ERROR) (apfproxy(?:\.\w+)+):")

each_page = pytest.mark.parametrize("document", pages(), ids=[each.name for each in pages()])
PRESETS = {"docs/any-http-api.md": "http", "docs/llm.md": "llm"}
"""Presets of documents whose objects are not for the API of Kubernetes."""


@cache
def setting_names() -> set[str]:
    """Every way to name a setting or a section: any run of the parts of its path."""
    of_lists = *settings_in(ClusterSection), *settings_in(JwtSettings)
    paths = [path.split(".") for path in (*setting_paths(), *of_lists)]
    return {
        ".".join(path[start:end])
        for path in paths
        for start in range(len(path))
        for end in range(start + 1, len(path) + 1)
    }


@cache
def quoted_names() -> set[str]:
    """Every name in quotes in the package, as it is and as in JSON: members, fields of objects."""
    text = "\n".join(file.read_text() for file in (ROOT / "apfproxy").rglob("*.py"))
    names = set(re.findall(r"\"(\w+)\"", text))
    return names | {page_name(name) for name in names}


@each_page
def test_settings(document: Page) -> None:
    """A name in camel case is a setting, or a name that the package writes or reads."""
    unknown = []
    for span in document.spans:
        match = NAME.fullmatch(span)
        if match is None or not CAMEL.search(match[1]):
            continue
        name = match[1]
        known = setting_names() | NAMES_OF_OTHERS.keys()
        if name not in known and name.rpartition(".")[2] not in quoted_names():
            unknown.append(name)

    assert [] == unknown


@each_page
def test_settings_files(document: Page) -> None:
    """Each settings file that is shown is valid, and its settings go together."""
    sections = {path.partition(".")[0] for path in setting_paths()}
    for language, text in document.blocks:
        if language == "yaml":
            documents = list(yaml.safe_load_all(text))
            if all(isinstance(each, dict) and each.keys() <= sections for each in documents):
                check(parse_settings(text.encode(), document.name))


@each_page
def test_objects(document: Page, tmp_path: Path) -> None:
    """Flow-control objects that are shown whole are good ones."""
    for language, text in document.blocks:
        if language == "yaml" and "apiVersion: flowcontrol" in text:
            file = tmp_path / "objects.yaml"
            file.write_text(text)

            preset = PRESETS.get(document.name, "kubernetes")
            assert main(["check", "--preset", preset, str(file)]) == 0


@each_page
def test_loggers(document: Page) -> None:
    """Each logger of a log line that is shown is a module."""
    loggers = [name for _, text in document.blocks for name in LOGGER.findall(text)]

    assert [] == [
        name for name in loggers if not ROOT.joinpath(*name.split(".")).with_suffix(".py").exists()
    ]


def test_metrics() -> None:
    """Each metric that is named exists."""
    known = {each.name for each in (*TABLE, *APISERVER_TABLE)}
    named = {
        (document.name, match[1])
        for document in pages()
        for span in document.spans
        if (match := METRIC.fullmatch(span))
    }

    assert set() == {
        (document, name)
        for document, name in named
        if name not in known
        and not (name.endswith("*") and any(each.startswith(name[:-1]) for each in known))
    }


def test_metrics_of_the_site() -> None:
    """The site has a table of all metrics in the place of the comment on the metrics page."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    config = SimpleNamespace(repo_url="https://github.com/apfproxy/apfproxy")

    shown = hook.on_page_markdown(page(METRICS_PAGE).text, config=config)

    assert [] == [each.name for each in TABLE if f"| `{each.name}` | {each.help} |" not in shown]


async def test_pages() -> None:
    """The admin listener answers on each path of the table, and for each check of health."""
    process = ProxyProcess(settings_for(9))
    await process.start()
    origin = f"http://127.0.0.1:{process.admin_port}"
    document = page(METRICS_PAGE)
    paths = [
        path
        for first, _ in table(document, "| path | content |")
        for path in re.findall(r"`(/[^`]*)`", first)
    ]
    answers = {}
    async with aiohttp.ClientSession() as session:
        for path in paths:
            async with session.get(origin + path) as response:
                answers[path] = response.status
        async with session.get(origin + "/readyz?verbose") as response:
            verbose = await response.text()
    await process.stop()

    assert answers == dict.fromkeys(paths, 200)
    checks = {name for first, *_ in table(document, "| check |") for name in SPAN.findall(first)}
    assert set(re.findall(r"^\[.\](\S+) ", verbose, re.MULTILINE)) - {"ping"} <= checks


def test_dependencies() -> None:
    """The page for contributors says what each package is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", each) for each in project["dependencies"]]
    text = page("docs/contributing.md").text.lower()

    assert [] == [name[0] for name in names if name and name[0] not in text]


def test_recorded_requests() -> None:
    """The page of differences says how many recorded requests there are."""
    recorded = ROOT / "tests" / "conformance" / "vectors" / "differential.jsonl"
    number = f"{len(recorded.read_bytes().splitlines()):,}".replace(",", " ")

    assert f"sends it {number} requests" in page("docs/differences.md").text
