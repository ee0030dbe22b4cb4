"""curl over HTTP/2: each transfer as over HTTP/1.1, and as from the upstream itself."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from apfproxy.settings import LimitSettings
from tests.end_to_end.api_servers import in_thread
from tests.end_to_end.http2.counterpart import BIG_BYTES, COOKIES, PIECE, ZIPPED, answer
from tests.end_to_end.http2.site import Site
from tests.end_to_end.peer import WAIT_S
from tests.end_to_end.programs import installed
from tests.end_to_end.scene import Setup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

MAX_BODY_BYTES = 6_000_000
ADDED = {
    "connection",
    "content-length",  # without a body HTTP/2 needs none
    "date",
    "keep-alive",
    "trailer",
    "transfer-encoding",
    "via",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
}
"""Response fields that are of one connection, or of the proxy."""

TRANSFERS: dict[str, tuple[str, ...]] = {
    "get": ("/echo?a=b%20c&d",),
    "fields": ("/echo", "-H", "X-A: 1", "-H", "X-A: two words"),
    "head": ("/echo", "--head"),
    "cookies-sent": ("/echo", "-b", "; ".join(f"c{each}={'v' * 60}" for each in range(COOKIES))),
    "cookies-set": ("/cookies",),
    "no-content": ("/empty",),
    "not-modified": ("/known", "-H", 'If-None-Match: "1"'),
    "not-found": ("/unknown",),
    "gzip": ("/zipped", "-H", "Accept-Encoding: gzip"),
    "gzip-opened": ("/zipped", "--compressed"),
    "early-hints": ("/hints",),
    "trailers": ("/trailers",),
    "download": ("/big",),
    "post": ("/echo", "-d", "a=b"),
    "post-nothing": ("/echo", "-X", "POST", "-H", "Content-Length: 0"),
    "patch": ("/echo", "-X", "PATCH", "-H", "Content-Type: application/json", "-d", "{}"),
    "delete": ("/echo", "-X", "DELETE"),
    "delete-with-body": ("/echo", "-X", "DELETE", "-d", "{}"),
    "expect": ("/echo", "-H", "Expect: 100-continue", "-d", "a=b"),
    "upload": ("/echo", "-T", "FILE"),
    "upload-without-length": ("/echo", "-T", "-"),
}


class Place(NamedTuple):
    """A running proxy: its folder, the option for HTTP/2, and URLs of upstream and proxy."""

    folder: Path
    http2: str
    upstream: str
    proxy: str


class Transfer(NamedTuple):
    """The outcome of a transfer: version, heads of all responses and of trailers, and body."""

    version: str
    heads: tuple[tuple[str, ...], ...]
    body: bytes


@pytest.fixture(scope="module", params=[True, False], ids=["tls", "cleartext"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder, is_tls = tmp_path_factory.mktemp("curl"), request.param
    (folder / "file").write_bytes(PIECE * (BIG_BYTES // len(PIECE)))
    (folder / "too-large").write_bytes(bytes(MAX_BODY_BYTES + 1))

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[Place]:
        site = Site(folder)
        limited = Setup().with_downstream(limits=LimitSettings(max_body_bytes=MAX_BODY_BYTES))
        async with site.running(limited, is_tls=is_tls) as scene:
            scene.upstream.answer_with(answer)
            upstream = f"http://127.0.0.1:{scene.upstream.port}"
            way = "--http2" if is_tls else "--http2-prior-knowledge"
            yield Place(folder, way, upstream, site.url(scene))

    with in_thread(running()) as found:
        yield found


def heads_of(text: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for head in text.replace("\r\n", "\n").strip("\n").split("\n\n"):
        lines = head.split("\n")
        status = lines.pop(0).split(" ")[1] if lines[0].startswith("HTTP/") else "trailers"
        fields = sorted(
            f"{name.lower()}: {value.strip()}"
            for name, _, value in (line.partition(":") for line in lines)
            if name.lower() not in ADDED
        )
        # 100 is sent by the side that has the connection.
        if status != "100":
            found.append((status, *fields))
    return tuple(found)


def transfer(folder: Path, url: str, path: str, *options: str) -> Transfer:
    heads, body = folder / "heads", folder / "body"
    heads.write_text("")
    body.write_bytes(b"")
    done = subprocess.run(  # noqa: S603  curl
        [
            *(installed("curl"), "--silent", "--show-error", "--max-time", f"{WAIT_S:.0f}"),
            *("--path-as-is", "--cacert", str(folder / "ca.pem"), "--write-out", "%{http_version}"),
            *("--dump-header", str(heads), "--output", str(body)),
            *(str(folder / "file") if each == "FILE" else each for each in options),
            url + path,
        ],
        input=(folder / "file").read_bytes() if "-" in options else b"",
        capture_output=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode()
    got = b"" if "--head" in options else body.read_bytes()  # curl shows the head there
    return Transfer(done.stdout.decode(), heads_of(heads.read_text()), got)


@pytest.mark.parametrize("name", TRANSFERS)
def test_transfers(place: Place, name: str) -> None:
    """The upstream gets the same, and so does curl, whatever it speaks and to whom."""
    direct = transfer(place.folder, place.upstream, *TRANSFERS[name])
    old = transfer(place.folder, place.proxy, *TRANSFERS[name], "--http1.1")
    new = transfer(place.folder, place.proxy, *TRANSFERS[name], place.http2)

    assert ("1.1", "2") == (old.version, new.version)
    assert direct.heads == old.heads == new.heads
    assert direct.body == old.body == new.body
    if name == "gzip":
        assert ZIPPED == new.body


def test_upload_that_is_refused(place: Place) -> None:
    """An upload that is refused at its head gets to know why."""
    path = str(place.folder / "too-large")
    refused = transfer(place.folder, place.proxy, "/echo", "-T", path, place.http2)

    assert ("2", "413") == (refused.version, refused.heads[-1][0])
    assert b"maxBodyBytes" in refused.body
