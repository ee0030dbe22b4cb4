"""Which cluster a request is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import FieldRules
from apfproxy.http.request_head import parse_head
from apfproxy.proxy.cluster_router import ClusterRouter, Route, normal_host
from apfproxy.settings import AuthenticationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.proxy.context import Context
    from tests.proxy.fakes import Bench

HOSTS = ("a.test", "b.a.test", "*.a.test", "*.b.a.test", "*.test", "::1", "c")
PREFIXES = (b"", b"/x", b"/x/y", b"/xy", b"/clusters/a")


RULES = FieldRules(AuthenticationSettings().credential_rules, 100, 1000)


def route(
    name: str,
    hosts: Sequence[str],
    prefix: bytes = b"",
    group: str = "",
    context: Context | None = None,
) -> Route:
    return Route(name, hosts, prefix, context, tls_group=group or name)


def router_of(*routes: Route) -> ClusterRouter:
    router = ClusterRouter(None, RULES)
    router.put(routes)
    return router


def get(target: str, host: str | None = "a.test", version: str = "1.1") -> bytes:
    line = "" if host is None else f"Host: {host}\r\n"
    return f"GET {target} HTTP/{version}\r\nA: b\r\n{line}C: d\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(
            (host, "a.test")
            for host in ("A.Test", "a.test:8443", "a.test:", "a.test.", "a.test.:1")
        ),
        *((host, "::1") for host in ("[::1]", "[::1]:443")),
        ("127.0.0.1:80", "127.0.0.1"),
        *((host, None) for host in ("xa.test", "", "x." * 200 + "a.test")),
    ],
)
def test_hosts_have_one_form(host: str, expected: str | None) -> None:
    router = router_of(*(route(name, [name]) for name in ("a.test", "::1", "127.0.0.1")))
    found = router.find(normal_host(host.encode()), b"/")

    assert expected == (found and found.name)


@pytest.mark.parametrize(
    ("target", "name", "forwarded"),
    [
        *((target, "a", "/") for target in ("/clusters/a", "/clusters/a/")),
        ("/clusters/a/api/v1?x=/clusters/b", "a", "/api/v1?x=/clusters/b"),
        ("/clusters/a?watch=1", "a", "/?watch=1"),
        ("/clusters/a//b", "a", "//b"),
        ("/clusters/a/b/c", "a-b", "/c"),
        ("/clusters/a/bc", "a", "/bc"),
        ("http://a.test/clusters/a/x", "a", "http://a.test/x"),
        ("HTTPS://a.test/clusters/a", "a", "HTTPS://a.test/"),
        *(
            (target, "other", target)
            for target in (
                *("/clusters/ab", "/Clusters/a", "/clusters/%61", "//clusters/a", "/clusters/./a"),
                *("/?/clusters/a", "http://a.test", "http://a.test?x", "*"),
            )
        ),
    ],
)
def test_prefixes(bench: Bench, target: str, name: str, forwarded: str) -> None:
    router = router_of(
        route("other", [], context=bench.context),
        route("a", [], b"/clusters/a", context=bench.context),
        route("a-b", [], b"/clusters/a/b", context=bench.context),
    )
    found, host, head = router.route(get(target))

    assert (name, b"a.test", get(forwarded)) == (found.name, host, head)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (get("/", "b" * 900), 404),
        (get("/" + "x" * 900, "c"), 404),
        (get("/", None), 400),
        (get("/", None, "1.0"), 404),
        (get("/", "a.test\r\nhost: a.test"), 400),
        (get("/", "a.test/b"), 400),
        (get("/", "a.test, b.test"), 400),
        (get("/", "broken"), 503),
        (b"GET\r\nHost: b\r\n\r\n", 404),
    ],
    ids=range(9),
)
def test_refusals(head: bytes, code: int) -> None:
    router = router_of(
        route("a", ["a.test"]),
        route("c", ["c"], b"/y"),
        Route("b", ["broken"], b"", None, "is starting", retry_after_s=7),
    )
    with pytest.raises(HeadError) as refused:
        router.route(head)

    assert code == refused.value.code
    assert len(str(refused.value)) < 300
    assert (code == 503) == ("the cluster b is starting" == str(refused.value))
    assert (code == 503) == (b"Retry-After: 7\r\n" == refused.value.lines)


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([route("a", ["a.test"])], "a"),
        ([route("a", ["*.test"])], "a"),
        ([route("a", ["a.test"]), route("b", ["*.test"])], "a"),
        ([route("a", ["a.test"], b"/a"), route("b", ["*.test"])], None),
        ([route("a", ["a.test"], b"/a"), route("b", ["*.test"], group="a")], "a"),
        ([route("a", ["a.test"], b"/a"), route("b", ["a.test"], b"/b")], None),
        ([route("a", ["b.test"])], None),
    ],
)
def test_groups_of_tls(routes: list[Route], expected: str | None) -> None:
    assert expected == router_of(*routes).group_of(b"a.test")


def reference(
    routes: Sequence[tuple[tuple[str, ...], bytes]], host: str, path: bytes
) -> int | None:
    best: tuple[tuple[int, int, int], int] | None = None
    for number, (hosts, prefix) in enumerate(routes):
        is_below = path == prefix or path.startswith((prefix + b"/", prefix + b"?"))
        if prefix and not is_below:
            continue
        ranks = [(0, 0)] if not hosts else []
        for each in hosts:
            if each == host:
                ranks.append((2, 0))
            elif each.startswith("*.") and host.endswith(each[1:]) and len(host) > len(each) - 1:
                ranks.append((1, len(each)))
        for rank in ranks:
            key = (*rank, len(prefix))
            if best is None or key > best[0]:
                best = key, number
    return None if best is None else best[1]


host_texts = st.lists(st.sampled_from(["a", "b", "c", "test"]), min_size=1, max_size=4).map(
    ".".join
)
paths = st.lists(st.sampled_from(["", "x", "y", "xy", "x?", "clusters", "a"]), max_size=4).map(
    lambda parts: ("/" + "/".join(parts)).encode()
)


@given(
    routes=st.lists(
        st.tuples(
            st.lists(st.sampled_from(HOSTS), max_size=2, unique=True).map(tuple),
            st.sampled_from(PREFIXES),
        ),
        max_size=6,
    ),
    host=host_texts,
    path=paths,
)
@example(routes=[(("*.a.test",), b"/x"), ((), b"")], host="b.a.test", path=b"/xy")
def test_like_the_rules(
    routes: list[tuple[tuple[str, ...], bytes]], host: str, path: bytes
) -> None:
    router = router_of(*(route(str(n), hosts, prefix) for n, (hosts, prefix) in enumerate(routes)))
    found = router.find(normal_host(host.encode()), path)
    expected = reference(routes, host, path)

    assert (None if expected is None else str(expected)) == (found and found.name)


field_lines = st.sampled_from(
    [
        *(
            "Host: a.test",
            "host:b.test",
            "HOST:\t c ",
            "Host:",
            "Host: a/b",
            "Host : d",
            " Host: e",
        ),
        *("X-Host: f", "A: x\nHost: g", "A: Host: h", "Accept: */*", "Content-Length: 0"),
    ]
)


@given(
    lines=st.lists(field_lines, max_size=4),
    version=st.sampled_from(["1.1", "1.0"]),
    target=st.sampled_from(["/", "/x", "http://a.test/x", "*", "x", "/ x"]),
)
def test_hosts_are_read_as_the_parser_reads_them(
    lines: list[str], version: str, target: str
) -> None:
    head = "\r\n".join([f"GET {target} HTTP/{version}", *lines, "", ""]).encode()
    try:
        expected = parse_head(head, RULES).fields.host or b""
    except HeadError:
        return
    router = router_of(route("all", []))
    with pytest.raises(HeadError) as refused:  # it has no context
        router.route(head)

    assert 503 == refused.value.code
    assert expected == router._host_of(head)  # noqa: SLF001  what is compared
