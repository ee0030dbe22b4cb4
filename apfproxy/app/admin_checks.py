"""Which settings of the admin listener do not go together, or let others read too much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.address import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Address, Settings

READ_TOKEN: Final = "adminReadTokenFile"  # noqa: S105 - a setting
TLS: Final = "adminTls"


def access_problems(settings: Settings) -> Iterator[str]:
    """Which settings of it do not go together."""
    tls = settings.admin_tls
    if (tls.certificate_file is None) != (tls.key_file is None):
        yield f"{TLS}: certificateFile and keyFile go together: give both or neither"
    elif tls.client_ca_file is not None and tls.certificate_file is None:
        yield f"{TLS}.clientCaFile needs {TLS}.certificateFile and {TLS}.keyFile"


def access_warning(settings: Settings, *, is_here: bool | None = None) -> str:
    """That others can read what they should not; "" if they cannot.

    `is_here` says whether only this machine reaches the listener, where that is known better than
    by the setting.
    """
    admin = settings.admin
    if admin is None or (is_only_here(admin) if is_here is None else is_here):
        return ""
    tls = settings.admin_tls
    if settings.admin_read_token_file is None and tls.client_ca_file is None:
        return (
            f"admin: others than this machine reach it ({admin}), and whoever does can read the"
            f" names of users: set {READ_TOKEN} or {TLS}.clientCaFile, or see that a firewall or a"
            " NetworkPolicy keeps others away"
        )
    if tls.certificate_file is None:
        return (
            f"{READ_TOKEN}: others than this machine reach the admin listener ({admin}) without"
            f" TLS, so the token can be read on its way: set {TLS}.certificateFile and"
            f" {TLS}.keyFile"
        )
    return ""


def is_only_here(admin: Address) -> bool:
    """Whether an address can be reached from this machine alone."""
    return bool(admin.path) or is_local(admin.host)
