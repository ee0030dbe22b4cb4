"""Bans are objects that stop one user, wherever they are put."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.cli.ban import hint, name_of, objects_text
from apfproxy.cli.main import main
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.objects.decode import decode_documents
from apfproxy.objects.names import check_dns_subdomain
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User
from apfproxy.sources.object_files import effective_objects
from tests.support.clocks import Clock, VirtualClock
from tests.support.objects import level_yaml

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

Run = Callable[..., tuple[int, list[str]]]
UNTIL = "2026-11-28T12:30:00Z"
USERS = [
    *("alice", "y", "null", "1e3", "Alice", "alice.", "ALICE", "a" * 40, "a" * 41, "a" * 300, "-x"),
    *("key:2c70e12b7a0646f9", "address:2001:db8::/64", "system:serviceaccount:a:b", "{name}", "~"),
    *(
        "\u00fc",
        "\u00fc" * 300,
        "\U0001f600",
        "a\nb",
        "a b",
        "a: {b}",
        "'\"",
        "ban-alice",
        "a:b",
        "a.b",
        ":a",
        "a:",
        "a::b",
        "a:b\n",
        "\u2028",
        "\x7f",
    ),
]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command beside a directory `o`, at a time; gives its exit code and messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "time", Clock(1_795_868_399.5))
    Path("o").mkdir()

    def run_command(*arguments: str) -> tuple[int, list[str]]:
        code = main(arguments)
        return code, capsys.readouterr().err.splitlines()

    return run_command


def objects(text: str) -> tuple[FlowControlObject, ...]:
    decoded = decode_documents(text.encode(), "test")
    assert decoded.problems == []
    assert [] == [error for each in decoded.objects for error in each.additions.errors]
    return tuple(decoded.objects)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("rate", [None, 2.5])
def test_each_user_has_a_level_of_its_own(preset: object, rate: float | None) -> None:
    """Whatever a user is called, its requests and no others come to the level that is its own."""
    kind = next(each for each in PRESETS.values() if each is preset)
    given = [each for user in USERS for each in objects(objects_text(user, rate, UNTIL))]
    controller = Controller(VirtualClock(), 600, 0)
    effective = effective_objects(
        objects("\n---\n".join(objects_text(user, rate, "") for user in USERS)),
        with_suggested=True,
        preset=kind,
    )
    controller.commit(controller.digest(effective))

    assert 2 * len(USERS) == len({(type(each), each.metadata.name) for each in given})
    assert [] == [each for user in USERS for each in check_dns_subdomain(name_of(user))]
    assert {1_795_869_000.0} == {each.additions.until_s for each in given}
    for user in USERS:
        for method, target in (("GET", b"/healthz"), ("DELETE", b"/api/v1/namespaces/a/pods/b")):
            asked = User(user, (AUTHENTICATED_GROUP,)), kind.attributes_of(method, target)
            found = controller.classify(*asked)
            assert name_of(user) == found.level.name
            assert found.flow.distinguisher == ("" if rate is None else user)
            limits = found.limits
            assert limits is not None
            assert (rate is None, rate) == (limits.is_ban, limits.rate and limits.rate.rate)
    other = User("bob", (AUTHENTICATED_GROUP,)), kind.attributes_of("GET", b"/x")
    assert not controller.classify(*other).level.name.startswith("ban-")


def test_in_a_directory(run: Run) -> None:
    """The second ban takes the place of the first, and unban removes it."""
    code, (done, what) = run("ban", "--for", "10m", "--objects", "o", "--", "-x y")
    path = Path("o", f"{name_of('-x y')}.yaml")
    first = path.read_text()

    assert 0 == code
    assert f"-x y gets 403 until {UNTIL}; to end it: apfproxy unban --objects o -- '-x y'" == done
    assert "users in system:masters stay exempt" in what
    assert objects_text("-x y", None, UNTIL) == first
    assert 0 == run("ban", "--rate", "0.5", "--objects", "o", "--", "-x y")[0]
    assert objects_text("-x y", 0.5, "") == path.read_text()
    assert [path] == list(Path("o").iterdir())
    assert (0, ["-x y is free again"]) == run("unban", "--objects", "o", "--", "-x y")
    assert (1, [f"apfproxy: {path} cannot be changed: there is no such ban"]) == run(
        "unban", "--objects", "o", "--", "-x y"
    )
    assert [] == list(Path("o").iterdir())


def test_a_directory_that_no_proxy_takes(run: Run) -> None:
    """Where other files are wrong, or have the same names, nothing is changed."""
    Path("o", "a.yaml").write_text(level_yaml("ban-a"))
    code, lines = run("ban", "a", "--objects", "o")
    assert (1, [Path("o/a.yaml")]) == (code, list(Path("o").iterdir()))
    assert "nothing was changed, as a proxy takes no change before this is repaired:" in lines[0]
    assert "also defined in o/a.yaml: remove one" in lines[1]
    Path("o", "other.yaml").write_text("of: another program")  # as a proxy leaves it out
    assert 0 == run("ban", "b", "--objects", "o")[0]
    Path("o", "a.yaml").write_text("broken: [")
    assert 1 == run("unban", "b", "--objects", "o")[0]
    assert Path("o", "ban-b.yaml").exists()


def test_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The objects are for kubectl; what is said of them is not among them."""
    assert 0 == main(["ban", "alice", "--rate", "5"])
    found = capsys.readouterr()
    assert 0 == main(["unban", "alice"])

    assert objects_text("alice", 5, "") == found.out
    assert found.err.startswith(
        "for kubectl apply -f -: alice gets 429 beyond 5 requests a second; to end it:"
        " apfproxy unban alice | kubectl delete -f -\n"
    )
    printed, said = capsys.readouterr()
    assert "" == said
    assert objects(objects_text("alice", None, ""))[::-1] == objects(printed)


def test_kubectl(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path.cwd()), prepend=None)
    code, (line,) = run("ban", "alice", "--kubectl")
    assert (1, True) == (code, "kubectl cannot be run: No such file or directory" in line)
    fake = Path("kubectl")
    fake.write_text('#!/bin/sh\necho "$@" >>asked\n/bin/cat >>asked\n[ "$1" = apply ]\n')
    fake.chmod(0o700)
    code, (*_, last) = run("ban", "alice", "--kubectl")

    assert (0, True) == (code, "not the annotations" in last)
    assert f"apply -f -\n{objects_text('alice', None, '')}" == Path("asked").read_text()
    assert (1, ["apfproxy: kubectl delete failed"]) == run("unban", "alice", "--kubectl")
    fake.write_text("#!/bin/sh\n")
    assert (0, ["alice is free again"]) == run("unban", "alice", "--kubectl")


@pytest.mark.parametrize(
    ("user", "goes_on"),
    [
        ("system:anonymous", "all clients without a name"),
        ("address:192.0.2.7", "show a key, a token or a name go on"),
        ("192.0.2.7", "which this does not stop: address:192.0.2.7"),
        ("address:2001:db8::7", "stop: address:2001:db8::/64"),
        ("address:2001:db8::/64", "show a key, a token or a name go on"),
        ("basic:a", "but few if you ban address:"),
        ("a", "flows by namespace, group or header are no users"),
    ],
)
def test_hint(user: str, goes_on: str) -> None:
    assert goes_on in hint(user)


def test_no_unicode(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["ban", os.fsdecode(b"\xff")])
    assert "USER is one user, in Unicode" in capsys.readouterr().err
