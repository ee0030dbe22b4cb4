"""Kubeconfigs, and service accounts of pods."""

from __future__ import annotations

import base64
import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from apfproxy.base.errors import OperatorError
from apfproxy.base.tls_files import Pem
from apfproxy.sources import kubeconfig
from apfproxy.sources.kubeconfig import (
    HOST,
    PORT,
    ApiAccess,
    Program,
    Variable,
    access_of,
    in_cluster,
    read_kubeconfig,
)

SECRET = "s3cr3t"  # noqa: S105 - of no one
EXEC = "client.authentication.k8s.io/v1"
WHOLE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "contexts": [
        {"name": "one", "context": {"cluster": "here", "user": "me"}},
        {"name": "two", "context": {"cluster": "there", "user": "other"}},
        {"name": "nobody", "context": {"cluster": "here", "user": ""}},
        {"name": "lost", "context": {"cluster": "gone", "user": "me"}},
        {"name": "stranger", "context": {"cluster": "here", "user": "gone"}},
        {"name": "empty", "context": {}},
    ],
    "clusters": [
        {
            "name": "here",
            "cluster": {
                "server": "https://here.example:6443/",
                "certificate-authority": "pki/ca.crt",
                "tls-server-name": "kubernetes",
            },
        },
        {
            "name": "there",
            "cluster": {
                "server": "https://there.example/k8s/clusters/c-1",
                "certificate-authority": "unused.crt",
                "certificate-authority-data": base64.b64encode(b"CA").decode(),
            },
        },
    ],
    "users": [
        {"name": "me", "user": {"tokenFile": "/run/token"}},
        {
            "name": "other",
            "user": {
                "client-certificate-data": base64.b64encode(b"CERT").decode(),
                "client-key": "key.pem",
                "username": "ann",
                "password": SECRET,
                "token": SECRET,
            },
        },
    ],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()


def of(whole: object, context: str | None = None) -> ApiAccess:
    data = whole if isinstance(whole, bytes) else yaml.safe_dump(whole).encode()
    Path("dir/config").write_bytes(data)
    return read_kubeconfig("dir/config", context)


HERE = ApiAccess(
    server="https://here.example:6443",
    authorities=Pem(path="dir/pki/ca.crt"),
    server_name="kubernetes",
)
THERE = ApiAccess(
    server="https://there.example/k8s/clusters/c-1",
    authorities=Pem(data=b"CA"),
    own=(Pem(data=b"CERT"), Pem(path="dir/key.pem")),
    token=SECRET,
    username="ann",
    password=SECRET,
)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (None, dataclasses.replace(HERE, token_file="/run/token")),  # noqa: S106 - a path
        ("nobody", HERE),
        ("two", THERE),
    ],
)
def test_contexts(context: str | None, expected: ApiAccess) -> None:
    found = of(WHOLE, context)

    assert expected == found
    assert SECRET not in repr(found)


def changed(place: str, number: int, fields: dict[str, Any]) -> dict[str, Any]:
    whole = copy.deepcopy(WHOLE)
    whole[place][number][place.removesuffix("s")] |= fields
    return whole


PROBLEMS = """
one {users: []} > users: there is none named 'me', which the context names; there are: none
- {current-context: ""} > choose a context (one, two,
three {} > there is none named 'three', choose another
stranger {} > users: there is none named 'gone'
empty {} > contexts[5].context.cluster: missing
- {clusters: {}} > Expected `array
b {contexts: [{name: "a\\e[2J"}]} > there are: a\\x1b[2J
- users 0 {exec: {command: aws}} > users[0].user.exec.apiVersion: want client.authentication.k8s
- users 0 {exec: {command: a, apiVersion: EXEC, args: [1]}} > user.exec.args[0]: Expected `str`, got
- users 0 {exec: {apiVersion: EXEC}} > users[0].user.exec.command: missing
- users 0 {exec: {command: a, apiVersion: EXEC, interactiveMode: Always}} > needs a terminal
two users 1 {exec: {command: a, apiVersion: EXEC}} > makes no sense with a client-certificate
- users 0 {auth-provider: {name: gcp}} > users[0].user.auth-provider: is not done
- users 0 {as-groups: [a]} > impersonation is not done
- users 0 {tokenFile: "a\\0b"} > users[0].user: has a character that no text has
two users 1 {client-key: ""} > user.client-key: missing
two users 1 {client-certificate-data: ""} > user.client-certificate: missing
two users 1 {token: "s3cr3t b"} > is no bearer token
- clusters 0 {proxy-url: "http://p"} > proxy-url: not
- clusters 0 {insecure-skip-tls-verify: true} > remove one
two clusters 1 {certificate-authority-data: "?"} > no base64
- clusters 0 {server: ""} > clusters[0].cluster.server: missing
- clusters 0 {server: "https://h:x"} > no URL
- clusters 0 {server: "https://h /"} > no URL
- clusters 0 {server: "ftp://h"} > want https://HOST
- clusters 0 {server: "https://a:b@h"} > user or password
- clusters 0 {server: "https://h?a"} > has a query
"""
"""A context or -; an entry and its number, or none; what is set there; what is said."""


@pytest.mark.parametrize("line", PROBLEMS.replace("EXEC", EXEC).strip().splitlines())
def test_problems(line: str) -> None:
    """Each problem has its place and what to do, and never a secret."""
    given, _, expected = line.partition(" > ")
    context, _, rest = given.partition(" ")
    place, _, content = rest.partition("{")
    fields = yaml.safe_load("{" + content)
    whole = WHOLE | fields
    if place:
        name, number = place.split()
        whole = changed(name, int(number), fields)
    with pytest.raises(OperatorError) as caught:
        of(whole, None if context == "-" else context)

    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: [s3cr3t", "config:2: is no YAML"),
        (b"[]", "dir/config: Expected `object`, got `array`"),
        (b"{}", "it has none at all"),
    ],
)
def test_no_kubeconfig(data: bytes, expected: str) -> None:
    with pytest.raises(OperatorError) as caught:
        of(data)

    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


def test_unverified() -> None:
    fields = {"insecure-skip-tls-verify": True, "certificate-authority": ""}

    assert of(changed("clusters", 0, fields)).is_unverified


def test_program() -> None:
    program = {
        "apiVersion": EXEC,
        "command": "./bin/login",
        "args": ["--quiet", SECRET],
        "env": [{"name": "PROFILE", "value": SECRET}],
        "installHint": "get\n it\n",
        "provideClusterInfo": True,
    }
    whole = changed("users", 0, {"exec": program})
    whole["contexts"][0]["context"]["cluster"] = "there"
    found = of(whole)
    expected = Program(
        api_version=EXEC,
        command=str(Path("dir/bin/login").absolute()),
        args=("--quiet", SECRET),
        env=(Variable("PROFILE", SECRET),),
        install_hint="get\n it\n",
        provide_cluster_info=True,
    )
    told = {
        "server": "https://there.example/k8s/clusters/c-1",
        "tls-server-name": "",
        "insecure-skip-tls-verify": False,
        "certificate-authority-data": "Q0E=",
    }

    assert (expected, told) == (found.program, found.told)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_in_cluster(host: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token")
    environment = {HOST: host, PORT: "443"}

    assert in_cluster(environment, str(tmp_path)) == ApiAccess(
        server=expected,
        authorities=Pem(path=str(tmp_path / "ca.crt")),
        token_file=str(tmp_path / "token"),
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "not in a pod of Kubernetes"),
        (dict.fromkeys((HOST, PORT), "1"), "automountServiceAccountToken"),
    ],
)
def test_not_in_cluster(environment: dict[str, str], expected: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=expected) as caught:
        in_cluster(environment, str(tmp_path))

    assert "--kubeconfig FILE" in str(caught.value)


@pytest.mark.parametrize(
    ("server", "is_unverified", "flaw"),
    [
        ("http://far.example", False, "not https"),
        ("https://far.example", True, "insecure-skip-tls-verify"),
        ("http://127.0.0.1:8001", False, ""),
        ("https://far.example", False, ""),
    ],
)
def test_warnings(
    server: str,
    flaw: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    is_unverified: bool,
) -> None:
    access = ApiAccess(server=server, is_unverified=is_unverified)
    monkeypatch.setattr(kubeconfig, "in_cluster", lambda _, **__: access)
    text = "anyone on the way can read the credentials and decide who gets seats"

    assert access == access_of(None, None, "who gets seats", "x")
    assert ([f"{server}: {flaw}: {text}"] if flaw else []) == caplog.messages
