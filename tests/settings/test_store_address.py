"""Where the record of a fleet lives, as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings.store_address import (
    Kind,
    StoreAddress,
    parse_store,
    store_address,
)


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        pytest.param(
            "redis://a",
            StoreAddress(kind=Kind.REDIS, nodes=(("a", 6379),)),
            "redis://a:6379",
            id="plain",
        ),
        pytest.param(
            "rediss://u%40:p%3A:%2F@[::1]:7/15",
            StoreAddress(
                kind=Kind.REDIS,
                is_tls=True,
                nodes=(("::1", 7),),
                database=15,
                user="u@",
                password="p::/",  # noqa: S106 - of nobody
            ),
            "rediss://[::1]:7/15",
            id="all-of-it",
        ),
        pytest.param(
            "redis://:p@a/",
            StoreAddress(kind=Kind.REDIS, nodes=(("a", 6379),), password="p"),  # noqa: S106 - as above
            "redis://a:6379",
            id="password-alone",
        ),
        pytest.param(
            "redis+unix:/run/r.sock",
            StoreAddress(kind=Kind.SOCKET, path="/run/r.sock"),
            "redis+unix:/run/r.sock",
            id="socket",
        ),
        pytest.param(
            "redis+unix://u:p@/run/r.sock?db=2",
            StoreAddress(
                kind=Kind.SOCKET,
                path="/run/r.sock",
                database=2,
                user="u",
                password="p",  # noqa: S106 - as above
            ),
            "redis+unix:/run/r.sock?db=2",
            id="socket-with-all",
        ),
        pytest.param(
            "redis+sentinel://a,b:7,[::1],[::2]:8/mymaster/3",
            StoreAddress(
                kind=Kind.SENTINEL,
                nodes=(("a", 26379), ("b", 7), ("::1", 26379), ("::2", 8)),
                service="mymaster",
                database=3,
            ),
            "redis+sentinel://a:26379,b:7,[::1]:26379,[::2]:8/mymaster/3",
            id="sentinel",
        ),
        pytest.param(
            "rediss+cluster://a:1,b:2",
            StoreAddress(kind=Kind.CLUSTER, is_tls=True, nodes=(("a", 1), ("b", 2))),
            "rediss+cluster://a:1,b:2",
            id="cluster",
        ),
        pytest.param(
            "kubernetes:a/b.c",
            StoreAddress(kind=Kind.KUBERNETES, namespace="a", name="b.c"),
            "kubernetes:a/b.c",
            id="kubernetes",
        ),
    ],
)
def test_addresses(text: str, address: StoreAddress, shown: str) -> None:
    """Each kind has its form, and is shown without user and password."""
    assert address == store_address(text)
    assert shown == str(address)
    assert text == parse_store(text)
    assert address.kind.is_redis == text.startswith("redis")
    assert "password" not in repr(address)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("redis", "expected the URL of a store: redis://HOST"),
        ("redis:a", "expected the URL of a store"),
        ("http://a", "not 'http://a'"),
        ("rediss+unix:/a", "expected the URL of a store"),
        ("redisss://a", "expected the URL of a store"),
        ("parent:/a", "expected the URL of a store"),
        ("redis://", "expected the URL of a store"),
        ("redis://a b", "expected a host name"),
        ("redis://::1", "expected an IPv6 address in brackets"),
        ("redis://a:0", "expected a port from 1 to 65535, not '0'"),
        ("redis://a:x", "expected a port"),
        ("redis://a/x", "expected the number of a database"),
        ("redis://a/99999", "expected the number of a database"),
        ("redis://a/1/2", "without more of a path"),
        ("redis://a,b", r"several are redis\+sentinel://"),
        ("redis://a?db=1", "the section fleet has all else"),
        ("redis://:a#b@c", "# is %23"),
        ("redis://u:a/b@c", "/ is %2F"),
        ("redis+unix:a", "with the whole path"),
        ("redis+unix://a/b", "without a host"),
        ("redis+unix:/a?x=1", r"redis\+unix:/PATH\?db=NUMBER"),
        (f"redis+unix:/{'a' * 107}", "at most 107 bytes"),
        ("redis+sentinel://a", "such as mymaster"),
        ("redis+sentinel://a/b c", "such as mymaster"),
        ("redis+cluster://a/1", "a cluster has only one"),
        (f"redis+cluster://{','.join('a' * 65)}", "at most 64 hosts"),
        ("kubernetes:a", "expected kubernetes:NAMESPACE/NAME"),
        ("kubernetes:A/b", "expected a DNS label"),
        ("kubernetes:a/B", "expected kubernetes:NAMESPACE/NAME"),
        ("redis://a\0", "expected the URL"),
    ],
)
def test_wrong(text: str, problem: str) -> None:
    """What is no store is refused with what was expected."""
    with pytest.raises(ValueError, match=problem):
        parse_store(text)


@given(
    before=st.sampled_from(
        ["redis://", "rediss://", "redis+unix://", "redis+sentinel://", "redis+cluster://", "x://"]
    ),
    after=st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20),
)
def test_secrets_are_not_shown(before: str, after: str) -> None:
    """No message has a password, whatever else is wrong."""
    try:
        shown = str(store_address(f"{before}us3r:s3cr3t@{after}"))
    except ValueError as error:
        shown = str(error)
    assert "s3cr3t" not in shown


def test_parent() -> None:
    """What workers are told."""
    address = store_address("parent:link")

    assert StoreAddress(kind=Kind.PARENT) == address
    assert "the parent process" == str(address)
