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


def test_path_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    """A request below a prefix is explained."""
    flags = "--path-prefix /clusters/{workspace} --path-prefix /k8s/{a}"
    found = explained(f"--path /clusters/root:a/api/v1/pods {flags}", capsys)["request"]

    assert ("list", "pods", "/clusters/root:a") == (
        found["verb"],
        found["resource"],
        found["pathPrefix"],
    )


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
    """However a request is given, the same is explained."""
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


def test_unverified_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Its user is in the group that it will be in, unless groups are given."""
    found = explained("list pods --as header:al --offline", capsys)["user"]
    assert {"name": "header:al", "groups": ["system:unauthenticated"]} == found
    found = explained("list pods --as header:al --as-group dev --offline", capsys)["user"]
    assert ["dev", "system:authenticated"] == found["groups"]


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
    """Whose flow is asked about has to be said, where clients have flows of their own."""
    assert notes == explained(f"--path /x --hash-seed 7 {flags}", capsys)["notes"]


@pytest.mark.parametrize("who", ["", " --as alice"])
def test_unknown_resource(who: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A resource that is likely misspelt is explained, with a note that says so."""
    note = "no resource of Kubernetes is called podz; did you mean pods?"

    assert [note] == explained(f"list podz --hash-seed 7{who}", capsys)["notes"]
    assert main(["explain", "--offline", *f"list podz{who}".split()]) == 0
    assert f"note            {note}\n" in capsys.readouterr().out


def test_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects of files are in force, and the seats are divided among their levels."""
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    found = explained(
        f"get /healthz --objects {tmp_path} --no-suggested-objects --server-concurrency-limit 12",
        capsys,
    )

    assert ["exempt", "catch-all"] == [each["name"] for each in found["flowSchemas"]]
    assert ("catch-all", 5) == (
        found["priorityLevel"]["name"],
        found["priorityLevel"]["nominalLimit"],
    )
    assert "system:anonymous" == found["user"]["name"]


def test_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """The hash is that of the seed, as a proxy with that setting has it."""
    hashes = [
        explained(f"list pods --as alice --hash-seed {seed}", capsys)["flow"]["hash"]
        for seed in (1, 1, 2)
    ]

    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param("", 2, "say the request once", id="nothing"),
        pytest.param("list pods --path /a", 2, "say the request once", id="twice"),
        pytest.param("list pods --verb GET", 2, "--verb goes with --path", id="verb"),
        pytest.param("--path /a -n x", 2, "go with VERB RESOURCE only", id="namespace"),
        pytest.param("- -A", 2, "go with VERB RESOURCE only", id="raw-namespace"),
        pytest.param("fetch pods", 2, "expected a verb of get, list", id="words"),
        pytest.param("--path a", 2, "begins with a slash", id="path"),
        pytest.param("list pods --as-group g", 2, "--as-group needs --as", id="group"),
        pytest.param("list pods --as=", 2, "--as needs a name", id="no-name"),
        pytest.param("list pods --as a --as-group=", 2, "--as-group needs a", id="no-group"),
        pytest.param("list pods --header x", 2, "expected a header such as", id="header"),
        ("list pods --hash-seed -1", 2, "whole number from 0 to 4294967295, not '-1'"),
        pytest.param("list pods --objects /nowhere", 1, "/nowhere: cannot be read", id="objects"),
        pytest.param("list pods --admin x", 2, "HOST:PORT, :PORT or unix:/PATH", id="admin"),
        pytest.param("list pods --admin a:1 --hash-seed 1", 2, "no proxy is asked", id="online"),
        pytest.param("-", 1, "<stdin>: the proxy would answer 400: malformed", id="raw"),
        pytest.param("- --offline", 1, "<stdin>: there is no request on standard", id="no-input"),
        pytest.param("--verb TRACE --path /a", 1, "would answer 405: TRACE", id="unserved"),
        pytest.param("get /api?timeout=x --offline", 1, "400: invalid timeout", id="timeout"),
    ],
)
def test_wrong_input(
    arguments: str,
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = b"GET /%zz HTTP/1.1\nHost: a\n\n" if arguments == "-" else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert main(["explain", *arguments.split()]) == code
    (line,) = capsys.readouterr().err.splitlines()

    assert message in line


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
    [
        pytest.param("", 1, "execute", id="default"),
        pytest.param("--limit-adjustment prompt", 1, "execute", id="prompt"),
        pytest.param("--limit-adjustment kubernetes", 0, "wait", id="kubernetes"),
    ],
)
def test_a_level_that_may_lend_all(
    flag: str, limit: int, decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request is explained as the proxy would treat it with that setting."""
    found = explained(f"get pods a -n x --as u --server-concurrency-limit 8 {flag}", capsys)

    assert (limit, decision) == (
        found["priorityLevel"]["currentLimit"],
        found["outcome"]["decision"],
    )
