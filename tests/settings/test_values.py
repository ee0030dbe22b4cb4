"""The forms of settings: durations, sizes, addresses, networks, names and URLs."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings import Address, values
from apfproxy.settings.file import SettingsLines
from apfproxy.settings.store_address import (
    FLEET,
    MEMBER,
    Kind,
    StoreAddress,
    parse_store,
    store_address,
)
from apfproxy.settings.values import (
    Form,
    format_duration,
    parse_address,
    parse_duration,
    parse_service,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PLAIN, SERVICE = Form(parse_address, ""), Form(parse_service, "")


def cases(form: Form, *texts: str) -> list[tuple[Form, str, Any]]:
    return [(form, text, text) for text in texts]


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (values.DURATION, "0", 0.0),
        (values.DURATION, "32s", 32.0),
        (values.DURATION, "500ms", 0.5),
        (values.DURATION, "1m30s", 90.0),
        (values.DURATION, "1.5h", 5400.0),
        (values.DURATION, "250us", 0.00025),
        (values.DURATION, "7ns", 7e-9),
        (values.MODE, "0660", 0o660),
        (values.MODE, "600", 0o600),
        (values.SIZE, "65536", 65536),
        (values.SIZE, "64KiB", 65536),
        (values.SIZE, "1 MiB", 1 << 20),
        (values.SIZE, "2kB", 2000),
        (values.WORKERS, "128", 128),
        (values.WORKERS, "auto", 0),
        (PLAIN, "127.0.0.1:8080", Address(host="127.0.0.1", port=8080)),
        (PLAIN, "[::1]:0", Address(host="::1", port=0)),
        (PLAIN, "a.b.:1", Address(host="a.b.", port=1)),
        (PLAIN, "unix:/run/a b.sock", Address.unix("/run/a b.sock")),
        (PLAIN, "api_server.local:65535", Address(host="api_server.local", port=65535)),
        (values.LISTEN, ":8080", Address(host="", port=8080)),
        (values.LISTEN, "[::]:8080", Address(host="::", port=8080)),
        (values.UPSTREAM, "http://127.0.0.1", Address(host="127.0.0.1", port=80)),
        (values.UPSTREAM, "http://localhost:8000/", Address(host="localhost", port=8000)),
        (values.UPSTREAM, "http://[::1]:1", Address(host="::1", port=1)),
        (values.UPSTREAM, "https://a", Address(host="a", port=443, is_tls=True)),
        (values.UPSTREAM, "unix:/run/a.sock", Address.unix("/run/a.sock")),
        (values.DNS, "https://api.example", Address(host="api.example", port=443, is_tls=True)),
        (values.NETWORK, "10.0.0.0/8", ipaddress.ip_network("10.0.0.0/8")),
        (values.NETWORK, "::1", ipaddress.ip_network("::1/128")),
        *cases(values.URL, "https://localhost:6443/metrics"),
        *cases(values.COLLECTOR, "http://127.0.0.1:4318", "https://otel.example/v1/traces"),
        *cases(values.HOST_HEADER, "api", "api.example.com:6443", "127.0.0.1", "[::1]:80", "a_b"),
        *cases(values.HEADER, "X-Remote-User"),
        *cases(values.LABEL, "a", "a-1", "1", "a" * 63),
        *cases(values.VERB, "watch", "m-search"),
        *cases(values.SUBRESOURCE, "exec", "instantiatebinary", "a.b-c"),
        *cases(values.PATHS_BELOW, "/events", "/debug/pprof/", "/a.b/...c/@d"),
        *cases(values.PATH_PATTERN, "/a", "/*", "/a/*/b/*", "/a.b/*"),
        *cases(values.API_PREFIX, "/clusters/{workspace}"),
        *cases(values.HOST_PATTERN, "a.example", "*.b", "::1"),
        *cases(values.PATH_PREFIX, "/clusters/a"),
        *cases(FLEET, "a", "a-b.c", "A1", "a" * 63),
        *cases(MEMBER, "pod-1.ns:8080_w1"),
        *cases(values.SERVICE_PORT, "https", "6443", "1"),
        *cases(values.TARGET, "/", "/readyz?verbose&exclude=etcd", "/%20"),
        (SERVICE, "default/kubernetes", ("default", "kubernetes")),
    ],
)  # fmt: skip
def test_values(form: Form, text: str, value: object) -> None:
    assert value == form.parse(text)


HOST = "expected a host name or an IP address"
BAD = [
    (values.DURATION, "expected a duration such as 32s", f"|s|32|1.s|-1s|1s |1d|٣s|{'9' * 40}s"),
    (values.DURATION, "write 32s for seconds", "32"),
    (values.MODE, "such as 0660", "|66|0o660|1777|888|rw-rw----"),
    (values.SIZE, "expected a size such as", f"|KiB|1.5KiB|-1|64kib|1 TB|{'9' * 40}"),
    (values.WORKERS, "a number of workers from 1 to 128, or auto", f"0|129|x|{'9' * 40}"),
    (PLAIN, "such as 127.0.0.1:8080", "8080|:8080"),
    (PLAIN, "such as localhost:8080", "localhost"),
    (PLAIN, "IPv6 address in brackets", "::1:80"),
    (PLAIN, "HOST:PORT without http://", "http://127.0.0.1:80|https://[::1]:80"),
    (PLAIN, HOST, "[::zz]:80|a b:80|a..b:80|.a:80|a-:80"),
    (PLAIN, HOST, f"{'a' * 64}:80|{'a.' * 127}a:80"),
    (PLAIN, "expected a port from 0 to 65535", "localhost:65536|localhost:http"),
    (PLAIN, "the whole path of a socket", "unix:a.sock|unix:|unix:/run/|unix:/a\0b"),
    (PLAIN, "at most 107 bytes", f"unix:/{'ä' * 54}"),
    (values.LISTEN, "or :8080 for all addresses", "8080"),
    (values.LISTEN, "expected a port from 0 to 65535, not", ":http|:"),
    (values.LISTEN, "IPv6 address in brackets", "::1"),
    (values.UPSTREAM, "a URL such as http://127.0.0.1:8000", "ftp://a:6443|localhost:8000|http://"),
    (values.UPSTREAM, "only a host and a port", "http://localhost/api|http://user@localhost"),
    (values.UPSTREAM, "expected a URL, not", "http://localhost:99999|http://[::1"),
    (values.DNS, "a URL with a host name", "http://10.0.0.1:80|https://[::1]|unix:/run/a.sock"),
    (values.URL, "expected a URL such as", "|localhost/metrics|ftp://localhost|http:///metrics"),
    (values.URL, HOST, "http://a..b/metrics"),
    (
        values.COLLECTOR,
        "such as http://127.0.0.1:4318, not",
        "localhost:4318|grpc://localhost:4317",
    ),
    (
        values.COLLECTOR,
        "without user, query and fragment",
        "http://me:s3cret@a:4318|http://a:1#spans",
    ),
    (values.COLLECTOR, "without user, query and fragment", "http://localhost:4318?token=s3cret"),
    (values.NETWORK, "write 10.0.0.0/8", "10.0.0.1/8"),
    (values.NETWORK, "expected an address or a CIDR", "10.0.0.0/33"),
    (
        values.HOST_HEADER,
        "HOST or HOST:PORT",
        "|a\r\nX-Remote-User: root|a b|a:b|http://a|\u00e9|a/",
    ),
    (values.HEADER, "the name of a header field", f"|X_Remote|-a|a b|a:|é|{'a' * 128}"),
    (values.LABEL, "expected a DNS label", f"|A|a.b|-a|a-|{'a' * 64}|a\n|ä"),
    (values.VERB, "a verb in small letters, such as", f"|WATCH|*|a b|a,b|a\n|ä|{'a' * 65}"),
    (values.SUBRESOURCE, "as exec, not ", f"|pods/exec|*|exec/|{'a' * 254}|a?|..|a\n"),
    (
        values.PATHS_BELOW,
        "a path such as /events",
        "|/|//|a|/a/*|/a//b|/a/../b|/a/.|/%61|/a?b|/a;b|/a\n",
    ),
    (values.PATH_PATTERN, "segment may be *", "|/|*|/a*|/*a|/**|/a//b|/a/|/a/../b|/%61|/a?b|/a\n"),
    (values.API_PREFIX, "a path such as /clusters/{workspace}", f"/|/{{a}}/{{b}}|/{1024 * 'a'}"),
    (values.HOST_PATTERN, "a host without a port", "a:80|*|*a|a.*.b|*.*.a|*.|*.::1|[a]|http://a|."),
    (values.PATH_PREFIX, "the begin of a path", "a|/|/a/|//a|/a//b|/a/.|/../a|/./a|/%41|/a?b|/a#b"),
    (values.PATH_PREFIX, "the begin of a path", "/a b|/ä"),
    (FLEET, "at most 63 letters, digits", f"|a/b|a_b|-a|a-|{'a' * 64}|ä|{{a}}"),
    (MEMBER, "at most 200 letters, digits", f"|a#b|a b|{'a' * 201}"),
    (SERVICE, "such as default/kubernetes", "|kubernetes|/a|a/|a/b/c|a/B"),
    (values.SERVICE_PORT, "expected the name of a port", "0|65536||a b|٣"),
    (values.TARGET, "such as /readyz", f"|readyz|/a b|/a\r\nX: y|/ä|/#a|{'/' * 1025}"),
]
"""Forms, what they say, and texts that they refuse."""


@pytest.mark.parametrize(
    ("form", "message", "text"),
    [(form, message, text) for form, message, texts in BAD for text in texts.split("|")],
)
def test_bad_values(form: Form, message: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        form.parse(text)
    assert "s3cret" not in str(caught.value)


@given(st.integers(0, 10**13))
def test_durations_survive_writing(nanoseconds: int) -> None:
    written = format_duration(nanoseconds / 1e9)
    assert nanoseconds == round(parse_duration(written) * 1e9)


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
    address = store_address("parent:link")
    assert StoreAddress(kind=Kind.PARENT) == address
    assert "the parent process" == str(address)


LOCATED, OF_THIS_FILE = SettingsLines.located, SettingsLines.of_this_file


@pytest.mark.parametrize(
    ("say", "problem", "said"),
    [
        (LOCATED, "upstream.url: wrong", "~:1: upstream.url: wrong"),
        (LOCATED, "upstream.tokenFile: lacking", "~:1: upstream.tokenFile: lacking"),
        (LOCATED, "jwt[0].keysFile: wrong", "~: jwt[0].keysFile: wrong"),
        (LOCATED, "authentication.jwt[0].caFile: x", "~:4: authentication.jwt[0].caFile: x"),
        (LOCATED, "@/keys: is no", "~:4: authentication.jwt[0].keysFile: @/keys: is no"),
        (LOCATED, "the file @/keys is", "~:4: authentication.jwt[0].keysFile: the file @/keys is"),
        (LOCATED, "@/keys:7: broken", "@/keys:7: broken"),
        (LOCATED, "give either admin or drain", "~:5: give either admin or drain"),
        (LOCATED, "flowControl.seats: no admin", "~: flowControl.seats: no admin"),
        (LOCATED, "nothing known", "~: nothing known"),
        (OF_THIS_FILE, "upstream.url: wrong", "~:1: upstream.url: wrong"),
        (OF_THIS_FILE, "upstream.identity (--x): needs", "upstream.identity (--x): needs"),
        (OF_THIS_FILE, "@/keys: is no", "~:4: authentication.jwt[0].keysFile: @/keys: is no"),
        (OF_THIS_FILE, "@/keys:7: broken", "@/keys:7: broken"),
        (OF_THIS_FILE, "~:2: wrong", "~:2: wrong"),
        (OF_THIS_FILE, "cannot listen; give another admin", "cannot listen; give another admin"),
        (
            OF_THIS_FILE,
            "one of upstream.dns, upstream.url",
            "~:1: one of upstream.dns, upstream.url",
        ),
    ],
)
def test_where_a_problem_is(
    tmp_path: Path, say: Callable[[SettingsLines, str], str], problem: str, said: str
) -> None:
    """A value that a flag may have given has a line only where it surely is the file's."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\nauthentication:\n  jwt:\n  - {keysFile: keys}\nadmin: ~\n"
    )
    given, expected = (
        text.replace("~", str(path)).replace("@", str(tmp_path)) for text in (problem, said)
    )

    assert expected == say(SettingsLines(path), given)
