"""Types of flags."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from apfproxy.cli.parameters import AdminAddress, admin_option, cluster_option, parse_admin
from apfproxy.settings import Address


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
def test_admin(text: str, expected: Address) -> None:
    """An admin listener is named by a URL, by a host and a port, or by a port of this machine."""
    assert expected == parse_admin(text)


@click.command
@admin_option
@cluster_option
def show(admin: AdminAddress, cluster: str | None) -> None:
    """Show what the flags say."""
    files = admin.token_file, admin.ca_file, admin.cert_file, admin.key_file
    click.echo(f"{admin.url} {files} {cluster}")


def test_admin_with_credentials() -> None:
    files = {"X_ADMIN_CA_FILE": "ca", "X_ADMIN_CERT_FILE": "c", "X_ADMIN_KEY_FILE": "k"}
    variables = {"X_ADMIN": "https://a", **files}
    plain = CliRunner().invoke(show, ["--admin-token-file", "t", "--cluster", "x"])
    found = CliRunner().invoke(
        show, ["--admin-ca-file", "other"], env=variables, auto_envvar_prefix="X"
    )

    assert "http://127.0.0.1:8081 ('t', None, None, None) x\n" == plain.output
    assert "https://a:443 (None, 'other', 'c', 'k') None\n" == found.output


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--admin-ca-file", "a"), "go with an --admin of https://"),
        (("--admin", "https://a", "--admin-cert-file", "a"), "go together"),
    ],
)
def test_credentials_of_no_use(flags: tuple[str, ...], problem: str) -> None:
    result = CliRunner().invoke(show, flags)

    assert 2 == result.exit_code
    assert problem in result.output
