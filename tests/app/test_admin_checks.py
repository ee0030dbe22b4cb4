"""Which settings of the admin listener do not go together, or let others read too much."""

from __future__ import annotations

import pytest

from apfproxy.app.admin_checks import access_warning
from apfproxy.app.settings_checks import ConflictError, check_combination
from apfproxy.settings import Address, AdminTlsSettings, Settings, UpstreamSettings
from tests.app.test_identities import HTTP

CERTIFICATE = {"certificate_file": "a.crt", "key_file": "a.key"}
OUTSIDE, HERE = Address(host="0.0.0.0", port=1), Address(host="localhost", port=1)  # noqa: S104
NAMES, IN_PLAIN_TEXT = "names of users", "can be read on its way"


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        pytest.param({"key_file": "a"}, "certificateFile and keyFile go together", id="key"),
        pytest.param({"certificate_file": "a"}, "give both or neither", id="certificate"),
        pytest.param({"client_ca_file": "a"}, "clientCaFile needs adminTls.certificate", id="ca"),
        pytest.param(CERTIFICATE, "", id="both"),
        pytest.param({**CERTIFICATE, "client_ca_file": "a"}, "", id="all"),
    ],
)
def test_problems(tls: dict[str, str], problem: str) -> None:
    """A certificate has a key, and nobody shows one where there is no TLS."""
    settings = Settings(upstream=UpstreamSettings(url=HTTP), admin_tls=AdminTlsSettings(**tls))
    if not problem:
        check_combination(settings)
        return
    with pytest.raises(ConflictError, match=problem):
        check_combination(settings)


@pytest.mark.parametrize(
    ("admin", "tls", "token", "is_here", "warning"),
    [
        pytest.param(OUTSIDE, {}, None, None, NAMES, id="open"),
        pytest.param(OUTSIDE, CERTIFICATE, None, None, NAMES, id="open-over-tls"),
        pytest.param(OUTSIDE, {}, "t", None, IN_PLAIN_TEXT, id="token-in-plain-text"),
        pytest.param(OUTSIDE, CERTIFICATE, "t", None, "", id="token"),
        pytest.param(OUTSIDE, {**CERTIFICATE, "client_ca_file": "c"}, None, None, "", id="ca"),
        pytest.param(HERE, {}, None, None, "", id="loopback"),
        pytest.param(Address.unix("/a"), {}, None, None, "", id="unix"),
        pytest.param(None, {}, None, None, "", id="none"),
        pytest.param(HERE, {}, None, False, NAMES, id="given-socket-outside"),
        pytest.param(OUTSIDE, {}, None, True, "", id="given-socket-here"),
    ],
)
def test_warnings(
    admin: Address | None,
    tls: dict[str, str],
    token: str | None,
    is_here: bool | None,
    warning: str,
) -> None:
    """Others who reach it need credentials, and have them over TLS."""
    settings = Settings(admin=admin, admin_tls=AdminTlsSettings(**tls), admin_read_token_file=token)
    found = access_warning(settings, is_here=is_here)

    assert bool(warning) == bool(found)
    assert warning in found
