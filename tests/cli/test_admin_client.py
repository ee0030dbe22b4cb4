"""Asking the admin listener of a running proxy."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from http.client import HTTPResponse
from unittest.mock import Mock

import pytest

from apfproxy.cli import admin_client
from apfproxy.cli.admin_client import TIMEOUT_S, fetch, tls_remedy, whole
from apfproxy.cli.errors import CommandError
from apfproxy.cli.parameters import AdminAddress, parse_admin
from apfproxy.settings import Address
from tests.cli.fake_admin import listening

OF_A = "/clusters/a/debug/limits"


@pytest.mark.parametrize(
    ("target", "status", "text", "message"),
    [
        ("/a", 404, "x", "answers 404: it has no such page; is that the admin"),
        ("/a", 400, "no\x1b[1m target\n", "answers 400: no\\x1b[1m target"),
        ("/a", 401, "", "401: it needs other credentials; give --admin-token-file, or"),
        ("/a", 200, "<html>", "JSON; is that an admin listener?"),
        (OF_A, 404, "cluster: there is none named 'a'; there is b\n", ": cluster: there is none"),
        (OF_A, 404, "Not Found", "has no page of a cluster; leave out --cluster if it has none"),
    ],
)
async def test_errors(target: str, status: int, text: str, message: str) -> None:
    """An answer that is none is told in one line, with nothing that could move a cursor."""
    async with listening(status, text.encode(), target) as address:
        with pytest.raises(CommandError) as caught:
            await asyncio.to_thread(fetch, address, target)

    assert message in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:8081", Address(host="127.0.0.1", port=8081)),
        ("https://[::1]:8443/", Address(host="::1", port=8443, is_tls=True)),
        ("http://proxy", Address(host="proxy", port=80)),
        ("proxy:8081", Address(host="proxy", port=8081)),
        ("[::1]:8081", Address(host="::1", port=8081)),
        (":8081", Address(host="127.0.0.1", port=8081)),
        ("unix:/run/admin.sock", Address.unix("/run/admin.sock")),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    assert expected == parse_admin(text)


@pytest.mark.parametrize(
    ("error", "address", "remedy"),
    [
        (ssl.SSLCertVerificationError(), "https://a:1", "give --admin-ca-file, the CA that"),
        (ssl.SSLError(), "https://a:1", "speaks no TLS, give --admin http://a:1"),
        (ConnectionResetError(), "http://a:1", "speaks TLS, give --admin https://a:1"),
        (ConnectionResetError(), "https://a:1", ""),
        (ConnectionResetError(), "unix:/a", ""),
        (ConnectionRefusedError(), "http://a:1", ""),
    ],
)
def test_remedy_of_tls(error: Exception, address: str, remedy: str) -> None:
    said = tls_remedy(parse_admin(address), error)

    assert remedy in said
    assert bool(remedy) == bool(said)


def test_bodies_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "LARGEST_ANSWER_BYTES", 4)
    response = Mock(spec=HTTPResponse, **{"read1.return_value": b"123"})
    assert b"123123" == whole(response)
    monkeypatch.undo()
    seconds = iter(range(1000))
    response = Mock(spec=HTTPResponse, **{"read1.return_value": b" "})
    with pytest.raises(TimeoutError, match="its answer is not whole after 10 s"):
        whole(response, lambda: next(seconds))
    assert TIMEOUT_S + 1 == response.read1.call_count


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
async def test_no_listener(is_tls: bool) -> None:
    async with listening(200, b"", "/") as gone:
        address = replace(gone, is_tls=is_tls)
    with pytest.raises(CommandError) as caught:
        await asyncio.to_thread(fetch, address, "/")

    assert caught.value.message.startswith(f"no proxy answers at {address.url}: ")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("token_file", "--admin-token-file: the token file /nowhere cannot be read"),
        ("ca_file", "--admin-ca-file: No such file"),
        ("cert_file", "--admin-cert-file: No such file"),
    ],
)
def test_files_of_no_use(file: str, problem: str) -> None:
    address = AdminAddress(host="127.0.0.1", port=9, is_tls=True, **{file: "/nowhere"})
    with pytest.raises(CommandError, match=problem):
        fetch(address, "/a")
