"""The addresses that a proxy listens at; end_to_end/test_restart has whole processes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.given_sockets import ADMIN, LISTEN, GivenSockets
from apfproxy.app.own_addresses import OwnAddresses
from apfproxy.base.errors import ListenError
from apfproxy.settings import Address

if TYPE_CHECKING:
    from pathlib import Path

ANY = Address(host="127.0.0.1", port=0)


async def test_opened(tmp_path: Path) -> None:
    """What nobody has given is opened, told to a successor, and removed in the end."""
    path = tmp_path / "admin"
    addresses = OwnAddresses(GivenSockets())
    opened = [
        *await addresses.open(LISTEN, ANY, 5, 0o600),
        *await addresses.open(ADMIN, Address.unix(str(path)), 5, 0o600),
    ]
    addresses.serve()
    port = opened[0].getsockname()[1]
    heritage = addresses.heritage()
    numbers = [each.fileno() for each in opened]
    shown = repr(addresses)
    addresses.give_up()
    for each in opened:
        each.close()

    assert f"<OwnAddresses: 127.0.0.1:{port}, unix:{path}>" == shown
    assert "<OwnAddresses: none>" == repr(OwnAddresses(GivenSockets()))
    assert numbers == heritage.all_descriptors
    assert {LISTEN: "127.0.0.1:0", ADMIN: f"unix:{path}"} == heritage.addresses
    assert not path.exists()


@pytest.mark.parametrize("is_of_systemd", [True, False])
@pytest.mark.parametrize("serves", [True, False])
async def test_given(tmp_path: Path, is_of_systemd: bool, serves: bool) -> None:
    """The file is a successor's to remove once it serves, and never where it is systemd's."""
    path = tmp_path / "listen"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    address = Address.unix(str(path))
    given = GivenSockets(
        sockets={LISTEN: [listener]}, addresses={LISTEN: str(address)}, is_of_systemd=is_of_systemd
    )
    addresses = OwnAddresses(given)
    found = await addresses.open(LISTEN, ANY if is_of_systemd else address, 5, 0o600)
    if serves:
        addresses.serve()
    written = addresses.written(LISTEN)
    addresses.give_up()
    listener.close()

    assert [listener] == found
    assert f"unix:{path}" == written
    assert (is_of_systemd or not serves) == path.exists()


async def test_address_that_cannot_be_listened_on() -> None:
    """The error names the flag."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(ListenError, match="choose another address with --admin"):
            await OwnAddresses(GivenSockets()).open(ADMIN, address, 5, 0o600)
