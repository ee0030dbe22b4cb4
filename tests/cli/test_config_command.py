from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from apfproxy.cli.config_command import FILES
from apfproxy.cli.main import main

CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"alerts"}))
def test_print(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A file is printed byte for byte."""
    assert 0 == main(["config", "print", name])
    expected = b"---\n".join((CONFIG / path).read_bytes() for path in FILES[name])

    assert expected == capsysbinary.readouterr().out


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
