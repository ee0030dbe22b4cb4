"""Credentials of a Kubernetes API, kept as their files are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.base.tls_files import Pem
from apfproxy.sources import api_credentials
from apfproxy.sources.api_credentials import ApiCredentials, Credential
from apfproxy.sources.kubeconfig import ApiAccess, ExecCommand
from loadtest.certificates import Authority
from tests.authn.signing import unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "abc"  # noqa: S105 - of nobody
SERVER = "https://here.example"
OTHER_KEY = Authority("other").issue("me").key_pem


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(ApiAccess(server="http://h"), None, id="nobody"),
        pytest.param(ApiAccess(server="http://h", token=TOKEN), f"Bearer {TOKEN}", id="token"),
        pytest.param(
            ApiAccess(server="http://h", username="ann", password=TOKEN[0]),
            "Basic YW5uOmE=",
            id="password",
        ),
    ],
)
async def test_authorization(access: ApiAccess, expected: str | None) -> None:
    """Who asks is said by a token, or by a name and password."""
    credentials = ApiCredentials(access)

    assert expected == await credentials.refresh()
    assert credentials.context is None


async def test_lifetime_of_the_token(tmp_path: Path) -> None:
    """It is known of the token that was read last, with its file; of one in a kubeconfig, too."""
    path = tmp_path / "token"
    found = []
    for issued in (100, 200):
        path.write_bytes(unsigned({"iat": issued, "exp": 3700}))
        credentials = ApiCredentials(ApiAccess(server="http://h", token_file=str(path)))
        await credentials.refresh()
        found.append(credentials.own_token)
    inside = ApiCredentials(
        ApiAccess(server="http://h", token=unsigned({"iat": 1, "exp": 2}).decode())
    )

    assert [(str(path), (100, 3700)), (str(path), (200, 3700))] == found
    assert ("", (1, 2)) == inside.own_token
    assert ("", None) == ApiCredentials(ApiAccess(server="http://h")).own_token


async def test_token_file_is_read_again(tmp_path: Path) -> None:
    """A token that is replaced counts from the next request on; one that is gone fails it."""
    path = tmp_path / "token"
    path.write_text("first\n")
    credentials = ApiCredentials(
        ApiAccess(server="http://h", token_file=str(path), token="unused")  # noqa: S106 - of nobody
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
            certificate=Pem(path=certificate),
            key=Pem(path=key),
            server_name="kubernetes",
        )
    )
    contexts = [credentials.context]
    problems = [credentials.problem]
    key_file = Path(key)
    for content in (OTHER_KEY, OTHER_KEY, authority.issue("me").key_pem):
        key_file.write_bytes(content)  # noqa: ASYNC240 - in a moment
        await credentials.refresh()
        contexts.append(credentials.context)
        problems.append(credentials.problem)
    authority.issue("me").write(tmp_path, "me")
    await credentials.refresh()

    assert [contexts[0]] * 4 == contexts
    assert credentials.context is not contexts[0]
    assert [False, True, True, True] == [problem is not None for problem in problems]
    assert credentials.problem is None
    assert 1 == caplog.text.count("changed, but not taken")
    assert "kubernetes" == credentials.server_name


def test_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates, with comments, and keys may be in the kubeconfig itself; they go to no disk."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    authority = Authority("ca")
    issued = authority.issue("me")
    credentials = ApiCredentials(
        ApiAccess(
            server=SERVER,
            authorities=Pem(data="# Autorité\n".encode() + authority.pem),
            certificate=Pem(data=issued.cert_pem),
            key=Pem(data=issued.key_pem),
        )
    )

    assert credentials.context is not None
    assert 1 == len(credentials.context.get_ca_certs())


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(
            lambda _: {"authorities": Pem(path="/nowhere")}, "/nowhere: cannot be read", id="no-ca"
        ),
        pytest.param(
            lambda _: {"authorities": Pem(data=b"x")},
            "the data in the kubeconfig: is no PEM of certificates",
            id="ca-is-no-pem",
        ),
        pytest.param(
            lambda ca: {
                "certificate": Pem(data=ca.issue("me").cert_pem),
                "key": Pem(data=OTHER_KEY),
            },
            "are no certificate and its key",
            id="key-of-another",
        ),
        pytest.param(
            lambda ca: {
                "certificate": Pem(path="/nowhere"),
                "key": Pem(data=ca.issue("me").key_pem),
            },
            "/nowhere: cannot be read",
            id="no-certificate",
        ),
        pytest.param(
            lambda _: {"certificate": Pem(path="/nowhere"), "key": Pem(path="/nowhere")},
            "/nowhere: cannot be read: No such file",
            id="no-files",
        ),
        pytest.param(
            lambda _: {"token_file": "/nowhere"}, "token file /nowhere cannot be read", id="token"
        ),
    ],
)
def test_problems(access: Callable[[Authority], dict[str, object]], expected: str) -> None:
    """What cannot be used at the start ends it, and names the file."""
    fields: dict[str, object] = {"server": SERVER, **access(Authority("ca"))}

    with pytest.raises(OperatorError, match=expected):
        ApiCredentials(ApiAccess(**fields))  # type: ignore[arg-type]


async def test_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program gives the token, or the certificate, and others after a refusal."""
    authority = Authority("ca")
    issued = [authority.issue("me") for _ in range(2)]
    given = [
        Credential(token=TOKEN),
        *(
            Credential(certificate=each.cert_pem.decode(), key=each.key_pem.decode())
            for each in issued
        ),
    ]

    given.append(given[0])
    runs = iter(given)

    async def run(_: ExecCommand) -> bytes:
        return b""

    monkeypatch.setattr(api_credentials, "run", run)
    monkeypatch.setattr(api_credentials, "read_credential", lambda *_: next(runs))
    credentials = ApiCredentials(ApiAccess(server=SERVER, program=ExecCommand(path="x")))
    shown, contexts = [], []
    for _ in given:
        for _ in range(2):
            shown.append(await credentials.refresh())
            contexts.append(credentials.context)
        credentials.refused()

    token = f"Bearer {TOKEN}"
    assert [token] * 2 + [None] * 4 + [token] * 2 == shown
    assert [True] * 4 == [contexts[at] is contexts[at + 1] for at in (0, 2, 4, 6)]
    assert 4 == len({id(context) for context in contexts})
    assert credentials.problem is None
