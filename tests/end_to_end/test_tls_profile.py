"""TLS towards clients as a scanner sees it: sslyze, against Mozilla's intermediate profile."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sslyze.mozilla_tls_profile.tls_config_checker import (
    SCAN_COMMANDS_NEEDED_BY_MOZILLA_CHECKER,
    MozillaTlsConfiguration,
    ServerNotCompliantWithTlsConfiguration,
    TlsConfigurationEnum,
    check_server_against_tls_configuration,
)
from sslyze.plugins.certificate_info.implementation import CertificateInfoExtraArgument
from sslyze.plugins.scan_commands import ScanCommand
from sslyze.scanner.models import (
    ScanCommandsExtraArguments,
    ServerScanRequest,
    ServerScanResult,
)
from sslyze.scanner.scan_command_attempt import ScanCommandAttemptStatusEnum
from sslyze.scanner.scanner import Scanner
from sslyze.server_setting import ServerNetworkLocation

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    AuthenticationSettings,
    DownstreamSettings,
    DownstreamTlsSettings,
    OverloadSettings,
    Settings,
)
from tests.end_to_end.api_servers import in_thread
from tests.support.certificates import Authority, new_rsa_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.certificates import Key

LIFE = dt.timedelta(days=90)
COMMANDS = SCAN_COMMANDS_NEEDED_BY_MOZILLA_CHECKER | {
    ScanCommand.SESSION_RESUMPTION,
    ScanCommand.TLS_1_3_EARLY_DATA,
}


@contextlib.asynccontextmanager
async def serving(tls: DownstreamTlsSettings, client_ca: str | None) -> AsyncIterator[int]:
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=Address(host="127.0.0.1", port=0),
                tls=tls,
                overload=OverloadSettings(loop_delay_s=None),
            ),
            authentication=AuthenticationSettings(client_ca_file=client_ca),
            admin=None,
        )
    )
    await process.start()
    try:
        yield process.port
    finally:
        await process.stop()


def scanned(port: int, ca_file: Path) -> ServerScanResult:
    scanner = Scanner(per_server_concurrent_connections_limit=3)
    scanner.queue_scans([
        ServerScanRequest(
            server_location=ServerNetworkLocation("localhost", port, ip_address="127.0.0.1"),
            scan_commands=set(COMMANDS),
            scan_commands_extra_arguments=ScanCommandsExtraArguments(
                certificate_info=CertificateInfoExtraArgument(custom_ca_file=ca_file)
            ),
        )
    ])  # fmt: skip
    (result,) = scanner.get_results()
    return result


def findings(result: ServerScanResult) -> dict[str, str]:
    profile = MozillaTlsConfiguration.get(TlsConfigurationEnum.MOZILLA_INTERMEDIATE)
    try:
        check_server_against_tls_configuration(result, profile)
    except ServerNotCompliantWithTlsConfiguration as error:
        return dict(error.issues)
    return {}


# The scanner's own list of public CAs has one with an odd serial number.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@pytest.mark.parametrize(
    ("key", "asks_for_certificates"),
    [
        pytest.param(ec.generate_private_key(ec.SECP256R1()), False, id="P-256"),
        pytest.param(new_rsa_key(2048), True, id="RSA-and-optional-client-certificates"),
    ],
)
def test_mozilla_intermediate_profile(
    key: Key, asks_for_certificates: bool, tmp_path: Path
) -> None:
    """No finding: versions, ciphers, curves, certificate, and none of the named attacks."""
    authority = Authority("scanned")
    now = dt.datetime.now(dt.UTC)
    issued = authority.issue(
        "localhost", usage="server", key=key, not_before=now, not_after=now + LIFE
    )
    certificate_file, key_file = issued.write(tmp_path, "server")
    ca_file = authority.write(tmp_path)
    tls = DownstreamTlsSettings(certificate_file=certificate_file, key_file=key_file)
    with in_thread(serving(tls, ca_file if asks_for_certificates else None)) as port:
        result = scanned(port, Path(ca_file))

    attempts = result.scan_result
    assert attempts is not None, result.connectivity_error_trace
    assert {} == findings(result)
    renegotiation = attempts.session_renegotiation.result
    assert renegotiation is not None
    assert not renegotiation.is_vulnerable_to_client_renegotiation_dos
    early_data = attempts.tls_1_3_early_data
    assert ScanCommandAttemptStatusEnum.COMPLETED == early_data.status
    assert early_data.result is not None
    # What comes before the end of a handshake can be sent again by somebody else.
    assert not early_data.result.supports_early_data
