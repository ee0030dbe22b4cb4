"""What tells anonymous clients apart."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest

from apfproxy.authn.unverified_names import (
    MAX_NAME_BYTES,
    UnverifiedError,
    UnverifiedRules,
    alias_of_address,
)
from apfproxy.request.user import User
from apfproxy.settings import UnverifiedSettings

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
    address: str = "",
    **values: str,
) -> str | None:
    """The name of the alias, which must be in one group only."""
    found = rules.alias(
        basic,
        authorization,
        {key.replace("_", "-").encode(): value for key, value in values.items()},
        address,
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
        pytest.param({"address": "192.0.2.7"}, "address:192.0.2.7", id="address"),
        pytest.param(
            {"basic": basic(b"a:b"), "x_key": "k", "x_client": "c", "address": "::1"},
            "basic:a",
            id="basic-first",
        ),
        pytest.param({"x_key": "k", "x_client": "c", "address": "::1"}, digest("k"), id="then-key"),
        pytest.param({"x_client": "c", "address": "::1"}, "header:c", id="address-last"),
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
    assert expected == name(ADDRESS_ONLY, address=address)


def test_names_of_fields() -> None:
    """All but Authorization, which is read anyway."""
    assert frozenset((b"x-key", b"x-client", b"x-team")) == ALL.names
    assert ALL.is_by_authorization
    assert not ADDRESS_ONLY.is_by_authorization
