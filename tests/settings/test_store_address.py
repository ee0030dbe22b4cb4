"""Where the record of a fleet lives, as people write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings.store_address import Kind, StoreAddress, parse_store, store_address

S = "s3cret"


@pytest.mark.parametrize(
    ("text", "kind", "shown", "more"),
    [
        ("redis://a", Kind.REDIS, "redis://a:6379", {"nodes": (("a", 6379),)}),
        (
            f"rediss://u%40:{S}%3A:%2F@[::1]:7/15",
            Kind.REDIS,
            "rediss://[::1]:7/15",
            {
                "is_tls": True,
                "nodes": (("::1", 7),),
                "database": 15,
                "user": "u@",
                "password": f"{S}::/",
            },
        ),
        (
            f"redis://:{S}@a/65535",
            Kind.REDIS,
            "redis://a:6379/65535",
            {"nodes": (("a", 6379),), "database": 65535, "password": S},
        ),
        ("redis+unix:/run/r.sock", Kind.SOCKET, "redis+unix:/run/r.sock", {"path": "/run/r.sock"}),
        (
            f"redis+unix://u:{S}@/run/r.sock?db=2",
            Kind.SOCKET,
            "redis+unix:/run/r.sock?db=2",
            {"path": "/run/r.sock", "database": 2, "user": "u", "password": S},
        ),
        (
            "redis+sentinel://a,b:7,[::1],[::2]:8/mymaster/3",
            Kind.SENTINEL,
            "redis+sentinel://a:26379,b:7,[::1]:26379,[::2]:8/mymaster/3",
            {
                "nodes": (("a", 26379), ("b", 7), ("::1", 26379), ("::2", 8)),
                "service": "mymaster",
                "database": 3,
            },
        ),
        (
            "rediss+cluster://a:1,b:2",
            Kind.CLUSTER,
            "rediss+cluster://a:1,b:2",
            {"is_tls": True, "nodes": (("a", 1), ("b", 2))},
        ),
        (
            "kubernetes:a/b.c",
            Kind.KUBERNETES,
            "kubernetes:a/b.c",
            {"namespace": "a", "name": "b.c"},
        ),
    ],
)
def test_addresses(text: str, kind: Kind, shown: str, more: dict[str, Any]) -> None:
    """Each kind has its form, and is shown without user and password."""
    address = store_address(text)

    assert address == StoreAddress(kind=kind, **more)
    assert (shown, text) == (str(address), parse_store(text))
    assert address.kind.is_redis == text.startswith("redis")
    assert S not in repr(address)


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
        ("redis://a/65536", "expected the number of a database"),
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
