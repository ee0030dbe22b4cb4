from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from apfproxy.cli import simulate as module
from apfproxy.cli.main import main
from tests.simulation.scene import LEVEL
from tests.simulation.test_logs import EVENT, LINE, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIX = """
duration: 2s
flows:
- name: tenant-{}
  count: 3
  user: tenant-{}
  request: GET /api/v1/pods
  rate: 100
  arrivals: constant
  serviceTime: 100ms
"""


@pytest.fixture
def mix(tmp_path: Path) -> str:
    path = tmp_path / "mix.yaml"
    path.write_text(MIX)
    return str(path)


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs the command with flags, which has to succeed; gives its JSON."""

    def run(*flags: str) -> dict[str, Any]:
        assert 0 == main(["simulate", *flags, "--json"])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def written(path: Path, lines: Sequence[bytes]) -> str:
    path.write_bytes(b"".join(lines))
    return str(path)


def test_two_configurations(
    mix: str, tmp_path: Path, report: Callable[..., dict[str, Any]]
) -> None:
    """Objects and seats of a second configuration are compared with those of the first."""
    path, picture = tmp_path / "objects.yaml", tmp_path / "report.svg"
    path.write_text(LEVEL.replace("LEVEL_ANNOTATIONS", "").replace("SCHEMA_ANNOTATIONS", ""))
    flags = ["--compare", str(path), "--compare-server-concurrency-limit", "30"]
    found = report("--mix", mix, *flags, "--plot", str(picture))
    first, second = found["configurations"]

    assert ["built-in objects, 600 seats", f"{path}, 30 seats"] == [first["name"], second["name"]]
    assert {"mix": mix} == found["input"]
    executed = [each["total"]["executed"] for each in (first, second)]
    assert executed[1] - executed[0] == found["difference"]["total"]["executed"]
    changes = {row["priorityLevel"]: row["presence"] for row in found["difference"]["levels"]}
    assert ("new", "both") == (changes["level"], changes["catch-all"])
    assert picture.read_text().startswith("<svg ")


def members(value: object) -> set[str]:
    """The names of all members, at any depth, but for those of levels and reasons."""
    if isinstance(value, list):
        return {name for each in value for name in members(each)}
    if not isinstance(value, dict):
        return set()
    by_name = {"rejected"} & value.keys() if isinstance(value.get("rejected"), dict) else set()
    found = set(value) | {n for k in value.keys() - by_name - {"series"} for n in members(value[k])}
    if "series" in value:
        found |= {"binSeconds", *members(list(value["series"]["levels"].values()))}
    return found


def test_members_are_documented(mix: str, report: Callable[..., dict[str, Any]]) -> None:
    """Each member of the JSON is in the operators' page."""
    text = (Path(__file__).parents[2] / "docs" / "trying-changes.md").read_text()
    found = members(report("--mix", mix, "--compare-server-concurrency-limit", "20"))

    named = set(re.findall(r"`(\w+)`", text)) | {"mix", "client"}
    assert set() == found - named
    assert {"waitP99", "dispatched", "presence"} <= found


def test_compared_seats(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects are the first's where only seats are compared."""
    arguments = ["--no-suggested-objects", "--compare-server-concurrency-limit", "10", "--top", "1"]

    assert 0 == main(["simulate", "--mix", mix, *arguments])
    out = capsys.readouterr().out

    assert "A: mandatory objects, 600 seats" in out
    assert "B: mandatory objects, 10 seats" in out
    assert "and 2 more clients (--top)" in out
    assert "\n\n\n" not in out
    assert out.endswith(")\n")


def test_audit_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken lines and guesses are told on stderr, and the rest is replayed."""
    rejected = EVENT | {"responseStatus": {"code": 429}}
    path = written(tmp_path / "audit.log", [*lines_of(EVENT, rejected), b"{\n"])

    assert 0 == main(["simulate", "--audit-log", path, "-o", "json"])
    out, err = capsys.readouterr()

    guessed = "1 request never executed; replayed with the mean service time"
    assert [
        f"{path}:3: Input data was truncated",
        f"{path}: 1 broken line left out",
        f"{path}: {guessed} of what is alike",
    ] == err.splitlines()
    assert {
        "log": path,
        "requests": 2,
        "skippedLines": 0,
        "brokenLines": 1,
        "leftOutLines": 0,
        "unloggedRequests": 0,
        "problems": [{"line": 3, "message": "Input data was truncated"}],
        "guessedServiceTimes": 1,
    } == json.loads(out)["input"]
    (warning,) = json.loads(out)["warnings"]
    assert warning.startswith("1 request waited or never executed in the log; arrivals are taken")


def test_access_log_that_left_requests_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log says how many, and so does the command; its line is no broken one."""
    says = {"time": LINE["time"], "leftOut": 990, "overBytes": 0, "reasons": {}}
    path = written(tmp_path / "access.log", [*lines_of(LINE, says)])

    assert 0 == main(["simulate", "--access-log", path, "-o", "json"])
    out, err = capsys.readouterr()
    found = json.loads(out)["input"]
    assert (1, 0, 990) == (found["requests"], found["brokenLines"], found["unloggedRequests"])
    assert (
        f"{path}: 990 requests without a line, as the log says, and not replayed: accessLog." in err
    )


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(lambda data: data.decode().encode("utf-16"), id="utf-16"),
        pytest.param(
            lambda data: gzip.compress(data.decode().encode("utf-16")) + gzip.compress(b""),
            id="both",
        ),
    ],
)
def test_packed_log(
    pack: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log is read as it was rotated or saved; what other programs wrote is left out."""
    wrapped = [{"log": json.dumps(EVENT) + "\n"}, {"log": "text\n"}]
    path = tmp_path / "audit.log"
    path.write_bytes(pack(b"".join(lines_of(*wrapped))))

    assert 0 == main(["simulate", "--audit-log", str(path), "-o", "json"])
    out, err = capsys.readouterr()
    found = json.loads(out)["input"]
    assert (1, 1, 0) == (found["requests"], found["leftOutLines"], found["brokenLines"])
    assert [f"{path}: 1 line of other programs left out"] == err.splitlines()


PODS_OF_U = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: pods}
spec:
  priorityLevelConfiguration: {name: global-default}
  matchingPrecedence: 100
  rules:
  - subjects: [{kind: User, user: {name: u}}]
    resourceRules: [{verbs: [list], apiGroups: [""], resources: [pods], namespaces: ["*"]}]
"""


def test_path_prefixes(tmp_path: Path, report: Callable[..., dict[str, Any]]) -> None:
    uri = "/clusters/root:a" + EVENT["requestURI"]
    path = written(tmp_path / "audit.log", lines_of(EVENT, EVENT | {"requestURI": uri}))
    (tmp_path / "pods.yaml").write_text(PODS_OF_U)
    shown = []
    for flags in ([], ["--path-prefix", "/clusters/{workspace}"]):
        found = report("--audit-log", path, "--objects", str(tmp_path / "pods.yaml"), *flags)
        shown.append({each["flowSchema"] for each in found["configurations"][0]["flows"]})
    assert [{"pods", "catch-all"}, {"pods"}] == shown


@pytest.mark.parametrize(
    ("flag", "data"),
    [
        pytest.param("--audit-log", b"".join(lines_of(*[EVENT] * 2)), id="audit-log"),
        pytest.param("--access-log", b"".join(lines_of(*[LINE] * 2)), id="access-log"),
        pytest.param("--mix", MIX.encode(), id="mix"),
    ],
)
def test_from_stdin(
    flag: str, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minus stands for stdin, of which no one knows how much will come."""
    data_in = io.BufferedReader(io.BytesIO(data))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data_in))

    assert 0 == main(["simulate", flag, "-", "-o", "json"])
    assert "<stdin>" in json.loads(capsys.readouterr().out)["input"].values()


def test_from_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe, which has no places to tell, is as good as a file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"".join(lines_of(EVENT)),))
    writer.start()

    assert 0 == main(["simulate", "--audit-log", str(path)])
    writer.join()
    assert (
        ": 1 request in 0.2 s, 1 executed, 0 of them queued, 0 rejected" in capsys.readouterr().out
    )


def test_a_line_that_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one broken line, however long."""
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    long = EVENT | {"requestObject": "x" * 5000}
    path = written(tmp_path / "audit.log", [*lines_of(EVENT, long, EVENT), b"x"])

    assert 0 == main(["simulate", "--audit-log", path])
    assert [
        f"{path}:2: Input data was truncated",
        f"{path}:4: JSON is malformed: invalid character (byte 0)",
        f"{path}: 2 broken lines left out",
    ] == capsys.readouterr().err.splitlines()


def test_a_line_without_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(module, "MAX_SKIPPED_BYTES", 2 << 20)

    assert 1 == main(["simulate", "--audit-log", "/dev/zero"])
    assert (
        "apfproxy: /dev/zero: a line has more than 2 MiB: is this the right file?\n"
        == capsys.readouterr().err
    )


def test_a_warm_up_that_is_too_long(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said that the numbers are those of all requests."""
    assert 0 == main(["simulate", "--mix", mix, "--warm-up", "1h"])
    out = capsys.readouterr().out

    assert out.startswith(
        "Note: built-in objects, 600 seats: all was over after 2.1 s, before the warm-up of 3600 s;"
        " the numbers are those of all requests\n\nbuilt-in objects, 600 seats: 600 requests in"
    )


def test_a_new_level_without_requests(
    mix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(LEVEL.partition("---")[0].replace("LEVEL_ANNOTATIONS", ""))

    assert 0 == main(["simulate", "--mix", mix, "--compare", str(path)])
    (row,) = (
        line for line in capsys.readouterr().out.splitlines() if line.startswith(" level (new)")
    )

    assert ["- → 0"] * 5 == re.split("  +", row.strip())[2:7]


WRONG = {
    "": "give one of --mix, --audit-log and",
    "--mix a --audit-log b": "give one of",
    "--mix mix.yaml --plot a.html": "Invalid value for '--plot': plots are SVG: expected a file",
    "--mix mix.yaml --plot no/a.svg": "cannot be written: there is no directory no",
    "--mix mix.yaml --plot /dev/full": "cannot be written: No space left",
    "--mix mix.yaml --objects wrong": "wrong:2: ",
    "--mix no": "no cannot be read: No such file",
    "--mix empty": "empty: expected one",
    "--mix wrong": "wrong:2: flows: is missing",
    "--mix large": "large: larger than 4 MiB",
    "--audit-log .": ". cannot be read: Is a dir",
    "--audit-log empty": "empty: there is no",
    "--access-log wrong": "wrong:2: JSON is malformed",
    "--access-log wrong --max-broken-lines 0": "wrong: more than 0 lines are broken: is this the",
    "--access-log long": "long: its requests lie 365 days apart",
    "--access-log log.gz": "log.gz:1: Object missing required field",
    "--audit-log log.zst": "log.zst is compressed otherwise than by gzip: unpack it first",
    "--audit-log cut.gz": "cut.gz cannot be unpacked: Compressed file ended before",
    "--audit-log received": "2 events, none of which is of the stage ResponseComplete, which",
    "--audit-log google": "1 line of Google Cloud's audit log, which does not say how long",
    "--audit-log klog": "klog: 1 line of other programs, and no request in it",
    "--audit-log access": "300 lines of the other kind of log: give it with --access-log",
    "--access-log audit": "300 lines of the other kind of log: give it with --audit-log",
    "--audit-log rejected": "none of its 2 requests executed, so that it is not known how long",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_input(
    arguments: str, mix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(mix).parent
    monkeypatch.chdir(folder)
    (folder / "empty").write_text("")
    (folder / "large").write_text(MIX + " " * (4 << 20))
    (folder / "log.gz").write_bytes(gzip.compress(b"{}\n"))
    (folder / "log.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    (folder / "cut.gz").write_bytes(gzip.compress(b"".join(lines_of(EVENT)))[:-9])
    (folder / "klog").write_text("I0605 12:00:00.1 1 server.go:1] text\n")
    (folder / "wrong").write_text("\nduration: 5s\n")
    for name, entries in {
        "received": [EVENT | {"stage": "RequestReceived"}] * 2,
        "google": [{"protoPayload": {"methodName": "io.k8s.core.v1.pods.get"}}],
        "audit": [EVENT] * 300,
        "access": [LINE] * 300,
        "rejected": [EVENT | {"responseStatus": {"code": 429}}] * 2,
        "long": [LINE, LINE | {"time": "2027-01-02T03:04:05.000100Z"}],
    }.items():
        written(folder / name, lines_of(*entries))
    is_usage = WRONG[arguments].startswith(("give", "Invalid"))

    assert (2 if is_usage else 1) == main(["simulate", *arguments.split()])
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("apfproxy simulate: " if is_usage else "apfproxy: ")
    assert WRONG[arguments] in first


def test_unused_objects_are_told(
    mix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FlowSchema whose level is missing is no reason not to simulate."""
    path = tmp_path / "objects.yaml"
    text = LEVEL.replace("LEVEL_ANNOTATIONS", "").replace("SCHEMA_ANNOTATIONS", "")
    path.write_text(text.partition("---")[2])

    assert 0 == main(["simulate", "--mix", mix, "--objects", str(path)])
    assert "there is no usable PriorityLevelConfiguration" in capsys.readouterr().err


def test_progress(
    mix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal a bar shows how far it is, and is gone at the end."""
    monkeypatch.setattr(
        module, "Console", lambda **options: Console(**options, force_terminal=True)
    )
    path = written(tmp_path / "audit.log", lines_of(*[EVENT] * 300))

    assert 0 == main(["simulate", "--mix", mix])
    assert "simulating built-in objects" in capsys.readouterr().err
    assert 0 == main(["simulate", "--audit-log", path])
    assert "reading" in capsys.readouterr().err


def test_samples(report: Callable[..., dict[str, Any]]) -> None:
    """The samples do what they are there to show: builds of their own level leave others alone."""
    folder = Path(__file__).parents[2] / "config" / "simulation"
    flags = ["--server-concurrency-limit", "100", "--warm-up", "20s", "--top", "99"]
    flags += ["--mix", str(folder / "mix.yaml"), "--compare", str(folder / "builds.yaml")]
    found = report(*flags)
    changes = {row["client"]: row for row in found["difference"]["clients"]}

    assert [20.0, 20.0] == [each["warmUpSeconds"] for each in found["configurations"]]
    # Virtual time and seeded chance: the same to the last request on every machine.
    assert [(15249, 10696, 4125.497), (9457, 2558, 1845.856)] == [
        (total["executed"], total["queued"], round(total["seatSeconds"], 3))
        for total in (each["total"] for each in found["configurations"])
    ]
    assert changes["build"]["executed"] < 0 < changes["build"]["waitMean"]
    assert all(changes[f"operator-{number}"]["queued"] < 0 for number in range(10))


@pytest.mark.parametrize(
    ("request_", "flags", "has_hint"),
    [
        ("GET /orders", "", True),
        ("GET /api/v1/users", "", True),
        ("GET /api/v1/pods", "", False),
        ("GET /apis/x.y/v1/zs", "", False),
        ("GET /orders", "--preset http", False),
        ("GET /orders", "--preset kubernetes", False),
    ],
)
def test_requests_to_another_api(
    request_: str, flags: str, mix: str, capsys: pytest.CaptureFixture[str], *, has_hint: bool
) -> None:
    """Where nothing looks like Kubernetes and no preset is chosen, a note names the other one."""
    Path(mix).write_text(MIX.replace("GET /api/v1/pods", request_))
    assert 0 == main(["simulate", "--mix", mix, *flags.split()])

    assert has_hint == ("Note: none of the requests is for a" in capsys.readouterr().out)


@pytest.mark.parametrize(("policy", "waits"), [("prompt", False), ("kubernetes", True)])
def test_limit_adjustment(
    policy: str, tmp_path: Path, report: Callable[..., dict[str, Any]], *, waits: bool
) -> None:
    """With few seats the first request waits for the first adjustment, in Kubernetes."""
    path = tmp_path / "one.yaml"
    path.write_text(MIX.replace("rate: 100", "rate: 1").replace("count: 3", "count: 1"))
    flags = f"--mix {path} --server-concurrency-limit 8 --limit-adjustment {policy}"
    (found,) = report(*flags.split())["configurations"]
    (level,) = (each for each in found["levels"] if each["executed"])

    assert 2 == level["executed"]
    assert waits is (level["waitP99"] > 1)
