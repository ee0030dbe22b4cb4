"""Files of TLS, lifetimes of tokens, and JSON from strangers."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.base import tls_files
from apfproxy.base.errors import OperatorError
from apfproxy.base.strict_json import StrictJsonError, read_object
from apfproxy.base.tls_files import (
    Expiries,
    Lifetime,
    TlsFile,
    lifetime,
)
from tests.proxy.test_tls import SERVER, SERVERS, USERS, folder, server_tls
from tests.support.certificates import DAY, new_rsa_key, to_pem
from tests.support.credentials import unsigned

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["folder"]

NOW = dt.datetime.now(dt.UTC)
CERTIFICATE = ("server.crt", "downstream.tls.certificateFile")
KEY = ("server.key", "downstream.tls.keyFile")
CAS = ("users.crt", "cas")


def encrypted_key() -> bytes:
    return to_pem(SERVER.key, b"secret")


@pytest.mark.parametrize(
    ("name", "setting", "content", "problem"),
    [
        pytest.param(*CERTIFICATE, None, "cannot be read: No such file", id="no-certificate"),
        pytest.param(*CERTIFICATE, b"", "has no certificate in PEM form", id="empty-certificate"),
        pytest.param(*CERTIFICATE, b"secret", "has no certificate in PEM form", id="nonsense"),
        pytest.param(
            *CERTIFICATE, SERVER.cert_pem[:200], "has no certificate in PEM form", id="half-there"
        ),
        pytest.param(*KEY, None, "cannot be read: No such file", id="no-key"),
        pytest.param(*KEY, b"secret", "has no private key in PEM form", id="no-pem-key"),
        pytest.param(*KEY, encrypted_key(), "is encrypted", id="encrypted"),
        pytest.param(*KEY, USERS.issue("u").key_pem, "is not the key of", id="key-of-another"),
        pytest.param(*KEY, to_pem(new_rsa_key()), "is not the key of", id="key-of-another-kind"),
        pytest.param(*CAS, b"secret", "has no certificate in PEM form", id="client-ca"),
    ],
)
def test_files_that_are_no_good(
    folder: Path, name: str, setting: str, content: bytes | None, problem: str
) -> None:
    server = server_tls(folder, client_ca="users.crt")
    context = server.context
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(OperatorError) as caught:
        server.load()

    assert str(caught.value).startswith(f"{setting}: {folder / name}: {problem}")
    assert "secret" not in str(caught.value)
    assert context is server.context


@pytest.mark.parametrize(
    ("since", "until", "warning"),
    [
        pytest.param(-2, -1, "the certificate expired at ", id="expired"),
        pytest.param(1, 2, "the certificate is not valid before ", id="not-yet"),
        pytest.param(-300, 1, "the certificate expires at ", id="soon"),
        pytest.param(-300, 60, "", id="good"),
        pytest.param(-0.5, 0.5, "", id="short-lived"),
    ],
)
def test_certificate_out_of_its_time_is_loaded_with_a_warning(
    folder: Path, since: float, until: float, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    SERVERS.issue(
        "s", usage="server", not_before=NOW + since * DAY, not_after=NOW + until * DAY
    ).write(folder, "server")
    with caplog.at_level(logging.WARNING, logger=tls_files.__name__):
        server_tls(folder)

    assert [warning] * bool(warning) == [
        message.removeprefix(f"{CERTIFICATE[1]}: {folder / 'server.crt'}: ")[: len(warning)]
        for message in caplog.messages
    ]


@pytest.mark.parametrize(
    ("unix_s", "is_chain", "expected"),
    [
        pytest.param((30.0, 20.0), True, 20.0, id="chain"),
        pytest.param((30.0, 5.0), True, 5.0, id="chain-that-is-broken"),
        pytest.param((30.0, 20.0), False, 20.0, id="cas"),
        pytest.param((30.0, 5.0), False, 30.0, id="cas-of-which-one-was-replaced"),
        pytest.param((3.0, 5.0), False, 5.0, id="cas-that-have-all-expired"),
    ],
)
def test_next_expiry_of_chains_and_cas(
    unix_s: tuple[float, ...], is_chain: bool, expected: float
) -> None:
    expiries = Expiries(TlsFile("cas", "a"), unix_s, unix_s, is_chain)

    assert expected == expiries.next_unix_s(10.0)


@pytest.mark.parametrize(
    ("until_s", "is_chain", "expected"),
    [
        pytest.param((30.0, 40.0), True, None, id="chain"),
        pytest.param((30.0, 14.0), True, "expires at 1970-01-01T00:00:14+00:00", id="soon"),
        pytest.param((14.0, 9.0), True, "expired at 1970-01-01T00:00:09+00:00", id="broken"),
        pytest.param((30.0, 9.0), False, None, id="cas-of-which-one-was-replaced"),
        pytest.param((14.0, 9.0), False, "expires at 1970-01-01T00:00:14+00:00", id="last-ca"),
        pytest.param((7.0, 9.0), False, "expired at 1970-01-01T00:00:09+00:00", id="no-ca"),
    ],
)
def test_problem_is_said_of_what_has_expired_or_is_to_be_renewed(
    until_s: tuple[float, ...], is_chain: bool, expected: str | None
) -> None:
    renew_s = tuple(each - 5 for each in until_s)
    found = Expiries(TlsFile("cas", "a"), until_s, renew_s, is_chain).problem(10.0)

    assert (expected and f"cas: a: the certificate {expected}") == found


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param({"iat": 100, "exp": 3700}, Lifetime(100, 3700), id="issued"),
        pytest.param({"nbf": 90, "exp": 3700}, Lifetime(90, 3700), id="not-before"),
        pytest.param({"exp": 3700.5}, Lifetime(0, 3700.5), id="expires-only"),
        pytest.param({"iat": 5000, "exp": 3700}, Lifetime(3700, 3700), id="issued-too-late"),
        pytest.param({"iat": "100", "exp": 3700}, Lifetime(0, 3700), id="issued-as-text"),
        pytest.param({"iat": 100}, None, id="no-end"),
        pytest.param({"exp": True}, None, id="bool"),
        pytest.param({"exp": "3700"}, None, id="text"),
        pytest.param({"exp": 1e300}, None, id="far"),
        pytest.param({"exp": -1}, None, id="before-1970"),
        pytest.param([3700], None, id="no-object"),
    ],
)
def test_lifetime_of_a_token_is_from_its_issue_to_its_end(
    claims: object, expected: Lifetime | None
) -> None:
    assert expected == lifetime(unsigned(claims))


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"opaque", b"a.b", b"a.b.c", b"e30.e30.", b"e30.!!.", b"e30.e30.a.b"),
        b"e30.eyJleHAiOiAzNzAwLCAiZXhwIjogMX0.",
    ],
)
def test_other_tokens_have_no_lifetime(text: bytes) -> None:
    assert lifetime(text) is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b'{"secret":1,"secret":2}', "a name twice"),
        (b'{"a":{"b":1,"\\u0062":2}}', "a name twice"),
        (b'{"a":NaN}', "a number that JSON"),
        (b'{"a":-Infinity}', "a number that JSON"),
        (b'{"a":"secret\xff"}', "not UTF-8"),
        (b'{"a":"secret"} x', "not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a":' + b"[" * 200_000, "nested too deep"),
    ],
    ids=lambda each: repr(each)[:25],
)
def test_refuses_json_without_a_meaning_or_with_two(data: bytes, problem: str) -> None:
    with pytest.raises(StrictJsonError, match=problem) as error:
        read_object(data)

    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@given(data=st.binary(max_size=100) | st.text('{}[]",:a1\\u', max_size=40).map(str.encode))
@example(data='{"a":[1,2.5,null,{"b":"ä"}]}'.encode())
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    with contextlib.suppress(StrictJsonError):
        found = read_object(data)
        assert json.loads(data) == found
