from __future__ import annotations

import asyncio
import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.explain_page import TOLD_APART
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.main import main
from tests.support.objects import level_yaml
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def explained(arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - any JSON
    assert main(["explain", "-o", "json", *arguments.split()]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("list pods -n x", id="words"),
        pytest.param("--verb list --path /api/v1/namespaces/x/pods", id="verb-and-path"),
        pytest.param("--path /api/v1/namespaces/x/pods?limit=5", id="path"),
        pytest.param("-", id="raw"),
    ],
)
def test_ways_to_ask(
    arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = b"GET /api/v1/namespaces/x/pods HTTP/1.1\nHost: a\n\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    found = explained(f"{arguments} --as alice --as-group dev --hash-seed 7", capsys)

    assert ("list", "pods", "x") == (
        found["request"]["verb"],
        found["request"]["resource"],
        found["request"]["namespace"],
    )
    assert {"name": "alice", "groups": ["dev", "system:authenticated"]} == found["user"]
    assert ("global-default", "execute", []) == (
        found["flowSchema"],
        found["outcome"]["decision"],
        found["notes"],
    )


@pytest.mark.parametrize(
    ("flags", "notes"),
    [
        pytest.param("--preset http", [TOLD_APART], id="nobody"),
        pytest.param("--preset http --as key:0a", [], id="somebody"),
        pytest.param("--preset kubernetes", [], id="where-all-are-one"),
    ],
)
def test_clients_that_are_told_apart(
    flags: str, notes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert notes == explained(f"--path /x --hash-seed 7 {flags}", capsys)["notes"]


@pytest.mark.parametrize("who", ["", " --as alice"])
def test_unknown_resource(who: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A resource that is likely misspelt is explained, with a note that says so."""
    note = "no resource of Kubernetes is called podz; did you mean pods?"

    assert [note] == explained(f"list podz --hash-seed 7{who}", capsys)["notes"]
    assert main(["explain", "--offline", *f"list podz{who}".split()]) == 0
    assert f"note            {note}\n" in capsys.readouterr().out


async def test_online(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A running proxy explains by its own configuration, with every byte that was asked about."""
    process = ProxyProcess(settings_for(1))
    await process.start()
    url = f"http://127.0.0.1:{process.admin_port}"
    arguments = ["--path", "/a&b=c?d=%26+e", "--as", "al\udcffice", "--header", "X-A:b"]
    raw = b"GET /raw HTTP/1.1\nHost: a\n%b: 1\nReferer: %b\n" % (b"x" * 99, b"y" * 30_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    found = []
    try:
        for more in (arguments, arguments[:2], ["-"]):
            code = await asyncio.to_thread(main, ["explain", *more, "--admin", url, "-o", "json"])
            found.append((code, json.loads(capsys.readouterr().out)))
    finally:
        await process.stop()
    (code, named), (_, anonymous), (_, wide) = found

    assert (0, "/a&b=c", "al\udcffice") == (code, named["request"]["path"], named["user"]["name"])
    assert ["system:authenticated"] == named["user"]["groups"]
    assert "system:anonymous" == anonymous["user"]["name"]
    assert [] == anonymous["notes"]
    assert "/raw" == wide["request"]["path"]


@pytest.mark.parametrize(
    ("flag", "limit", "decision"),
    [("", 1, "execute"), ("--limit-adjustment kubernetes", 0, "wait")],
)
def test_a_level_that_may_lend_all(
    flag: str, limit: int, decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(f"get pods a -n x --as u --server-concurrency-limit 8 {flag}", capsys)

    assert limit == found["priorityLevel"]["currentLimit"]
    assert decision == found["outcome"]["decision"]


def test_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects of files are in force; prefixes and the seed are those of the flags."""
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    flags = f"--objects {tmp_path} --no-suggested-objects --server-concurrency-limit 12"
    flags += " --path-prefix /clusters/{workspace} --path-prefix /k8s/{a}"
    path = "--path /clusters/root:a/api/v1/pods"
    found, *others = [explained(f"{path} {flags} --hash-seed {n}", capsys) for n in (1, 1, 2)]

    assert ["exempt", "catch-all"] == [each["name"] for each in found["flowSchemas"]]
    assert ("catch-all", 5) == tuple(
        found["priorityLevel"][each] for each in ("name", "nominalLimit")
    )
    assert ("list", "pods", "/clusters/root:a") == tuple(
        found["request"][each] for each in ("verb", "resource", "pathPrefix")
    )
    assert [True, False] == [found["flow"]["hash"] == each["flow"]["hash"] for each in others]
