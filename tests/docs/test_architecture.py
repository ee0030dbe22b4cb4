"""The architecture page: what it names exists."""

from __future__ import annotations

import functools
import importlib
import re
import tomllib

import pytest

from apfproxy.fleet.ledger import LeaseState
from apfproxy.flowcontrol.passage import PassageState
from apfproxy.proxy.exchange_state import ExchangeState
from apfproxy.proxy.http1_connection import Http1State
from apfproxy.proxy.http2.connection import ConnectionState
from apfproxy.proxy.http2.stream import StreamState
from apfproxy.upstream.endpoint import EndpointState
from apfproxy.workers.process import WorkerState
from tests.docs.pages import ROOT, SPAN, page, table

PAGE = "docs/architecture.md"
DRAWING = ROOT / "docs" / "images" / "request.svg"
WALK = "| for | file | function |"
LIFE = "| step | file | function |"


def names(cells: list[str]) -> tuple[str, str]:
    """The file and the function of two cells."""
    file, function = (SPAN.findall(cell)[0] for cell in cells)
    return file, function


@pytest.mark.parametrize("header", [WALK, LIFE])
def test_functions_of_the_tables_exist(header: str) -> None:
    for _, *cells in table(page(PAGE), header):
        file, function = names(cells[:2])
        module = importlib.import_module(f"apfproxy.{file.removesuffix('.py').replace('/', '.')}")
        assert callable(functools.reduce(getattr, function.split("."), module))


def test_drawing() -> None:
    """Each file that the drawing names exists."""
    named = set(re.findall(r"[\w/]+\.py", DRAWING.read_text()))

    assert set() == {name for name in named if not (ROOT / "apfproxy" / name).exists()}
    assert {names(cells)[0] for _, *cells in table(page(PAGE), LIFE)} <= named


def test_states() -> None:
    """The page has the files of all tables of states."""
    states = (
        *(ExchangeState, PassageState, Http1State, ConnectionState, StreamState, EndpointState),
        *(LeaseState, WorkerState),
    )
    files = {f"{each.__module__.partition('.')[2].replace('.', '/')}.py" for each in states}

    assert files <= set(page(PAGE).spans)


def test_packages() -> None:
    """The table of packages has all of them, upper ones before lower ones."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ][0]
    order = [name for layer in layers["layers"] for name in layer.split(" | ")]
    listed = [
        row[0].strip("`/").removesuffix(".py") for row in table(page(PAGE), "| package | content |")
    ]

    assert sorted(order) == sorted(listed)
    assert listed == sorted(listed, key=order.index)


def test_prose() -> None:
    """Each class and function that the page names exists, a method in its own class."""
    sources = [file.read_text() for file in (ROOT / "apfproxy").rglob("*.py")]
    missing = []
    for span in page(PAGE).spans:
        name = re.fullmatch(r"([A-Z]\w+)(?:\.(\w+))?|(_?[a-z]+(?:_[a-z]+)+)", span)
        if name is None:
            continue
        pattern = rf"\b{name[3]}\b"
        if name[1] is not None:
            method = rf"(?:\n(?!class ).*)*\n    (?:async )?def {name[2]}\(" if name[2] else ""
            pattern = rf"(?m)^class {name[1]}\b.*{method}"
        if not any(re.search(pattern, source) for source in sources):
            missing.append(span)

    assert [] == missing
