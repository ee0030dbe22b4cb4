"""Credentials of a Kubernetes API, kept as their files are."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.base.tls_files import Pem
from apfproxy.sources import api_credentials
from apfproxy.sources.api_credentials import ApiCredentials, Credential, read_credential, run
from apfproxy.sources.kubeconfig import ApiAccess, Program, Variable
from apfproxy.sources.token_file import MAX_BYTES, read_token, tokens_in, usable_token
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable


TOKEN = "abc"  # noqa: S105 - of no one
SECRET = "s3cr3t"  # noqa: S105 - of no one
VERSION = "client.authentication.k8s.io/v1"
SERVER = "https://here.example"
ME = Authority("ca").issue("me")
OTHER_KEY = Authority("other").issue("me").key_pem


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"token": TOKEN}, f"Bearer {TOKEN}"),
        ({"username": "ann", "password": "a"}, "Basic YW5uOmE="),
    ],
)
async def test_authorization(fields: dict[str, Any], expected: str | None) -> None:
    credentials = ApiCredentials(ApiAccess(server="http://h", **fields))

    assert expected == await credentials.refresh()
    assert credentials.context is None


async def test_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    credentials = ApiCredentials(
        ApiAccess(server="http://h", token_file=str(path), token="unused")  # noqa: S106 - of no one
    )
    shown = [await credentials.refresh()]
    path.write_text("second")
    shown.append(await credentials.refresh())
    path.unlink()

    assert ["Bearer first", "Bearer second"] == shown
    with pytest.raises(OperatorError, match="cannot be read"):
        await credentials.refresh()
    assert "second" not in repr(credentials)


async def test_certificates_are_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New certificates are in use for the next request; until all are well, the old ones are."""
    authority = Authority("ca")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    certificate, key = authority.issue("me").write(tmp_path, "me")
    credentials = ApiCredentials(
        ApiAccess(
            server=SERVER,
            authorities=Pem(path=str(tmp_path / "ca.crt")),
            own=(Pem(path=certificate), Pem(path=key)),
            server_name="kubernetes",
        )
    )
    contexts = [credentials.context]
    problems = [credentials.problem]
    key_file = Path(key)
    for content in (OTHER_KEY, OTHER_KEY):
        key_file.write_bytes(content)  # noqa: ASYNC240 - in a moment
        await credentials.refresh()
        contexts.append(credentials.context)
        problems.append(credentials.problem)
    authority.issue("me").write(tmp_path, "me")
    await credentials.refresh()

    assert [contexts[0]] * 3 == contexts
    assert credentials.context is not contexts[0]
    assert [False, True, True] == [problem is not None for problem in problems]
    assert credentials.problem is None
    assert 1 == caplog.text.count("changed, but not taken")
    assert "kubernetes" == credentials.server_name


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"own": (Pem(data=ME.cert_pem), Pem(data=OTHER_KEY))}, "kubeconfig: are no certificate"),
        ({"token_file": "/nowhere"}, "token file /nowhere cannot be read"),
    ],
)
def test_problems(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(OperatorError, match=expected):
        ApiCredentials(ApiAccess(server=SERVER, **fields))


def said(**status: object) -> bytes:
    return json.dumps({"kind": "ExecCredential", "apiVersion": VERSION, "status": status}).encode()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def make(lines: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o700)
        return str(path)

    return make


async def test_is_told(program: Callable[[str], str]) -> None:
    """The program gets its arguments, its variables, and what there is to know; no terminal."""
    path = program('cat; printf "%s %s %s" "$1" "$OWN" "$KUBERNETES_EXEC_INFO"')
    command = Program(api_version=VERSION, command=path, args=("a b",), env=(Variable("OWN", "c"),))
    expected = {
        "kind": "ExecCredential",
        "apiVersion": VERSION,
        "spec": {"interactive": False, "cluster": {"server": "s"}},
    }

    assert f"a b c {json.dumps(expected)}" == (await run(command, {"server": "s"})).decode()
    assert "'c'" not in repr(command)
    assert SECRET not in repr(Credential(token=SECRET))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "echo first >&2; echo second >&2; exit 3",
            "ended with 3: first second; hint",
            id="fails",
        ),
        pytest.param("printf '\\33[2J' >&2; exit 3", r"3: \\x1b\[2J; hint", id="escapes"),
        pytest.param("exec sleep 60", "did not end within 0.1 s", id="hangs"),
        pytest.param("setsid sleep 1", "did not end within 0.1 s", id="lets-others-hang"),
        pytest.param("exec yes", "says more than 1048576 bytes", id="says-too-much"),
    ],
)
async def test_fails(
    lines: str, expected: str, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in lines:
        monkeypatch.setattr(api_credentials, "WITHIN_S", 0.1)

    with pytest.raises(OperatorError, match=expected):
        await run(Program(api_version=VERSION, command=program(lines), install_hint="hint"), None)


async def test_ends_with_the_wait_for_it(program: Callable[[str], str], tmp_path: Path) -> None:
    """A cancelled wait ends the program and its children at once."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = program(f"exec 3>{fifo}; echo begun >&3; sleep 60 & wait")
    running = asyncio.ensure_future(run(Program(api_version=VERSION, command=command), None))
    file = await asyncio.to_thread(fifo.open)
    with file:
        said = [await asyncio.to_thread(file.readline)]
        running.cancel()
        await asyncio.wait((running,))
        said.append(await asyncio.to_thread(file.read))  # comes to its end with the last writer

    assert ["begun\n", ""] == said
    assert running.cancelled()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"s3cr3t", "is no ExecCredential"),
        (said(token=SECRET).replace(b"/v1", b"/v1alpha1"), "is not of client"),
        (said(), "gave neither"),
        (said().replace(b"status", b"other"), "gave neither"),
        (said(token=SECRET, clientKeyData="k"), "gave neither"),
        (said(token=SECRET, expirationTimestamp="soon"), "is no time"),
        (said(token=f"{SECRET}\n"), "is no bearer token"),
    ],
)
def test_no_credential(data: bytes, expected: str) -> None:
    with pytest.raises(OperatorError, match=expected) as caught:
        read_credential(data, Program(api_version=VERSION, command="x"))

    assert SECRET not in str(caught.value)


async def test_is_run_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run at first, shortly before its credential expires, and after a refusal.

    It may give a token, then a certificate, then another, then a token again.
    """
    now_s, runs = 0.0, 0
    pairs = [Authority("ca").issue("me") for _ in range(2)]
    issued = [(each.cert_pem.decode(), each.key_pem.decode()) for each in pairs]
    soon = "1970-01-01T00:01:00Z"
    given: list[dict[str, str]] = [
        {"token": "t1", "expirationTimestamp": soon},
        *({"clientCertificateData": cert, "clientKeyData": key} for cert, key in issued),
        {"token": "t2"},
    ]

    async def run_it(*_: object) -> bytes:
        nonlocal runs
        runs += 1
        return said(**given[runs - 1])

    monkeypatch.setattr(api_credentials, "run", run_it)
    access = ApiAccess(server=SERVER, program=Program(api_version=VERSION, command="x"))
    credentials = ApiCredentials(access, lambda: now_s)
    shown, contexts = [], []
    for _ in given:
        for _ in range(2):
            shown.append(await credentials.refresh())
            contexts.append(credentials.context)
        if runs == 1:
            now_s = 51.0
        else:
            credentials.refused()

    assert ["Bearer t1"] * 2 + [None] * 4 + ["Bearer t2"] * 2 == shown
    assert [True] * 4 == [contexts[at] is contexts[at + 1] for at in (0, 2, 4, 6)]
    assert 4 == len({id(context) for context in contexts})
    assert credentials.problem is None


async def test_unusable_certificate_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails the request, and the program is run again for the next one."""
    pair = {"clientCertificateData": ME.cert_pem.decode(), "clientKeyData": OTHER_KEY.decode()}
    outputs = [said(**pair), said(token=TOKEN)]

    async def run_it(*_: object) -> bytes:
        return outputs.pop(0)

    monkeypatch.setattr(api_credentials, "run", run_it)
    access = ApiAccess(server=SERVER, program=Program(api_version=VERSION, command="x"))
    credentials = ApiCredentials(access)
    with pytest.raises(OperatorError, match="are no certificate and its key"):
        await credentials.refresh()

    assert f"Bearer {TOKEN}" == await credentials.refresh()


LONG_TOKEN = b"0123456789abcdef"


def test_token_of_now(tmp_path: Path) -> None:
    """The token is what the file has whenever it is asked for, without white space around it."""
    path = tmp_path / "token"
    path.write_bytes(LONG_TOKEN + b"\n")
    token = usable_token(str(path))
    assert token is not None
    path.write_bytes(b" " + LONG_TOKEN[::-1])

    assert LONG_TOKEN[::-1] == token()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "is empty"),
        (b"short", "shorter than 16 characters"),
        (b"two tokens of some length", "something else than one token"),
        (b"0123456789abcdef\0", "something else than one token"),
        (b"x" * (MAX_BYTES + 1), "larger than 16384 bytes"),
    ],
)
def test_no_token(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(data)

    with pytest.raises(OperatorError, match=message) as caught:
        read_token(str(path))
    assert str(path) in str(caught.value)
    assert "tokens of some" not in str(caught.value)


def test_several_tokens(tmp_path: Path) -> None:
    """Each has a line, others are comments or empty; if one of them is none, none counts."""
    path = tmp_path / "tokens"
    path.write_bytes(b"# mine\n" + LONG_TOKEN + b"\r\n\n  # old\n " + LONG_TOKEN[::-1])
    found = tokens_in(str(path))
    path.write_bytes(LONG_TOKEN + b"\nshort\n")
    with pytest.raises(OperatorError, match="shorter than 16 characters"):
        tokens_in(str(path))

    assert (LONG_TOKEN, LONG_TOKEN[::-1]) == found
