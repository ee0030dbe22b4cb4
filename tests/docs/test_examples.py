"""The examples that need no running proxy print what the pages show."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.cli.main import main
from tests.docs.pages import ROOT, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFFLINE = ("check", "explain", "limits", "odds")
SUGGESTED = ROOT / "config" / "bootstrap" / "suggested.yaml"


def examples() -> Iterator[tuple[str, str]]:
    """Each command that can run here, and the output that its page shows."""
    for name in ("docs/operating.md", "docs/trying-changes.md"):
        for language, text in page(name).blocks:
            if language != "console":
                continue
            for line, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                words = line.split()
                if words[1:2] and words[1] in OFFLINE and "--admin" not in line:
                    yield line, output


def is_workload_low(value: dict[str, Any]) -> bool:
    """Whether an object is that priority level."""
    return bool(value["kind"] != "FlowSchema" and value["metadata"]["name"] == "workload-low")


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name, in which commands run."""
    (reports,) = (text for _, text in page("docs/trying-changes.md").blocks if "kind: Flow" in text)
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / "reports.yaml").write_text(reports)
    (low,) = (each for each in yaml.safe_load_all(SUGGESTED.read_text()) if is_workload_low(each))
    del low["metadata"]["annotations"]
    low["spec"]["limited"]["nominalConcurrencyShares"] = 60
    (tmp_path / "workload-low.yaml").write_text(yaml.safe_dump(low))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    ("line", "output"), [pytest.param(*each, id=each[0][:40]) for each in examples()]
)
def test_examples(
    line: str, output: str, objects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output is the page's, apart from what the page cuts with `...`."""
    file = objects / "reports.yaml"
    if "explain" in line:
        file.write_text(file.read_text().replace(", clusterScope: true", ""))
    if "--fail-on" in line:
        wrong = file.read_text().replace("8000", "9500").replace("[pods]", "[pods, pod/log]")
        file.write_text(wrong)
    main(shlex.split(line)[1:])
    printed = capsys.readouterr().out

    pattern = re.sub(r" ?\.\.\.", "*", output.replace("[", "[[]"))
    assert fnmatchcase(printed, pattern), printed
