"""`apfproxy serve`."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.app import running
from apfproxy.app.reloading import SettingsFile
from apfproxy.cli import serve as serve_module
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main
from apfproxy.cli.serve import run
from apfproxy.settings import (
    Address,
    AuthenticationSettings,
    DownstreamSettings,
    DownstreamTlsSettings,
    DrainSettings,
    EndpointSettings,
    FlowControlSettings,
    KubernetesSettings,
    RebalanceSettings,
    ReviewSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from tests.app.test_process import settings_for

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.app.process import ProxyProcess
    from apfproxy.workers.place import WorkerPlace


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `serve` would have run with; it runs nothing."""
    seen: list[Settings] = []

    async def run_nothing(
        settings: Settings, *, file: SettingsFile, place: WorkerPlace | None
    ) -> int:
        assert place is None
        assert settings == file.read()
        seen.append(settings)
        return 0

    monkeypatch.setattr(serve_module, "run", run_nothing)
    monkeypatch.setattr(serve_module, "configure_logging", lambda _level, _form: None)
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    return seen


def test_flags(served: list[Settings], tmp_path: Path) -> None:
    """Each flag sets its setting; all others have their defaults."""
    code = main(
        f"serve --upstream http://localhost:8000 --listen 0.0.0.0:80 --admin none"
        f" --objects {tmp_path} --objects {__file__} --no-suggested-objects"
        f" --server-concurrency-limit 20 --identity-headers-from 10.0.0.0/8"
        f" --identity-headers-from ::1 --object-counts-from http://localhost:8000/metrics"
        f" --log-level debug --enforcement observe".split()
    )

    assert code == 0
    assert served == [
        Settings(
            downstream=DownstreamSettings(
                listen=Address(host="0.0.0.0", port=80),  # noqa: S104 - nothing listens
                identity_headers_from=(
                    ipaddress.ip_network("10.0.0.0/8"),
                    ipaddress.ip_network("::1/128"),
                ),
            ),
            upstream=UpstreamSettings(url=Address(host="localhost", port=8000)),
            flow_control=FlowControlSettings(
                enforcement="observe",
                server_concurrency_limit=20,
                objects=(str(tmp_path), __file__),
                suggested_objects=False,
                object_counts_from="http://localhost:8000/metrics",
            ),
            admin=None,
            log_level="debug",
        )
    ]


def test_flags_of_tls(served: list[Settings]) -> None:
    """Those of kube-apiserver set what they set there; the proxy's own are named after them."""
    here = __file__
    code = main(
        f"serve --upstream https://a --listen :8443 --tls-cert-file {here}"
        f" --tls-private-key-file {here} --client-ca-file {here} --token-auth-file {here}"
        f" --token-review --upstream-ca-file {here} --upstream-token-file {here}"
        " --log-format json".split()
    )

    assert code == 0
    assert served == [
        Settings(
            downstream=DownstreamSettings(
                listen=Address(host="", port=8443),
                tls=DownstreamTlsSettings(certificate_file=here, key_file=here),
            ),
            upstream=UpstreamSettings(
                url=Address(host="a", port=443, is_tls=True),
                tls=UpstreamTlsSettings(ca_file=here),
                token_file=here,
            ),
            authentication=AuthenticationSettings(
                client_ca_file=here,
                token_file=here,
                token_review=ReviewSettings(is_enabled=True),
            ),
            log_format="json",
        )
    ]


A, B = Address(host="a", port=1), Address(host="b", port=2)


@pytest.mark.parametrize(
    ("flags", "upstream"),
    [
        pytest.param("--upstream http://b:2", UpstreamSettings(url=B), id="another"),
        pytest.param(
            "--upstream http://b:2 --upstream http://a:1",
            UpstreamSettings(endpoints=(EndpointSettings(url=B), EndpointSettings(url=A))),
            id="several",
        ),
        pytest.param("--upstream-dns http://b:2", UpstreamSettings(dns=B), id="dns"),
        pytest.param(
            "--upstream-service a/b",
            UpstreamSettings(service=ServiceSettings(namespace="a", name="b")),
            id="service",
        ),
        pytest.param(
            "--no-rebalance",
            UpstreamSettings(
                endpoints=(EndpointSettings(url=A, weight=7),),
                rebalance=RebalanceSettings(percent_per_minute=0),
            ),
            id="no-rebalance",
        ),
    ],
)
def test_flags_of_servers(
    served: list[Settings], tmp_path: Path, flags: str, upstream: UpstreamSettings
) -> None:
    """They take the place of what the file says of where the servers are, whatever that is."""
    path = tmp_path / "settings.yaml"
    path.write_text("upstream: {endpoints: [{url: 'http://a:1', weight: 7}]}\n")

    assert main(["serve", "--settings", str(path), *flags.split()]) == 0
    assert [Settings(upstream=upstream)] == served


def test_servers_in_the_environment(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several have spaces between them."""
    monkeypatch.setenv("APFPROXY_SERVE_UPSTREAM", "http://a:1 http://b:2")

    assert main(["serve"]) == 0
    assert served[0].upstream.endpoints == (EndpointSettings(url=A), EndpointSettings(url=B))


@pytest.mark.parametrize(
    ("file", "flag", "limits"),
    [
        ("serverConcurrencyLimit: 9", "--per-endpoint 7", (600, 7)),
        ("perEndpoint: 9", "--server-concurrency-limit 7", (7, None)),
        ("perEndpoint: 9", "--no-rebalance", (600, 9)),
    ],
)
def test_flags_of_limits(
    served: list[Settings], tmp_path: Path, file: str, flag: str, limits: tuple[int, int | None]
) -> None:
    """A limit of one kind takes the place of the other kind in the file."""
    path = tmp_path / "settings.yaml"
    path.write_text(f"flowControl: {{{file}}}\n")

    assert main(["serve", "--settings", str(path), "--upstream", "http://a:1", *flag.split()]) == 0
    flow_control = served[0].flow_control
    assert limits == (flow_control.server_concurrency_limit, flow_control.per_endpoint)


@pytest.mark.parametrize(
    ("flags", "variable", "warnings"),
    [
        pytest.param("--fleet redis://:secret@a", "", ["--fleet has a password, which"], id="seen"),
        pytest.param("", "redis://:secret@a", [], id="in-the-environment"),
        pytest.param("--fleet redis://user@a --fleet-replicas 2", "", [], id="no-password"),
        pytest.param(
            "--workers 2 --server-concurrency-limit 1",
            "",
            ["flowControl.serverConcurrencyLimit: 1"],
            id="too-few-seats",
        ),
    ],
)
def test_warnings_of_a_fleet(
    served: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flags: str,
    variable: str,
    warnings: list[str],
) -> None:
    """What may be meant otherwise is logged at the start, and no password is."""
    monkeypatch.setenv("APFPROXY_SERVE_FLEET", variable)

    assert 0 == main(["serve", "--upstream", "http://a:1", *flags.split()])
    assert len(served) == 1
    messages = [record.getMessage() for record in caplog.records]
    assert warnings == [
        message[: len(begin)] for message, begin in zip(messages, warnings, strict=True)
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

    assert 0 == main(
        [
            *("serve", "--settings", str(path), "--upstream-dns", "http://b:2"),
            *("--server-concurrency-limit", "7"),
        ]
    )
    (settings,) = served
    one, two, refused = settings.clusters
    assert one.settings is not None
    assert two.settings is not None
    assert (UpstreamSettings(url=A), 7, True) == (
        one.settings.upstream,
        one.settings.flow_control.seats(1),
        one.settings.authentication.unverified.is_by_address,
    )
    assert (UpstreamSettings(dns=B), 9, None) == (
        two.settings.upstream,
        two.settings.flow_control.seats(1),
        two.settings.authentication.unverified.is_by_address,
    )
    assert refused.settings is None
    assert refused.problems[0].startswith(f"{path}:4: clusters[c]: give only one of upstream.url")


def test_no_cluster_that_can_be_used(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then nothing is served."""
    path = tmp_path / "settings.yaml"
    path.write_text("clusters:\n- {name: a}\n- {name: b, hosts: [b]}\n")

    assert 2 == main(["serve", "--settings", str(path)])
    assert served == []
    assert [
        f"apfproxy: {path}:2: clusters[a]: needs hosts or pathPrefix",
        f"apfproxy: {path}:3: clusters[b].upstream.url: say where to forward",
    ] == [line.partition(", ")[0] for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "admin: ~\nupstream:\n  url: http://a\n  dns: http://a\n",
            [":3: give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns)"],
        ),
        (
            "upstream:\n  endpoints:\n  - url: http://a\n  - url: http://a\n  - url: https://a\n",
            [":4: upstream.endpoints[1]: http", ":5: upstream.endpoints[2]: https"],
        ),
    ],
)
def test_conflicts_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problems: list[str]
) -> None:
    """Settings of the file that do not go together are named with their lines, one by one."""
    path = tmp_path / "settings.yaml"
    path.write_text(text)

    assert main(["serve", "--settings", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [True] * len(problems) == [
        line.startswith(f"apfproxy: {path}{problem}")
        for line, problem in zip(lines, problems, strict=True)
    ]


def test_settings_file_without_an_upstream(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says no more than no file does."""
    path = tmp_path / "settings.yaml"
    path.write_text("logLevel: info\n")

    assert main(["serve", "--settings", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"apfproxy: {path}: upstream.url: say where to forward, here or by --upstream URL; or by"
        " upstream.endpoints, upstream.dns or upstream.service\n"
    )
    assert served == []
    assert main(["serve", "--settings", str(path), "--upstream", "http://a"]) == 0


def test_store(served: list[Settings], tmp_path: Path) -> None:
    """A store and the token for it are settings, too; files in a settings file lie beside it."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\nflowControl: {store: objects.db}\nadminTokenFile: token\n"
    )

    assert main(f"serve --upstream http://a:1 --store b.db --admin-token-file {path}".split()) == 0
    assert main(["serve", "--settings", str(path)]) == 0
    assert [("b.db", str(path)), (str(tmp_path / "objects.db"), str(tmp_path / "token"))] == [
        (each.flow_control.store, each.admin_token_file) for each in served
    ]


def test_kubernetes(served: list[Settings], tmp_path: Path) -> None:
    """A Kubernetes API is a source by flags as well as by the settings file."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\n"
        "flowControl: {kubernetes: {enabled: true, kubeconfig: config}}\n"
    )
    flags = f"--objects-from-kubernetes --kubeconfig {path} --context c --write-status"

    assert main(f"serve --upstream http://a:1 {flags}".split()) == 0
    assert main(["serve", "--upstream", "http://a:1", "--objects-from-kubernetes"]) == 0
    assert main(["serve", "--settings", str(path), "--context", "d"]) == 0
    assert [
        KubernetesSettings(is_enabled=True, kubeconfig=str(path), context="c", write_status=True),
        KubernetesSettings(is_enabled=True),
        KubernetesSettings(is_enabled=True, kubeconfig=str(tmp_path / "config"), context="d"),
    ] == [each.flow_control.kubernetes for each in served]


def test_flags_win_over_the_file(served: list[Settings], tmp_path: Path) -> None:
    """A flag replaces what the settings file says; the rest of the file holds."""
    path = tmp_path / "settings.yaml"
    path.write_text("upstream: {url: 'http://a:1', maxConnections: 7}\nadmin: '127.0.0.1:9'\n")

    assert main(["serve", "--settings", str(path), "--upstream", "http://b:2"]) == 0
    assert served == [
        Settings(
            upstream=UpstreamSettings(url=Address(host="b", port=2), max_connections=7),
            admin=Address(host="127.0.0.1", port=9),
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say where to forward: --upstream URL, or --settings FILE"),
        (
            ["--upstream", "http://a", "--upstream-dns", "http://a"],
            "give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns)",
        ),
        (
            ["--upstream", "http://a:1", "--upstream", "http://a:1"],
            "upstream.endpoints[1]: http://a:1 is upstream.endpoints[0] already",
        ),
        (["--upstream-dns", "http://10.0.0.1"], "expected a URL with a host name"),
        (["--upstream-service", "kubernetes"], "expected NAMESPACE/NAME"),
        (["--per-endpoint", "0"], "0 is not in the range"),
        (
            ["--upstream", "http://a:1", "--per-endpoint", "9", "--server-concurrency-limit", "8"],
            "give either flowControl.perEndpoint (--per-endpoint) or",
        ),
        (["--upstream", "ftp://a"], "expected a URL such as http://127.0.0.1:8000"),
        (["--upstream", "a:1"], "expected a URL such as http://127.0.0.1:8000"),
        (["--listen", "80"], "expected HOST:PORT, or :80 for all addresses"),
        (["--identity-headers-from", "10.0.0.1/8"], "write 10.0.0.0/8"),
        (["--objects", "/nowhere"], "Path '/nowhere' does not exist"),
        (["--settings", "/nowhere"], "File '/nowhere' does not exist"),
        (["--server-concurrency-limit", "0"], "0 is not in the range"),
        (
            ["--upstream", "http://a:1", "--store", "a.db", "--objects", "/"],
            "give either flowControl.store (--store) or flowControl.objects",
        ),
        (
            ["--upstream", "http://a:1", "--store", "a.db", "--admin", "none"],
            "flowControl.store (--store) needs an admin listener (--admin)",
        ),
        (
            ["--upstream", "http://a:1", "--admin-token-file", __file__],
            "(--admin-token-file) needs flowControl.store (--store)",
        ),
        (["--store", "/"], "is a directory"),
        (
            ["--upstream", "http://a:1", "--objects-from-kubernetes", "--store", "a.db"],
            "(--objects-from-kubernetes) or flowControl.store (--store)",
        ),
        (
            ["--upstream", "http://a:1", "--objects-from-kubernetes", "--objects", "/"],
            "(--objects-from-kubernetes) or flowControl.objects (--objects)",
        ),
        (
            ["--upstream", "http://a:1", "--kubeconfig", __file__],
            "flowControl.kubernetes.kubeconfig (--kubeconfig) needs",
        ),
        (
            ["--upstream", "http://a:1", "--write-status"],
            "flowControl.kubernetes.writeStatus (--write-status) needs",
        ),
        (
            ["--upstream", "http://a:1", "--objects-from-kubernetes", "--context", "a"],
            "(--context) needs flowControl.kubernetes.kubeconfig (--kubeconfig)",
        ),
        (["--object-counts-from", "x"], "expected a URL such as http://127.0.0.1:8000/metrics"),
    ],
)
def test_wrong_flags(
    arguments: list[str],
    message: str,
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong flag is refused in one line that says what to write."""
    assert main(["serve", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert served == []


def test_wrong_settings_file(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All problems of a settings file are said, a line for each."""
    path = tmp_path / "settings.yaml"
    path.write_text("a: 1\nb: 2\n")

    assert main(["serve", "--settings", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["apfproxy", f"{path}:1"],
        ["apfproxy", f"{path}:2"],
    ]
    assert served == []


def test_settings_file_that_contradicts_itself(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that do not go together are wrong usage, too, with a line for each problem."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\ndownstream: {tls: {keyFile: a.key}}\n"
        "authentication: {jwt: [{issuer: 'https://a'}]}\n"
    )

    assert main(["serve", "--settings", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:-1] for line in lines] == [
        ["apfproxy", f"{path}:2", "downstream.tls"],
        ["apfproxy", "authentication.jwt[0].audiences", "missing"],  # it has no line
    ]
    assert served == []


async def test_no_way_to_the_api(tmp_path: Path) -> None:
    """A kubeconfig that cannot be used ends the start, with what to do."""
    path = tmp_path / "config"
    path.write_text("{}")
    kubernetes = KubernetesSettings(is_enabled=True, kubeconfig=str(path))
    settings = settings_for(9, FlowControlSettings(kubernetes=kubernetes))

    with pytest.raises(CommandError, match="has no current-context"):
        await run(settings)


@pytest.mark.parametrize("timeout_s", [0, 1000], ids=["in-time", "while-it-waits"])
async def test_signal_before_the_objects_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, timeout_s: float
) -> None:
    """At the start it is said whether the objects have come; a signal ends the wait for them."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "config"
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "a", "context": {"cluster": "a"}}
    content = {"current-context": "a", "clusters": [cluster], "contexts": [context]}
    path.write_text(json.dumps(content))
    kubernetes = KubernetesSettings(
        is_enabled=True, kubeconfig=str(path), first_sync_timeout_s=timeout_s
    )
    settings = settings_for(9, FlowControlSettings(kubernetes=kubernetes))

    def end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    if timeout_s:
        asyncio.get_running_loop().call_soon(end)
    assert 0 == await run(settings, None if timeout_s else end)
    assert "objects are those of http://127.0.0.1:9, which are not here yet" in caplog.text


def with_drain(drain: DrainSettings) -> Settings:
    """Settings of a process that drains like this."""
    return structs.replace(settings_for(9), drain=drain)


async def test_signal_drains(caplog: pytest.LogCaptureFixture) -> None:
    """A signal drains the process, and that is success."""
    started: list[ProxyProcess] = []

    def on_started(process: ProxyProcess) -> None:
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)

    with caplog.at_level(logging.INFO, logger="apfproxy.app"):
        code = await run(with_drain(DrainSettings()), on_started)

    assert code == 0
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("apfproxy ")
    assert messages[1].startswith("authentication: all clients are one flow ")
    assert messages[2:] == ["draining; another signal stops at once", "stopped"]
    assert started[0].health.problem("shutdown") == "the process is shutting down"


async def test_observing_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads the log knows that nothing is limited."""
    settings = settings_for(9, FlowControlSettings(enforcement="observe"))
    with caplog.at_level(logging.INFO, logger="apfproxy.app"):
        code = await run(settings, lambda _: os.kill(os.getpid(), signal.SIGTERM))

    assert code == 0
    assert caplog.records[2].getMessage() == (
        "flow control only observes: no request is rejected or delayed; the live page,"
        " `apfproxy top` and apiserver_flowcontrol_* metrics tell what enforcing would do"
    )


async def test_second_signal_stops_at_once() -> None:
    """A second signal ends even a long shutdown delay, and that is failure."""
    loop = asyncio.get_running_loop()

    def on_started(process: ProxyProcess) -> None:
        def again() -> None:
            if process.health.problem("shutdown") is None:
                loop.call_soon(again)
            else:
                os.kill(os.getpid(), signal.SIGINT)

        os.kill(os.getpid(), signal.SIGTERM)
        again()

    assert await run(with_drain(DrainSettings(shutdown_delay_s=3600)), on_started) == 1


async def test_port_in_use() -> None:
    """A port in use ends the command with what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        settings = Settings(downstream=DownstreamSettings(listen=address))
        with pytest.raises(CommandError) as caught:
            await run(settings)

    assert caught.value.message == (
        f"cannot listen on {address}: address already in use;"
        " stop what listens there, or choose another address with --listen"
    )


async def test_broken_objects(tmp_path: Path) -> None:
    """Broken objects end the command with a line for each problem."""
    (tmp_path / "a.yaml").write_text("broken")
    (tmp_path / "b.yaml").write_text("broken")
    settings = settings_for(9, FlowControlSettings(objects=(str(tmp_path),)))
    with pytest.raises(CommandError) as caught:
        await run(settings)

    assert len(caught.value.message.splitlines()) == 2


async def test_a_file_that_a_setting_names(tmp_path: Path) -> None:
    """The setting is named, too, with its line."""
    path, token = tmp_path / "settings.yaml", tmp_path / "token"
    path.write_text("upstream:\n  tokenFile: token\n")
    token.touch()
    settings = structs.replace(settings_for(9), upstream=UpstreamSettings(token_file=str(token)))
    with pytest.raises(CommandError) as caught:
        await run(settings, file=SettingsFile(path, lambda: settings))

    assert caught.value.message == (
        f"{path}:2: upstream.tokenFile: the token file {token} is empty; write one token into it"
    )
