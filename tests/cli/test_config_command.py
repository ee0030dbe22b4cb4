from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from apfproxy.cli.config_command import FILES
from apfproxy.cli.main import main
from apfproxy.objects.decode import (
    HTTP_FILE,
    SUGGESTED_FILE,
    built_in,
    decode_documents,
    mandatory_objects,
)

CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"alerts"}))
def test_print(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A file is printed byte for byte."""
    assert 0 == main(["config", "print", name])
    expected = b"---\n".join((CONFIG / path).read_bytes() for path in FILES[name])

    assert expected == capsysbinary.readouterr().out


@pytest.mark.parametrize(
    ("name", "preset"), [("objects", SUGGESTED_FILE), ("http-objects", HTTP_FILE)]
)
def test_objects(name: str, preset: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The files of the built-in objects are one file of all of them."""
    assert 0 == main(["config", "print", name])
    decoded = decode_documents(capsysbinary.readouterr().out, "objects.yaml")

    assert () == tuple(decoded.problems)
    assert [*mandatory_objects(), *built_in(preset)] == list(decoded.objects)


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    """Grafana gets JSON, Prometheus the rules that its operator has, a proxy its settings."""
    printed = {}
    for name in ("dashboard", "alerts", "prometheusrule", "settings"):
        assert 0 == main(["config", "print", name])
        printed[name] = capsys.readouterr().out

    assert json.loads(printed["dashboard"])["panels"]
    assert yaml.safe_load(printed["prometheusrule"])["spec"] == yaml.safe_load(printed["alerts"])
    assert printed["alerts"].count("#") > 1
    assert yaml.safe_load(printed["settings"])["downstream"]
