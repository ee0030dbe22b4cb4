"""The locked packages: of the image, of what it is built with, and of tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
BUILD = [
    line for line in (ROOT / ".ci/build.in").read_text().splitlines() if not line.startswith("#")
]
PYTHONS = ("3.11", "3.12", "3.13")
LINE = re.compile(r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def wanted(extras: list[str]) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for text in (*PROJECT["dependencies"], *(each for name in extras for each in EXTRAS[name])):
        requirement = Requirement(text)
        if requirement.name == "apfproxy":
            found |= wanted(sorted(requirement.extras))
        else:
            found[requirement.name.lower()] = requirement
    return found


@pytest.mark.parametrize(
    ("name", "extras", "more"),
    [
        pytest.param("tests", ["test", "lint", "docs"], BUILD, id="tests"),
        pytest.param("build", [], BUILD, id="build"),
        pytest.param("image", ["otel", "redis"], [], id="image"),
    ],
)
def test_locked(name: str, extras: list[str], more: list[str]) -> None:
    locked: dict[str, list[Requirement]] = {}
    hashes = 0
    for line in (ROOT / f".ci/requirements-{name}.txt").read_text().splitlines():
        found = LINE.match(line)
        if found is None:
            assert HASH.match(line), line
            hashes += 1
            continue
        package, version, marker = found.groups()
        text = f"{package}=={version}" + (f" ; {marker}" if marker else "")
        locked.setdefault(package.lower(), []).append(Requirement(text))
    asked = wanted(extras) | {(each := Requirement(text)).name.lower(): each for text in more}

    assert hashes > len(locked)
    for package, requirement in asked.items():
        for python in PYTHONS:
            environment = {name: str(value) for name, value in default_environment().items()}
            environment |= {"python_version": python, "python_full_version": f"{python}.9"}
            (version,) = [
                next(iter(each.specifier)).version
                for each in locked[package]
                if each.marker is None or each.marker.evaluate(environment)
            ]
            assert requirement.specifier.contains(version), (package, python)
