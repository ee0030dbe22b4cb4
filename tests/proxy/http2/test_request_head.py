"""Heads of HTTP/2 as HTTP/1.1 writes them; builds without HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.proxy.http2 import available, nghttp2
from apfproxy.proxy.http2.request_head import HAS_COOKIES, HAS_HOST, HAS_LENGTH, as_upgrade, head_of
from apfproxy.settings import Http2Settings

if TYPE_CHECKING:
    from pathlib import Path


def marks_of(fields: bytes) -> int:
    names = [line.partition(b":")[0] for line in fields.split(b"\r\n")]
    return (
        HAS_LENGTH * (b"content-length" in names)
        | HAS_HOST * (b"host" in names)
        | HAS_COOKIES * (names.count(b"cookie") > 1)
    )


def head(
    fields: bytes = b"",
    method: bytes = b"GET",
    path: bytes = b"/a?b=c",
    authority: bytes = b"h",
    *,
    is_whole: bool = True,
) -> bytes:
    return head_of(
        (method, b"https", authority, path, b"", fields, marks_of(fields)), is_whole=is_whole
    )


@pytest.mark.parametrize(
    ("fields", "authority", "behind"),
    [
        (b"host: H\r\na: b\r\n", b"h", b"\r\nHost: h\r\na: b\r\n\r\n"),
        (b"a: b\r\nhost:  h \r\n", b"h", b"\r\nHost: h\r\na: b\r\n\r\n"),
        (b"a: b\r\nhost: x\r\n", b"", b"\r\nHost: x\r\na: b\r\n\r\n"),
        (b"", b"", b"\r\n\r\n"),
        (
            b"cookie: a=1\r\nx: cookie: z\r\ncookie: b=2\r\nset-cookie: c\r\ncookie: d=3\r\n",
            b"",
            b"\r\nx: cookie: z\r\nset-cookie: c\r\ncookie: a=1; b=2; d=3\r\n\r\n",
        ),
    ],
)
def test_hosts_and_cookies(fields: bytes, authority: bytes, behind: bytes) -> None:
    assert b"GET /a?b=c HTTP/1.1" + behind == head(fields, authority=authority)


@pytest.mark.parametrize(
    ("fields", "is_whole", "is_chunked"),
    [
        (b"", True, False),
        (b"", False, True),
        (b"a: b\r\ncontent-length: 7\r\n", False, False),
        (b"x-content-length: 7\r\n", False, True),
    ],
)
def test_a_body_without_a_length_is_chunked(
    fields: bytes, *, is_whole: bool, is_chunked: bool
) -> None:
    found = head(fields, is_whole=is_whole)

    assert is_chunked == found.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")


@pytest.mark.parametrize(
    "changed",
    [
        {"path": b"/ HTTP/1.1\r\nX: y"},
        {"method": b"GET /x"},
        {"authority": b"a\r\nX: y"},
        {"path": b"/\x00"},
        {"fields": b"host: b\r\n"},
        {"authority": b"", "fields": b"host: a\r\nhost: a\r\n"},
    ],
)
def test_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(HeadError) as caught:
        head(**changed)

    assert 400 == caught.value.code


def test_marks_are_those_of_the_library() -> None:
    assert (nghttp2.HAS_LENGTH, nghttp2.HAS_HOST, nghttp2.HAS_COOKIES) == (
        HAS_LENGTH,
        HAS_HOST,
        HAS_COOKIES,
    )


@pytest.mark.parametrize("protocol", [b"websocket", b"WebSocket"])
def test_connect(protocol: bytes) -> None:
    fields = b"sec-websocket-version: 13\r\nupstream: https://a\r\n"
    request = (b"CONNECT", b"https", b"a", b"/chat?b=c", protocol, fields, 0)

    assert head_of(as_upgrade(request, b"KEY"), is_whole=True) == (
        b"GET /chat?b=c HTTP/1.1\r\nHost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: KEY\r\nsec-websocket-version: 13\r\nupstream: https://a\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("protocol", "marks", "code"),
    [(b"", 0, 405), (b"connect-udp", 0, 501), (b"websocket", HAS_LENGTH, 400)],
)
def test_connect_that_is_refused(protocol: bytes, marks: int, code: int) -> None:
    with pytest.raises(HeadError) as caught:
        as_upgrade((b"CONNECT", b"https", b"a", b"/", protocol, b"", marks), b"KEY")

    assert code == caught.value.code


@pytest.mark.parametrize(
    ("name", "why_not"),
    [
        ("nghttp2_absent", "HATCH_BUILD_HOOKS_ENABLE=1 pip install ."),
        ("nghttp2_broken", "libnghttp2 cannot be used: libnghttp2.so.14: no"),
    ],
)
def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why_not: str
) -> None:
    (tmp_path / "nghttp2_broken.py").write_text("raise ImportError('libnghttp2.so.14: no')")
    monkeypatch.syspath_prepend(tmp_path)
    binding, said = available.load(name)

    assert binding is None
    assert why_not in said


@pytest.mark.parametrize("is_enabled", [False, True])
@pytest.mark.parametrize("is_built", [False, True])
def test_offered(monkeypatch: pytest.MonkeyPatch, *, is_enabled: bool, is_built: bool) -> None:
    monkeypatch.setattr(available, "BINDING", pytest if is_built else None)
    monkeypatch.setattr(pytest, "VERSION", "1.52.0", raising=False)

    assert (is_enabled and is_built) == available.is_offered(Http2Settings(is_enabled=is_enabled))
    assert ("HTTP/2 by nghttp2 1.52.0" if is_built else "without HTTP/2") == available.version()
