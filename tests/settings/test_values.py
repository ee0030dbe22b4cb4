"""Durations, sizes, addresses, networks and URLs."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings import Address
from apfproxy.settings.values import (
    format_duration,
    parse_address,
    parse_api_prefix,
    parse_collector_url,
    parse_dns_url,
    parse_duration,
    parse_header_name,
    parse_host_header,
    parse_label,
    parse_listen_address,
    parse_mode,
    parse_network,
    parse_path,
    parse_path_pattern,
    parse_paths_below,
    parse_service,
    parse_service_port,
    parse_size,
    parse_subresource,
    parse_upstream_url,
    parse_url,
    parse_verb,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("32s", 32.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250us", 0.00025),
        ("7ns", 7e-9),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """Durations are read as Kubernetes writes them."""
    assert seconds == parse_duration(text)


@pytest.mark.parametrize(("text", "mode"), [("0660", 0o660), ("600", 0o600)])
def test_modes(text: str, mode: int) -> None:
    """Permissions are octal digits."""
    assert mode == parse_mode(text)


@pytest.mark.parametrize("text", ["", "66", "0o660", "1777", "888", "rw-rw----"])
def test_bad_modes(text: str) -> None:
    """What is no permissions is refused with what to write."""
    with pytest.raises(ValueError, match="such as 0660"):
        parse_mode(text)


@pytest.mark.parametrize("text", ["", "s", "32", "1.s", "-1s", "1s ", "1d", "٣s", "9" * 40 + "s"])
def test_bad_durations(text: str) -> None:
    """What is no duration is refused with an example of one."""
    with pytest.raises(ValueError, match="expected a duration such as 32s"):
        parse_duration(text)


def test_number_without_unit_gets_a_hint() -> None:
    """A bare number is refused, since its unit would be a guess, and the likely text is shown."""
    with pytest.raises(ValueError, match="write 32s for seconds"):
        parse_duration("32")


@given(st.integers(0, 10**13))
def test_durations_survive_writing(nanoseconds: int) -> None:
    """What is written of a duration reads back as the same nanoseconds."""
    written = format_duration(nanoseconds / 1e9)

    assert nanoseconds == round(parse_duration(written) * 1e9)


@pytest.mark.parametrize(
    ("text", "size"), [("65536", 65536), ("64KiB", 65536), ("1 MiB", 1 << 20), ("2kB", 2000)]
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are bytes, or numbers with a unit."""
    assert size == parse_size(text)


@pytest.mark.parametrize("text", ["", "KiB", "1.5KiB", "-1", "64kib", "1 TB", "9" * 40])
def test_bad_sizes(text: str) -> None:
    """What is no size is refused with an example of one."""
    with pytest.raises(ValueError, match="expected a size such as"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", Address(host="127.0.0.1", port=8080)),
        ("[::1]:0", Address(host="::1", port=0)),
        ("a.b.:1", Address(host="a.b.", port=1)),
        ("unix:/run/a b.sock", Address.unix("/run/a b.sock")),
        ("api_server.local:65535", Address(host="api_server.local", port=65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    """An address is a host and a port, where IPv6 stands in brackets, or a path."""
    assert address == parse_address(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8080", "such as 127.0.0.1:8080"),
        (":8080", "such as 127.0.0.1:8080"),
        ("localhost", "such as localhost:8080"),
        ("::1:80", "IPv6 address in brackets"),
        ("[::zz]:80", "expected a host name or an IP address"),
        ("a b:80", "expected a host name or an IP address"),
        ("a..b:80", "expected a host name or an IP address"),
        (".a:80", "expected a host name or an IP address"),
        ("a-:80", "expected a host name or an IP address"),
        (f"{'a' * 64}:80", "expected a host name or an IP address"),
        (f"{'a.' * 127}a:80", "expected a host name or an IP address"),
        ("localhost:65536", "expected a port from 0 to 65535"),
        ("localhost:http", "expected a port from 0 to 65535"),
        ("unix:a.sock", "expected unix: and the whole path of a socket, such as unix:/run/"),
        ("unix:", "expected unix: and the whole path of a socket"),
        ("unix:/run/", "expected unix: and the whole path of a socket"),
        ("unix:/a\0b", "expected unix: and the whole path of a socket"),
        (f"unix:/{'ä' * 54}", "at most 107 bytes"),
    ],
)
def test_bad_addresses(text: str, message: str) -> None:
    """What is no address is refused with what to write."""
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address(host="", port=8080)),
        (":0", Address(host="", port=0)),
        ("127.0.0.1:8080", Address(host="127.0.0.1", port=8080)),
        ("[::]:8080", Address(host="::", port=8080)),
    ],
)
def test_listen_addresses(text: str, address: Address) -> None:
    """Where to listen, the host may be left out."""
    assert address == parse_listen_address(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8080", "or :8080 for all addresses"),
        (":http", "expected a port from 0 to 65535, not 'http'"),
        (":", "expected a port from 0 to 65535, not ''"),
        ("::1", "IPv6 address in brackets"),
        ("localhost", "such as localhost:8080"),
    ],
)
def test_bad_listen_addresses(text: str, message: str) -> None:
    """What is no address to listen on is refused with what to write."""
    with pytest.raises(ValueError, match=message):
        parse_listen_address(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1", Address(host="127.0.0.1", port=80)),
        ("http://localhost:8000/", Address(host="localhost", port=8000)),
        ("http://[::1]:1", Address(host="::1", port=1)),
        ("https://a", Address(host="a", port=443, is_tls=True)),
        ("unix:/run/a.sock", Address.unix("/run/a.sock")),
    ],
)
def test_upstreams(text: str, address: Address) -> None:
    """An upstream is an http or https URL of a host and maybe a port."""
    assert address == parse_upstream_url(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://localhost:6443", "expected a URL such as http://127.0.0.1:8000"),
        ("localhost:8000", "expected a URL such as http://127.0.0.1:8000"),
        ("http://", "expected a URL such as http://127.0.0.1:8000"),
        ("http://localhost/api", "only a host and a port"),
        ("http://user@localhost", "only a host and a port"),
        ("http://localhost:99999", "expected a URL, not"),
        ("http://[::1", "expected a URL, not"),
    ],
)
def test_bad_upstreams(text: str, message: str) -> None:
    """What cannot be an upstream is refused with the reason."""
    with pytest.raises(ValueError, match=message):
        parse_upstream_url(text)


@pytest.mark.parametrize(
    "text",
    ["https://ann:s3cret@h:1", "h://ann:s3cret@h", "http://s3cret@h:99999", "http://h/?key=s3cret"],
)
def test_wrong_urls_keep_secrets(text: str) -> None:
    """What may be a password or a token is in no message."""
    with pytest.raises(ValueError, match="expected a URL") as caught:
        parse_upstream_url(text)

    assert "s3cret" not in str(caught.value)


def test_urls() -> None:
    """A page of metrics may be read over http or https, with a path."""
    assert parse_url("https://localhost:6443/metrics") == "https://localhost:6443/metrics"


@pytest.mark.parametrize("text", ["", "localhost/metrics", "ftp://localhost", "http:///metrics"])
def test_bad_urls(text: str) -> None:
    """What is no http or https URL is refused."""
    with pytest.raises(ValueError, match="expected a URL such as"):
        parse_url(text)


def test_url_of_no_host() -> None:
    """A page's host is a name, or an address."""
    with pytest.raises(ValueError, match=r"a host name or an IP address, not 'a\.\.b'"):
        parse_url("http://a..b/metrics")


@pytest.mark.parametrize("text", ["http://127.0.0.1:4318", "https://otel.example/v1/traces"])
def test_collectors(text: str) -> None:
    """A collector is an address, or all of the URL that takes spans."""
    assert text == parse_collector_url(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("localhost:4318", "such as http://127.0.0.1:4318, not"),
        ("grpc://localhost:4317", "such as http://127.0.0.1:4318, not"),
        ("http://me:s3cret@localhost:4318", "without user.*OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://localhost:4318?token=s3cret", "without user"),
        ("http://localhost:4318#spans", "without user"),
        ("http://a..b:4318", "a host name or an IP address"),
    ],
)
def test_bad_collectors(text: str, problem: str) -> None:
    """Logs name a collector, so its URL has no credentials; neither has the message."""
    with pytest.raises(ValueError, match=problem) as caught:
        parse_collector_url(text)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("text", ["10.0.0.0/8", "::1/128", "192.0.2.7"])
def test_networks(text: str) -> None:
    """A network is a CIDR or one address."""
    assert ipaddress.ip_network(text) == parse_network(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("10.0.0.1/8", "write 10.0.0.0/8"), ("10.0.0.0/33", "expected an address or a CIDR")],
)
def test_bad_networks(text: str, message: str) -> None:
    """A network with host bits is refused rather than widened."""
    with pytest.raises(ValueError, match=message):
        parse_network(text)


def test_host_headers() -> None:
    """A Host field has a name or an address and perhaps a port, and no other field behind it."""
    for text in ("api", "api.example.com:6443", "127.0.0.1", "[::1]:80", "a_b"):
        assert text == parse_host_header(text)
    for text in ("", "a\r\nX-Remote-User: root", "a b", "a:b", "http://a", "\u00e9", "a/"):
        with pytest.raises(ValueError, match="expected HOST or HOST:PORT"):
            parse_host_header(text)


def test_header_names() -> None:
    """A header field's name has letters, digits and hyphens only."""
    assert "X-Remote-User" == parse_header_name("X-Remote-User")
    for text in ("", "X_Remote", "-a", "a b", "a:", "é", "a" * 128):
        with pytest.raises(ValueError, match="the name of a header field"):
            parse_header_name(text)


def test_upstreams_with_many_addresses() -> None:
    """They have a host name."""
    assert Address(host="api.example", port=443, is_tls=True) == parse_dns_url(
        "https://api.example"
    )


@pytest.mark.parametrize("text", ["http://10.0.0.1:80", "https://[::1]", "unix:/run/a.sock"])
def test_upstreams_with_one_address(text: str) -> None:
    """Nothing is there to resolve."""
    with pytest.raises(ValueError, match="expected a URL with a host name"):
        parse_dns_url(text)


@pytest.mark.parametrize("text", ["a", "a-1", "1", "a" * 63])
def test_labels(text: str) -> None:
    """What Kubernetes calls Services and namespaces."""
    assert text == parse_label(text)


@pytest.mark.parametrize("text", ["", "A", "a.b", "-a", "a-", "a" * 64, "a\n", "ä"])
def test_bad_labels(text: str) -> None:
    """Nothing else is one."""
    with pytest.raises(ValueError, match="expected a DNS label"):
        parse_label(text)


@pytest.mark.parametrize("text", ["watch", "m-search", "get"])
def test_verbs(text: str) -> None:
    """Methods, in small letters."""
    assert text == parse_verb(text)


@pytest.mark.parametrize("text", ["", "WATCH", "*", "a b", "a,b", "a\n", "ä", "a" * 65])
def test_bad_verbs(text: str) -> None:
    """Nothing that would be all, or none."""
    with pytest.raises(ValueError, match="expected a verb in small letters, such as watch, not "):
        parse_verb(text)


@pytest.mark.parametrize("text", ["exec", "instantiatebinary", "a.b-c"])
def test_subresources(text: str) -> None:
    """A segment of a path."""
    assert text == parse_subresource(text)


@pytest.mark.parametrize("text", ["", "pods/exec", "*", "exec/", "a" * 254, "a?", "..", "a\n"])
def test_bad_subresources(text: str) -> None:
    """A resource does not go with it."""
    with pytest.raises(ValueError, match="expected a subresource alone, such as exec, not "):
        parse_subresource(text)


@pytest.mark.parametrize("text", ["/events", "/debug/pprof/", "/a.b/...c/@d"])
def test_paths_below(text: str) -> None:
    """With a slash at the end, or without."""
    assert text == parse_paths_below(text)


@pytest.mark.parametrize(
    "text", ["", "/", "//", "a", "/a/*", "/a//b", "/a/../b", "/a/.", "/%61", "/a?b", "/a;b", "/a\n"]
)
def test_bad_paths_below(text: str) -> None:
    """What some server takes for another path, or is all, is none."""
    with pytest.raises(ValueError, match="expected a path such as /events, which stands for all"):
        parse_paths_below(text)


@pytest.mark.parametrize("text", ["/a", "/*", "/a/*/b/*", "/a.b/*"])
def test_path_patterns(text: str) -> None:
    """Segments, any of which may be any one."""
    assert text == parse_path_pattern(text)


@pytest.mark.parametrize(
    "text", ["", "/", "*", "/a*", "/*a", "/**", "/a//b", "/a/", "/a/../b", "/%61", "/a?b", "/a\n"]
)
def test_bad_path_patterns(text: str) -> None:
    """Nothing else is one."""
    with pytest.raises(ValueError, match=r"expected a path in which a segment may be \*, such as"):
        parse_path_pattern(text)


def test_api_prefix() -> None:
    """A pattern has one variable segment at most."""
    assert "/clusters/{workspace}" == parse_api_prefix("/clusters/{workspace}")


@pytest.mark.parametrize("text", ["/", "/{a}/{b}", "/" + 1024 * "a"])
def test_bad_api_prefixes(text: str) -> None:
    """What is none, or too long, is refused with an example."""
    with pytest.raises(ValueError, match=r"expected a path such as /clusters/{workspace}"):
        parse_api_prefix(text)


def test_services() -> None:
    """They have a namespace."""
    assert ("default", "kubernetes") == parse_service("default/kubernetes")


@pytest.mark.parametrize("text", ["", "kubernetes", "/a", "a/", "a/b/c", "a/B"])
def test_bad_services(text: str) -> None:
    """An example says what is expected."""
    with pytest.raises(ValueError, match="such as default/kubernetes"):
        parse_service(text)


@pytest.mark.parametrize("text", ["https", "6443", "1"])
def test_ports_of_services(text: str) -> None:
    """They have a name or a number."""
    assert text == parse_service_port(text)


@pytest.mark.parametrize("text", ["0", "65536", "", "a b", "٣"])
def test_bad_ports_of_services(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="expected the name of a port"):
        parse_service_port(text)


@pytest.mark.parametrize("text", ["/", "/readyz", "/readyz?verbose&exclude=etcd", "/%20"])
def test_paths(text: str) -> None:
    """A path may have a query."""
    assert text == parse_path(text)


@pytest.mark.parametrize("text", ["", "readyz", "/a b", "/a\r\nX: y", "/ä", "/#a", "/" * 1025])
def test_bad_paths(text: str) -> None:
    """What would be another request is refused."""
    with pytest.raises(ValueError, match="such as /readyz"):
        parse_path(text)
