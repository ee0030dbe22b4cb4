"""Which cluster a request is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import FieldRules, UpstreamHosts
from apfproxy.http.request_head import parse_head
from apfproxy.proxy.cluster_router import ClusterRouter, Route, normal_host
from apfproxy.settings import AuthenticationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.proxy.context import Context
    from tests.proxy.fakes import Bench

HOSTS = ("a.test", "b.a.test", "*.a.test", "*.b.a.test", "*.test", "::1", "c")
PREFIXES = (b"", b"/x", b"/x/y", b"/xy", b"/clusters/a")


RULES = FieldRules(UpstreamHosts(b"", b""), AuthenticationSettings().credential_rules, 100, 1000)


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
        pytest.param("a.test", "exact", id="exact"),
        pytest.param("A.Test", "exact", id="upper-case"),
        pytest.param("a.test:8443", "exact", id="port"),
        pytest.param("a.test:", "exact", id="empty-port"),
        pytest.param("a.test.", "exact", id="dot-at-the-end"),
        pytest.param("a.test.:1", "exact", id="dot-and-port"),
        pytest.param("b.a.test", "wildcard", id="one-label-more"),
        pytest.param("c.b.a.test", "wildcard", id="two-labels-more"),
        pytest.param("x.long.a.test", "long", id="longer-wildcard"),
        pytest.param("long.a.test", "wildcard", id="not-below-itself"),
        pytest.param("xa.test", None, id="no-label"),
        pytest.param("test", None, id="shorter"),
        pytest.param("", None, id="empty"),
        pytest.param("[::1]", "six", id="ipv6"),
        pytest.param("[::1]:443", "six", id="ipv6-port"),
        pytest.param("127.0.0.1:80", "four", id="ipv4"),
        pytest.param("*.a.test", "wildcard", id="a-star-is-a-name"),
        pytest.param("x." * 200 + "a.test", None, id="too-long"),
    ],
)
def test_hosts(host: str, expected: str | None) -> None:
    router = router_of(
        route("exact", ["a.test"]),
        route("wildcard", ["*.a.test"]),
        route("long", ["*.long.a.test"]),
        route("six", ["::1"]),
        route("four", ["127.0.0.1"]),
    )
    found = router.find(normal_host(host.encode()), b"/")

    assert expected == (found and found.name)


@pytest.mark.parametrize(
    ("target", "name", "forwarded"),
    [
        pytest.param("/clusters/a", "a", "/", id="itself"),
        pytest.param("/clusters/a/", "a", "/", id="root"),
        pytest.param("/clusters/a/api/v1?x=/clusters/b", "a", "/api/v1?x=/clusters/b", id="path"),
        pytest.param("/clusters/a?watch=1", "a", "/?watch=1", id="query"),
        pytest.param("/clusters/a//b", "a", "//b", id="double-slash-behind"),
        pytest.param("/clusters/a/b/c", "a-b", "/c", id="longest"),
        pytest.param("/clusters/a/bc", "a", "/bc", id="boundary"),
        pytest.param("/clusters/ab", "other", "/clusters/ab", id="another-segment"),
        pytest.param("/Clusters/a", "other", "/Clusters/a", id="case"),
        pytest.param("/clusters/%61", "other", "/clusters/%61", id="escaped"),
        pytest.param("//clusters/a", "other", "//clusters/a", id="double-slash"),
        pytest.param("/clusters/./a", "other", "/clusters/./a", id="dot-segment"),
        pytest.param("/?/clusters/a", "other", "/?/clusters/a", id="in-the-query"),
        pytest.param("http://a.test/clusters/a/x", "a", "http://a.test/x", id="absolute"),
        pytest.param("HTTPS://a.test/clusters/a", "a", "HTTPS://a.test/", id="absolute-itself"),
        pytest.param("http://a.test", "other", "http://a.test", id="absolute-without-path"),
        pytest.param("http://a.test?x", "other", "http://a.test?x", id="absolute-query"),
        pytest.param("*", "other", "*", id="asterisk"),
    ],
)
def test_prefixes(bench: Bench, target: str, name: str, forwarded: str) -> None:
    """Of paths, byte by byte up to the end of a segment; what is behind is forwarded."""
    router = router_of(
        route("other", [], context=bench.context),
        route("a", [], b"/clusters/a", context=bench.context),
        route("a-b", [], b"/clusters/a/b", context=bench.context),
    )
    found, host, head = router.route(get(target))

    assert (name, b"a.test", get(forwarded)) == (found.name, host, head)


def test_host_and_prefix_together() -> None:
    """Both must match; where no prefix of a host does, less special hosts have their turn."""
    router = router_of(
        route("both", ["a.test"], b"/x"), route("wild", ["*.test"]), route("any", [], b"/y")
    )

    def found(host: bytes, path: bytes) -> str | None:
        hit = router.find(host, path)
        return None if hit is None else hit.name

    assert ["both", "wild", "any", None] == [
        found(b"a.test", b"/x"),
        found(b"a.test", b"/y"),
        found(b"b", b"/y/z"),
        found(b"b", b"/x"),
    ]
    assert router.has_prefixes


@pytest.mark.parametrize(
    ("head", "code"),
    [
        pytest.param(get("/", "b" * 900), 404, id="unknown-host"),
        pytest.param(get("/" + "x" * 900, "c"), 404, id="unknown-path"),
        pytest.param(get("/", None), 400, id="no-host"),
        pytest.param(get("/", None, "1.0"), 404, id="no-host-in-1.0"),
        pytest.param(get("/", "a.test\r\nhost: a.test"), 400, id="two-hosts"),
        pytest.param(get("/", "a.test/b"), 400, id="not-a-host"),
        pytest.param(get("/", "a.test, b.test"), 400, id="list"),
        pytest.param(get("/", "broken"), 503, id="cannot-be-used"),
        pytest.param(b"GET\r\nHost: b\r\n\r\n", 404, id="no-target"),
    ],
)
def test_refusals(head: bytes, code: int) -> None:
    """A request of no cluster, and of one that cannot be used; malformed ones as ever."""
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


def test_the_only_cluster_is_starting() -> None:
    with pytest.raises(HeadError, match=r"^the proxy is starting$"):
        router_of(Route("", (), b"", None, "is starting")).route(get("/", "a.test"))


def test_a_known_host_is_not_searched_for(bench: Bench) -> None:
    router = router_of(route("a", ["a"], context=bench.context), route("b", ["b"]))
    found, host, _ = router.route(get("/", "b"), b"a")

    assert ("a", b"a") == (found.name, host)


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        pytest.param([route("a", ["a.test"])], "a", id="one"),
        pytest.param([route("a", ["*.test"])], "a", id="wildcard"),
        pytest.param([route("a", ["a.test"]), route("b", ["*.test"])], "a", id="takes-all"),
        pytest.param(
            [route("a", ["a.test"], b"/a"), route("b", ["*.test"])], None, id="prefix-and-others"
        ),
        pytest.param(
            [route("a", ["a.test"], b"/a"), route("b", ["*.test"], group="a")], "a", id="alike"
        ),
        pytest.param(
            [route("a", ["a.test"], b"/a"), route("b", ["a.test"], b"/b")], None, id="two-prefixes"
        ),
        pytest.param([route("a", ["b.test"])], None, id="no-cluster"),
    ],
)
def test_groups_of_tls(routes: list[Route], expected: str | None) -> None:
    """A handshake is for one group only where all requests to its host are of that."""
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
        "Host: a.test",
        "host:b.test",
        "HOST:\t c ",
        "Host:",
        "Host: a/b",
        "Host : d",
        " Host: e",
        "X-Host: f",
        "A: x\nHost: g",
        "A: Host: h",
        "Accept: */*",
        "Content-Length: 0",
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
    """Whatever the parser takes is routed by the very host that it finds; nothing else matters."""
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
