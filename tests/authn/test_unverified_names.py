"""What tells anonymous clients apart."""

from __future__ import annotations

import hashlib
import logging
import sys
from base64 import b64encode

import pytest

from apfproxy.authn import unverified_names
from apfproxy.authn.unverified_names import (
    LEASE_NS,
    MAX_NAME_BYTES,
    MAX_PLACES,
    NamesOfAddresses,
    UnverifiedError,
    UnverifiedRules,
    alias_of_address,
)
from apfproxy.request.attributes import User
from apfproxy.settings import UnverifiedSettings
from tests.virtual_clock import VirtualClock

ALL = UnverifiedRules.of(
    UnverifiedSettings(
        is_by_basic=True,
        secret_headers=("Authorization", "X-Key"),
        headers=("X-Client", "X-Team"),
        is_by_address=True,
    )
)
NOTHING = UnverifiedRules()
ADDRESS_ONLY = UnverifiedRules(is_by_address=True)


def digest(secret: str) -> str:
    """What tells a secret apart."""
    return "key:" + hashlib.sha256(secret.encode()).hexdigest()[:16]


def basic(pair: bytes) -> str:
    """As the client sends it."""
    return b64encode(pair).decode()


def name(
    rules: UnverifiedRules = ALL,
    *,
    basic: str = "",
    authorization: bytes = b"",
    **values: str,
) -> str | None:
    """The name of the alias, which must be in one group only."""
    found = rules.alias(
        basic,
        authorization,
        {key.replace("_", "-").encode(): value for key, value in values.items()},
    )
    assert found is None or found == User(found.name, ("system:unauthenticated",))
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"basic": basic(b"al:pw")}, "basic:al", id="basic"),
        pytest.param({"basic": basic(b"system:admin:pw")}, "basic:system", id="basic-system"),
        pytest.param({"basic": basic(b":pw")}, None, id="basic-of-nobody"),
        pytest.param({"basic": "!"}, None, id="basic-malformed"),
        pytest.param({"authorization": b"Bearer abc"}, digest("abc"), id="bearer"),
        pytest.param({"authorization": b"token  abc"}, digest("abc"), id="any-scheme"),
        pytest.param({"authorization": b"basic YTpi"}, None, id="password-is-not-hashed"),
        pytest.param({"authorization": b"BASIC YTpi"}, None, id="nor-in-capitals"),
        pytest.param({"authorization": b'Digest a="b", c="d"'}, None, id="digest"),
        pytest.param({"authorization": b"abc"}, None, id="no-scheme"),
        pytest.param({"x_key": "abc"}, digest("abc"), id="key"),
        pytest.param({"x_client": "al"}, "header:al", id="header"),
        pytest.param({"x_client": "system:admin"}, "header:system:admin", id="system"),
        pytest.param({"x_client": "basic:al"}, "header:basic:al", id="no-other-kind"),
        pytest.param({"x_client": "", "x_team": "t"}, "header:t", id="second-header"),
        pytest.param({"x_other": "t"}, None, id="another-header"),
        pytest.param({"x_client": "a" * MAX_NAME_BYTES}, "header:" + "a" * 256, id="longest"),
        pytest.param({"x_client": "\u00e9, b"}, "header:\u00e9, b", id="text"),
        pytest.param(
            {"basic": basic(b"a:b"), "x_key": "k", "x_client": "c"},
            "basic:a",
            id="basic-first",
        ),
        pytest.param({"x_key": "k", "x_client": "c"}, digest("k"), id="then-key"),
    ],
)
def test_alias(given: dict[str, str], expected: str | None) -> None:
    """The first that is there counts, and says by its prefix where it is from."""
    assert expected == name(**given)  # type: ignore[arg-type]  # bytes and texts
    assert name(NOTHING, **given) is None  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"x_client": "a" * 257}, "x-client is longer than 256 bytes", id="long"),
        pytest.param({"x_client": "\u00e9" * 129}, "longer than 256 bytes", id="long-in-bytes"),
        pytest.param({"x_client": "a\tb"}, "x-client has a character that cannot", id="tab"),
        pytest.param({"x_client": "a\u202eb"}, "that cannot be printed", id="right-to-left"),
        pytest.param({"x_client": "a\x9bb"}, "that cannot be printed", id="terminal"),
        pytest.param(
            {"basic": basic(b"a\nb:c")}, "user name of Basic has a char", id="basic-control"
        ),
        pytest.param({"basic": basic(b"a" * 257 + b":")}, "user name of Basic is", id="basic-long"),
    ],
)
def test_refuses(given: dict[str, str], message: str) -> None:
    """What cannot be a name is the client's fault, and is not shown."""
    with pytest.raises(UnverifiedError, match=message):
        name(**given)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("192.0.2.7", "address:192.0.2.7", id="ipv4"),
        pytest.param("::ffff:192.0.2.7", "address:192.0.2.7", id="mapped"),
        pytest.param("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64", id="ipv6"),
        pytest.param("fe80::1%eth0", "address:fe80::/64", id="zone"),
        pytest.param("unknown", None, id="unix-socket"),
        pytest.param("", None, id="none"),
    ],
)
def test_addresses(address: str, expected: str | None) -> None:
    """A host of IPv6 chooses its last 64 bits itself, so they tell no clients apart."""
    found = alias_of_address(address)

    assert expected == (None if found is None else found.name)


def test_names_of_fields() -> None:
    """All but Authorization, which is read anyway."""
    assert frozenset((b"x-key", b"x-client", b"x-team")) == ALL.names
    assert ALL.is_by_authorization
    assert not ADDRESS_ONLY.is_by_authorization


def test_places_of_all_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes from however many addresses, there are so many places, of bounded size."""
    monkeypatch.setattr(unverified_names, "MAX_PLACES", 10)
    clock = VirtualClock()
    names = NamesOfAddresses(2, clock)
    found = [names.admit("x" * 300, f"address:192.0.2.{number}") for number in range(99)]

    assert [True] * 10 + [False] * 89 == found
    assert "<NamesOfAddresses: 10 of 10 addresses>" == repr(names)
    clock.run_until(LEASE_NS)
    assert names.admit("y", "address:192.0.2.98")
    assert "<NamesOfAddresses: 1 of 1 addresses>" == repr(names)


def test_places_take_few_bytes() -> None:
    """All of them together have some 2 MB, however long the names are."""
    names = NamesOfAddresses(1, VirtualClock())
    for number in range(MAX_PLACES + 1):
        names.admit("x" * 300, f"address:2001:db8:{number:x}::/64")
    places, of_address = names._places, names._of_address  # noqa: SLF001 - their size is the test
    held = sys.getsizeof(places) + sys.getsizeof(of_address)
    held += sum(
        sum(map(sys.getsizeof, (key, place, *place))) + sys.getsizeof(0)
        for key, place in places.items()
    )

    assert MAX_PLACES == len(places)
    assert held <= 300 * MAX_PLACES


def test_an_address_that_shows_too_many_names(caplog: pytest.LogCaptureFixture) -> None:
    """The log and the page say which one it is and what to do, without any name."""
    clock = VirtualClock()
    names = NamesOfAddresses(1, clock)
    names.admit("key:1", "address:192.0.2.7")
    assert "" == names.problem()
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert not names.admit(f"key:0a{number}", "address:192.0.2.7")

    (record,) = caplog.records
    assert record.getMessage() == names.problem()
    assert names.problem().startswith("192.0.2.7 shows more than 1 API keys, tokens or names in 30")
    assert "0a" not in names.problem()
    clock.run_until(LEASE_NS)
    assert "" == names.problem()


def test_too_many_names_of_all_addresses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address is blamed that found all places taken by others."""
    monkeypatch.setattr(unverified_names, "MAX_PLACES", 2)
    names = NamesOfAddresses(2, VirtualClock())
    names.admit("key:1", "address:192.0.2.7")
    names.admit("key:1", "address:192.0.2.8")
    with caplog.at_level(logging.WARNING):
        assert not names.admit("key:1", "address:192.0.2.9")

    (record,) = caplog.records
    assert record.getMessage() == names.problem()
    assert names.problem().startswith("all addresses together show more than 2 API keys, tokens")
    assert "192.0.2" not in names.problem()


def test_places_without_an_address() -> None:
    """Clients of a Unix socket share the places of one."""
    names = NamesOfAddresses(1, VirtualClock())

    assert names.admit("a", "")
    assert not names.admit("b", "")
    assert names.problem().startswith("a Unix socket shows ")
