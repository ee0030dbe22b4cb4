from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

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


def test_audit_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken and long lines and guesses are told on stderr, and the rest is replayed."""
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    rejected = EVENT | {"responseStatus": {"code": 429}}
    long = EVENT | {"requestObject": "x" * 5000}
    path = written(tmp_path / "audit.log", [*lines_of(EVENT, long, rejected), b"{\n"])

    assert 0 == main(["simulate", "--audit-log", path, "-o", "json"])
    out, err = capsys.readouterr()

    guessed = "1 request never executed; replayed with the mean service time"
    assert [
        f"{path}:2: Input data was truncated",
        f"{path}:4: Input data was truncated",
        f"{path}: 2 broken lines left out",
        f"{path}: {guessed} of what is alike",
    ] == err.splitlines()
    found = json.loads(out)
    counts = {"requests": 2, "brokenLines": 2, "guessedServiceTimes": 1}
    assert {"log": path, **counts}.items() <= found["input"].items()
    assert [2, 4] == [each["line"] for each in found["input"]["problems"]]
    (warning,) = found["warnings"]
    assert warning.startswith("1 request waited or never executed in the log; arrivals are taken")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_packed_log(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log is read as it was rotated or saved; lines of other programs are left out."""
    wrapped = [{"log": json.dumps(EVENT) + "\n"}, {"log": "text\n"}]
    data = b"".join(lines_of(*wrapped)).decode().encode(encoding)
    path = written(tmp_path / "audit.log", [gzip.compress(data) + gzip.compress(b"")])

    assert 0 == main(["simulate", "--audit-log", path, "-o", "json"])
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
        ("--audit-log", b"".join(lines_of(*[EVENT] * 2))),
        ("--access-log", b"".join(lines_of(*[LINE] * 2))),
        ("--mix", MIX.encode()),
    ],
)
def test_from_stdin(
    flag: str, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_in = io.BufferedReader(io.BytesIO(data))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data_in))

    assert 0 == main(["simulate", flag, "-", "-o", "json"])
    assert "<stdin>" in json.loads(capsys.readouterr().out)["input"].values()


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


WRONG = {
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
    assert 1 == main(["simulate", *arguments.split()])
    assert WRONG[arguments] in capsys.readouterr().err.splitlines()[0]


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


def test_a_limit_that_is_found(
    mix: str, report: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the limit that is too high, or with another target; the text says what was decided."""
    Path(mix).write_text(MIX.replace("duration: 2s", "duration: 6s"))
    model = ["--mix", mix, "--server-model", "capacity=8,overload=1.5"]
    auto = ["--compare-server-concurrency-limit", "auto", "--auto-limit", "max=40"]
    first, second = report(*model, *auto)["configurations"]

    assert [
        "built-in objects, 600 seats",
        "built-in objects, auto from 40 seats, min 2, max 40",
    ] == [each["name"].partition(", target")[0] for each in (first, second)]
    assert first["server"]["goodput"] < second["server"]["goodput"]
    found = second["server"]["foundLimit"]
    assert (
        found["limit"] < 40,
        found["limit"] in {each["limit"] for each in found["decisions"]},
    ) == (
        True,
        True,
    )
    assert 0 == main(["simulate", *model, *auto])
    lines = capsys.readouterr().out.splitlines()
    assert [f"{letter}: goodput" for letter in "AB"] == [
        line[:10] for line in lines if ": goodput " in line
    ]
    assert f"B: limit {found['limit']} at the end; the last decisions:" in lines
    assert any(" latency " in line for line in lines)


def test_two_targets(mix: str, report: Callable[..., dict[str, Any]]) -> None:
    flags = ["--server-concurrency-limit", "auto", "--compare-auto-limit", "target=80"]
    found = report("--mix", mix, *flags)

    assert [97, 80] == [int(each["name"].split()[-1]) for each in found["configurations"]]
    (warning,) = found["warnings"]
    assert warning.startswith("without --server-model the server does not slow down")


@pytest.mark.parametrize(
    ("request_", "flags", "has_hint"),
    [
        ("GET /api/v1/users", "", True),
        ("GET /api/v1/pods", "", False),
        ("GET /apis/x.y/v1/zs", "", False),
        ("GET /orders", "--preset http", False),
        ("GET /orders", "--preset kubernetes", False),
    ],
)
def test_note_for_requests_to_another_api(
    request_: str, flags: str, mix: str, capsys: pytest.CaptureFixture[str], *, has_hint: bool
) -> None:
    Path(mix).write_text(MIX.replace("GET /api/v1/pods", request_))
    assert 0 == main(["simulate", "--mix", mix, *flags.split()])

    assert has_hint == ("Note: none of the requests is for a" in capsys.readouterr().out)


def test_queries(tmp_path: Path, report: Callable[..., dict[str, Any]]) -> None:
    """An audit log has them, an access log only those of Kubernetes' own APIs."""
    text = LEVEL.replace("LEVEL_ANNOTATIONS", "")
    objects = tmp_path / "objects.yaml"
    objects.write_text(text.replace("SCHEMA_ANNOTATIONS", "apfproxy.io/match-query: 'expand=*'"))
    event = {**EVENT, "user": {"username": "u"}}
    uris = [f"/api/v1/pods?{query}" for query in ("expand=a", "limit=5&expand=b", "limit=5", "")]
    audit = written(tmp_path / "a", lines_of(*({**event, "requestURI": each} for each in uris)))
    access = written(tmp_path / "b", lines_of(LINE))
    found = [
        report(*flags, "--objects", str(objects))
        for flags in (["--audit-log", audit], ["--access-log", access])
    ]

    levels = [each["configurations"][0]["levels"] for each in found]
    assert [{"level": 2, "global-default": 2}, {"global-default": 1}] == [
        {row["priorityLevel"]: row["executed"] for row in rows if row["executed"]}
        for rows in levels
    ]
    assert [False, True] == [
        any("without expand" in text for text in each["warnings"]) for each in found
    ]


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
