from __future__ import annotations

import json
from pathlib import Path

import pytest

from apfproxy.cli.main import main
from tests.settings.cases import cases, shortened
from tests.support.certificates import Authority

GOOD = """preset: http
upstream: {url: "https://127.0.0.1:9", tls: {caFile: ca.crt}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    authority = Authority("x")
    for name in "ab":
        authority.issue(name, usage="server").write(tmp_path, name)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    return tmp_path


def check(text: str, *more: str) -> int:
    Path("f.yaml").write_text(text)
    return main(["check", "--settings", "f.yaml", *more])


def test_ok(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A file that a proxy can start with; nothing is made."""
    text = GOOD + "flowControl: {store: a.db}\naccessLog: {path: log}\n"
    before = {*folder.iterdir(), folder / "f.yaml"}

    assert 0 == check(text)
    assert "f.yaml: ok\n" == capsys.readouterr().out
    assert 0 == check(text, "-o", "json")
    shown = {"file": "f.yaml", "problems": [], "warnings": []}
    assert shown == json.loads(capsys.readouterr().out)
    assert before == {*folder.iterdir()}


TEXTS = """
logLevel: loud
#
admn: x
> 2
> f.yaml:1: logLevel: expected one of... (error)
> f.yaml:3: admn: unknown key... (error)
a: [
> 2
> f.yaml:2: not YAML... (error)
upstream:
  identity: impersonate
> 2
> f.yaml:1: upstream.url: say... (error)
> f.yaml:2: upstream.identity impersonate needs... (error)
GOOD
downstream: {tls: {certificateFile: a.crt, keyFile: b.key}}
> 1
> f.yaml:3: downstream.tls.keyFile: b.key: is not the key of... (error)
GOOD
authentication:
  tokenFile: no.csv
  jwt:
  - issuer: https://a
    audiences: [b]
    keysFile: f.yaml
> 1
> f.yaml:4: authentication.tokenFile: no.csv: cannot be read: No such file... (error)
> f.yaml:6: authentication.jwt[0]: f.yaml: no usable key... (error)
GOOD
flowControl: {objects: [broken.yaml]}
> 1
> broken.yaml:1: FlowSchema "a": apiVersion: Unsupported value... (error)
GOOD
authentication:
  tokenFile: no.csv
  apiKeys: {file: no.csv}
> 1
> f.yaml:4: authentication.tokenFile: no.csv: cannot be read: No such file... (error)
> f.yaml:5: authentication.apiKeys.file: no.csv: cannot be read: No such file... (error)
upstream:
  url: https://127.0.0.1:9
  tls: {caFile: no.pem}
downstream:
  tls:
    certificateFile: no.pem
    keyFile: no.key
authentication:
  tokenFile: broken.yaml
  apiKeys: {file: no.pem}
flowControl: {objects: [no.pem]}
> 1
> f.yaml:3: upstream.tls.caFile: no.pem: cannot be read... (error)
> f.yaml:6: downstream.tls.certificateFile: no.pem: cannot be read... (error)
> f.yaml:7: downstream.tls.keyFile: no.key: cannot be read... (error)
> f.yaml:9: authentication.tokenFile: broken.yaml:1: 1 column instead of 3 or 4... (error)
> f.yaml:10: authentication.apiKeys.file: no.pem: cannot be read... (error)
> f.yaml:11: flowControl.objects[0]: no.pem: cannot be read... (error)
GOOD
accessLog: {path: /nowhere/log}
> 1
> f.yaml:3: accessLog.path: /nowhere/log: its directory does not exist... (error)
GOOD
downstream:
  http2: {enabled: false, cleartext: true}
> 0
> f.yaml:4: downstream.http2.cleartext has no effect... (warning)
> f.yaml: ok
GOOD
tracing:
  samplingRatePerMillion: 100
> 0
> f.yaml:4: tracing.samplingRatePerMillion has no effect... (warning)
> f.yaml: ok
GOOD
workers: auto
flowControl: {serverConcurrencyLimit: 2, suggestedObjects: false}
> 0
> f.yaml: ok
upstream: {url: http://a}
> 0
> f.yaml: authentication: all clients are one flow (system:anonymous)... (warning)
> f.yaml: flowControl.serverConcurrencyLimit: leader-election, node-high, ... (warning)
> f.yaml: ok
GOOD
flowControl: {objects: [objects.yaml]}
> 0
> f.yaml: request.pathPrefixes: is empty, but apfproxy.io/distinguisher of clusters is... (warning)
> f.yaml: ok
GOOD
flowControl: {objects: [objects.yaml]}
request: {pathPrefixes: ['/clusters/{a}']}
> 0
> f.yaml: ok
TWO
  upstream:
    tls: {caFile: ca.crt}
> 2
> f.yaml:9: clusters[a].upstream.tls: http://all:80 is without TLS... (error)
TWO
  authentication:
    tokenFile: no.csv
> 1
> f.yaml:9: clusters[a].authentication.tokenFile: no.csv: cannot be read... (error)
TWO
  authentication:
    tokenFile: no.csv
- name: b
  hosts: [a]
> 2
> f.yaml:10: clusters[b]: the host a is of the cluster a already (error)
> f.yaml:9: clusters[a].authentication.tokenFile: no.csv: cannot be read... (error)
downstream: {tls: {certificateFile: a.crt, keyFile: a.key}}
clusters:
- name: a
  hosts: [a]
  upstream: {url: http://a}
  tls:
    certificateFile: no.crt
    keyFile: a.key
> 1
> f.yaml:7: clusters[a].tls.certificateFile: no.crt: cannot be read... (error)
TWO
authentication: {tokenFile: no.csv}
> 1
> f.yaml:8: authentication.tokenFile: no.csv: cannot be read... (error)
TWO
  authentication: {anonymous: false}
- name: b
  hosts: [b]
  authentication: {anonymous: false}
downstream: {trustedProxies: [0.0.0.0/0]}
> 0
> f.yaml:12: downstream.trustedProxies has 0.0.0.0/0: every client can claim any... (warning)
> f.yaml:8: clusters[a].authentication.anonymous is false, and... 401 (1 more like it) (warning)
> f.yaml: ok
downstream: {tls: {certificateFile: a.crt, keyFile: a.key, requireClientCertificate: true}}
preset: http
clusters:
- name: a
  hosts: [a]
  upstream: {url: http://a}
  authentication: {clientCaFile: ca.crt}
> 0
> f.yaml:7: clusters[a].authentication.clientCaFile with upstream.identity... (warning)
> f.yaml: ok
"""
TWO = """
upstream: {url: http://all}
preset: http
clusters:
- name: good
  hosts: [good]
- name: a
  hosts: [a]
"""[1:]
BY_PREFIX = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: clusters, annotations: {apfproxy.io/distinguisher: path-prefix}}
spec: {priorityLevelConfiguration: {name: exempt}, matchingPrecedence: 100}
"""


@pytest.mark.parametrize(("text", "shown"), [*cases(TEXTS)])
def test_texts(text: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding has its line and its setting; the exit code is that of the start.

    What clusters have in common is said once, and what the top level has a part of is not wrong.
    """
    Path("broken.yaml").write_text("kind: FlowSchema\nmetadata: {name: a}\n")
    Path("objects.yaml").write_text(BY_PREFIX)
    code = check(text.replace("GOOD\n", GOOD).replace("TWO\n", TWO))

    assert shown == shortened([str(code), *capsys.readouterr().out.splitlines()], shown)


def test_settings_in_place_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.yaml").write_text(GOOD)

    assert 2 == main(["check", "f.yaml"])
    assert "try apfproxy check --settings f.yaml" in capsys.readouterr().err
    for text in ("a: 1\n", "[1]\n", "downstream: {}\n---\nb: 1\n", "- [", "kind: x\n"):
        Path("f.yaml").write_text(text)
        assert 1 == main(["check", "f.yaml"])
