from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

from apfproxy.app import running
from apfproxy.cli import serve as serve_module
from apfproxy.cli.main import main
from apfproxy.cli.serve import run
from apfproxy.settings import Address, Settings, UpstreamSettings
from apfproxy.settings.contradictions import as_preset
from apfproxy.settings.file import parse_settings
from tests.settings.cases import cases
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.app.reloading import SettingsFile
    from apfproxy.workers.place import SentSettings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    seen: list[Settings] = []

    async def run_nothing(
        settings: Settings, *, file: SettingsFile, sent: SentSettings | None
    ) -> int:
        assert sent is None
        assert settings == file.read()
        seen.append(settings)
        return 0

    monkeypatch.setattr(serve_module, "run", run_nothing)
    monkeypatch.setattr(serve_module, "configure_logging", lambda _level, _form: None)
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    return seen


FLAGS = """
--upstream http://a:1
> upstream: {url: http://a:1}
--upstream http://b:2 --upstream http://a:1
> upstream: {endpoints: [{url: http://b:2}, {url: http://a:1}]}
--upstream-dns http://b:2
> upstream: {dns: http://b:2}
--upstream-service a/b
> upstream: {service: {namespace: a, name: b}}
--upstream https://a --upstream-ca-file HERE --upstream-token-file HERE --no-rebalance
> upstream: {url: https://a, tls: {caFile: HERE}, tokenFile: HERE, rebalance: {percentPerMinute: 0}}
--settings GIVEN --upstream http://b:2
> upstream: {url: http://b:2}
--settings GIVEN --upstream-dns http://b:2
> upstream: {dns: http://b:2}
--settings GIVEN --no-rebalance
> upstream: {endpoints: [{url: http://a:1, weight: 7}], rebalance: {percentPerMinute: 0}}
"""
GIVEN = "upstream: {endpoints: [{url: 'http://a:1', weight: 7}]}\n"
MORE_FLAGS = """
--listen :80
> downstream: {listen: ':80'}
--admin none
> admin: ~
--admin unix:/a
> admin: 'unix:/a'
--tls-cert-file HERE --tls-private-key-file HERE --client-ca-file HERE
> downstream: {tls: {certificateFile: HERE, keyFile: HERE}}
> authentication: {clientCaFile: HERE}
--token-auth-file HERE --token-review
> authentication: {tokenFile: HERE, tokenReview: {enabled: true}}
--identity-headers-from 10.0.0.0/8 --identity-headers-from ::1
> downstream: {identityHeadersFrom: [10.0.0.0/8, '::1']}
--preset http
> preset: http
--server-concurrency-limit 20 --enforcement observe --no-suggested-objects
> flowControl: {serverConcurrencyLimit: 20, enforcement: observe, suggestedObjects: false}
--per-endpoint 7 --objects HERE --objects /
> flowControl: {perEndpoint: 7, objects: [HERE, /]}
--store b.db --admin-token-file HERE
> flowControl: {store: b.db}
> adminTokenFile: HERE
--objects-from-kubernetes --kubeconfig HERE --context c --write-status
> flowControl: {kubernetes: {enabled: true, kubeconfig: HERE, context: c, writeStatus: true}}
--object-counts-from http://a/m
> flowControl: {objectCountsFrom: http://a/m}
--fleet redis://a --fleet-replicas 3
> fleet: {store: redis://a, replicas: 3}
--workers auto --access-log -
> workers: auto
> accessLog: {path: '-'}
--log-level debug --log-format json --metrics full
> logLevel: debug
> logFormat: json
> metrics: full
"""


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        *cases(FLAGS),
        *(
            (f"--upstream http://a {flags}", ["upstream: {url: http://a}", *lines])
            for flags, lines in cases(MORE_FLAGS)
        ),
    ],
)
def test_flags(served: list[Settings], tmp_path: Path, flags: str, lines: list[str]) -> None:
    """Each flag sets its setting as the settings file does; all others are as before."""
    given = tmp_path / "settings.yaml"
    given.write_text(GIVEN)
    flags = flags.replace("HERE", __file__).replace("GIVEN", str(given))
    text = "\n".join(lines).replace("HERE", __file__)

    assert main(["serve", *flags.split()]) == 0
    assert [as_preset(parse_settings(text.encode(), "f"))] == served


A, B = Address(host="a", port=1), Address(host="b", port=2)


@pytest.mark.parametrize(
    ("flags", "variable", "warnings"),
    [
        ("--fleet redis://:secret@a", "", ["--fleet has a password, which"]),
        ("", "redis://:secret@a", []),
        ("--fleet redis://user@a --fleet-replicas 2", "", []),
        ("--workers 2 --server-concurrency-limit 1", "", ["flowControl.serverConcurrencyLimit: 1"]),
    ],
    ids=["seen", "in-the-environment", "no-password", "fewer-seats-than-workers"],
)
def test_warnings_of_a_fleet(
    served: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flags: str,
    variable: str,
    warnings: list[str],
) -> None:
    monkeypatch.setenv("APFPROXY_SERVE_FLEET", variable)

    assert 0 == main(["serve", "--upstream", "http://a:1", *flags.split()])
    assert len(served) == 1
    assert [True] * len(warnings) == [
        said.startswith(begin) for said, begin in zip(caplog.messages, warnings, strict=False)
    ]
    assert "secret" not in caplog.text


def test_clusters(served: list[Settings], tmp_path: Path) -> None:
    """Flags are of the top level; each has what its preset says, and one may be refused alone."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "clusters:\n"
        "- {name: a, hosts: [a], preset: http, upstream: {url: 'http://a:1'}}\n"
        "- {name: b, hosts: [b], flowControl: {perEndpoint: 9}}\n"
        "- {name: c, hosts: [c], upstream: {url: 'http://b:2', dns: 'http://b:2'}}\n"
    )

    flags = "--upstream-dns http://b:2 --server-concurrency-limit 7"
    assert 0 == main(["serve", "--settings", str(path), *flags.split()])
    (settings,) = served
    *_, refused = settings.clusters
    assert [(UpstreamSettings(url=A), 7, True), (UpstreamSettings(dns=B), 9, None)] == [
        (own.upstream, own.flow_control.seats(1), own.authentication.unverified.is_by_address)
        for own in (each.settings for each in settings.clusters)
        if own is not None
    ]
    assert refused.problems[0].startswith(f"{path}:4: clusters[c]: give only one of upstream.url")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "admin: ~\nupstream:\n  url: http://a\n  dns: http://a\n",
            [":3: give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns)"],
        ),
        ("a: 1\nb: 2\n", [":1: a: unknown", ":2: b: unknown"]),
        ("logLevel: info\n", [": upstream.url: say where to forward"]),
        (
            "clusters:\n- {name: a}\n- {name: b, hosts: [b]}\n",
            [":2: clusters[a]: needs hosts or path", ":3: clusters[b].upstream.url: say where to"],
        ),
    ],
)
def test_conflicts_in_the_file_are_named_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problems: list[str]
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)

    assert main(["serve", "--settings", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [True] * len(problems) == [
        line.startswith(f"apfproxy: {path}{problem}")
        for line, problem in zip(lines, problems, strict=True)
    ]


async def test_signal_drains(caplog: pytest.LogCaptureFixture) -> None:
    """A signal drains the process, and that is success."""
    with caplog.at_level(logging.INFO, logger="apfproxy.app"):
        assert 0 == await run(settings_for(9), lambda _: os.kill(os.getpid(), signal.SIGTERM))

    assert "authentication: all clients are one flow " in caplog.messages[1]
    assert ["draining; another signal stops at once", "stopped"] == caplog.messages[2:]
