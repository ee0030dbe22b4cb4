"""`apfproxy explain --uid`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.process import ProxyProcess
from apfproxy.cli.main import main
from apfproxy.objects.decode import bootstrap_objects
from apfproxy.objects.types import kind_of, stable_uid
from tests.app.test_process import settings_for
from tests.sources.test_object_files import level

if TYPE_CHECKING:
    from pathlib import Path

UIDS = {(kind_of(each), each.metadata.name): stable_uid(each) for each in bootstrap_objects()}
SCHEMA = UIDS["FlowSchema", "global-default"]
LEVEL = UIDS["PriorityLevelConfiguration", "global-default"]
LEADS = "matching precedence 9900, leads to priority level global-default"


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each UID says kind, name and what the object does."""
    assert 0 == main(["explain", "--offline", "--uid", SCHEMA, "--uid", f" {LEVEL} "])

    assert [
        f"{'UID':36}  {'KIND':26}  NAME            WHAT",
        f"{SCHEMA}  {'FlowSchema':26}  global-default  {LEADS}",
        f"{LEVEL}  PriorityLevelConfiguration  global-default  nominally 49 seats, 128 queues",
    ] == capsys.readouterr().out.splitlines()


def test_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects of files have UIDs that the files need not name."""
    (tmp_path / "level.yaml").write_text(level("mine"))
    uid = "4a3b2c1d-0000-4000-8000-000000000001"
    (tmp_path / "named.yaml").write_text(
        level("named").replace("name: named", f"name: named, uid: {uid}")
    )
    assert 0 == main(["explain", "-o", "json", "--objects", str(tmp_path), "--uid", uid])

    assert [("named", uid)] == [
        (each["name"], each["uid"]) for each in json.loads(capsys.readouterr().out)
    ]


def test_unknown_offline(capsys: pytest.CaptureFixture[str]) -> None:
    """What is known is shown; what is not is an error that says where to ask."""
    assert 1 == main(["explain", "--offline", "--uid", "x\ny", "--uid", LEVEL])
    captured = capsys.readouterr()

    assert LEVEL in captured.out
    (line,) = captured.err.splitlines()
    assert "have UID x\\ny; objects of a Kubernetes API or of a store" in line


@pytest.mark.parametrize(
    "more",
    [["list", "pods"], ["--path", "/a"], ["--as", "alice"], ["--hash-seed", "1"]],
    ids=["words", "path", "user", "seed"],
)
def test_no_request_beside(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A question is about an object or about a request."""
    assert 2 == main(["explain", "--uid", LEVEL, *more])
    assert "leave out the rest" in capsys.readouterr().err


async def test_online(capsys: pytest.CaptureFixture[str]) -> None:
    """A running proxy knows its own objects, and says why it may not know another."""
    process = ProxyProcess(settings_for(1))
    await process.start()
    url = f"http://127.0.0.1:{process.admin_port}"
    found = []
    try:
        for uid in (SCHEMA, "a&b"):
            arguments = ["explain", "--uid", uid, "--admin", url]
            code = await asyncio.to_thread(main, arguments)
            found.append((code, capsys.readouterr()))
    finally:
        await process.stop()
    (known, named), (unknown, nothing) = found

    assert (0, True) == (known, f"{SCHEMA}  FlowSchema" in named.out)
    assert (1, "") == (unknown, nothing.out)
    assert "has no object with UID a&b; it may be of an object that was deleted" in nothing.err


def test_admin_has_its_own_objects(capsys: pytest.CaptureFixture[str]) -> None:
    """Objects are those of the proxy that is asked."""
    assert 2 == main(["explain", "--uid", LEVEL, "--admin", "http://127.0.0.1:1", "--objects", "x"])
    assert "with --objects no proxy is asked: leave out --admin" in capsys.readouterr().err
