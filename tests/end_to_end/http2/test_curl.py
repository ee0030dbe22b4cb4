"""curl over HTTP/2: each transfer as over HTTP/1.1, and as from the upstream itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import LimitSettings
from tests.end_to_end.http2.counterpart import BIG_BYTES, COOKIES, PIECE, ZIPPED, answer
from tests.end_to_end.http2.site import Site
from tests.end_to_end.peer import WAIT_S
from tests.end_to_end.programs import installed
from tests.end_to_end.scene import Setup, on_uvloop

if TYPE_CHECKING:
    from pathlib import Path

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
"""Fields of answers that are of one connection, or of the proxy."""

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


@dataclass(frozen=True)
class Transfer:
    """What curl came to.

    Attributes:
        version: Of HTTP.
        heads: Status and fields of each answer, interim ones included, and of trailers.
        body: Of the answer.
    """

    version: str
    heads: tuple[tuple[str, ...], ...]
    body: bytes


def heads_of(text: str) -> tuple[tuple[str, ...], ...]:
    """Each head, with its status first, without what may differ."""
    found = []
    for head in text.replace("\r\n", "\n").strip("\n").split("\n\n"):
        lines = head.split("\n")
        status = lines.pop(0).split(" ")[1] if lines[0].startswith("HTTP/") else "trailers"
        fields = sorted(
            f"{name.lower()}: {value.strip()}"
            for name, _, value in (line.partition(":") for line in lines)
            if name.lower() not in ADDED
        )
        # That a client may go on is said by whoever has the connection.
        if status != "100":
            found.append((status, *fields))
    return tuple(found)


async def transfer(folder: Path, url: str, *arguments: str) -> Transfer:
    """Have curl do something."""
    file = folder / "file"
    file.write_bytes(PIECE * (BIG_BYTES // len(PIECE)))
    heads, body = folder / "heads", folder / "body"
    heads.write_text("")
    body.write_bytes(b"")
    path, *others = (str(file) if each == "FILE" else each for each in arguments)
    data = file.read_bytes() if "-" in others else None
    process = await asyncio.create_subprocess_exec(
        installed("curl"),
        *("--silent", "--show-error", "--max-time", f"{WAIT_S:.0f}", "--path-as-is"),
        *("--cacert", str(folder / "ca.pem"), "--write-out", "%{http_version}"),
        *("--dump-header", str(heads), "--output", str(body)),
        *others,
        url + path,
        stdin=asyncio.subprocess.DEVNULL if data is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate(data)
    assert 0 == process.returncode, complaint.decode()
    got = b"" if "--head" in others else body.read_bytes()  # curl shows the head there
    return Transfer(said.decode(), heads_of(heads.read_text()), got)


@pytest.mark.parametrize("name", TRANSFERS)
@pytest.mark.parametrize("is_tls", [True, False], ids=["tls", "cleartext"])
@on_uvloop
async def test_transfers(tmp_path: Path, name: str, is_tls: bool) -> None:
    """What curl sends arrives, and what it gets is the same, whatever it speaks and to whom."""
    arguments = TRANSFERS[name]
    site = Site(tmp_path)
    async with site.running(is_tls=is_tls) as scene:
        scene.upstream.answer_with(answer)
        direct = await transfer(tmp_path, f"http://127.0.0.1:{scene.upstream.port}", *arguments)
        url = site.url(scene)
        way = "--http2" if is_tls else "--http2-prior-knowledge"
        old = await transfer(tmp_path, url, *arguments, "--http1.1")
        new = await transfer(tmp_path, url, *arguments, way)

    assert ("1.1", "2") == (old.version, new.version)
    assert direct.heads == old.heads == new.heads
    assert direct.body == old.body == new.body
    if name == "gzip":
        assert ZIPPED == new.body


@on_uvloop
async def test_streams_of_one_connection(tmp_path: Path) -> None:
    """Transfers at once share a connection, each with its own answer."""
    site = Site(tmp_path)
    async with site.running(is_tls=True) as scene:
        scene.upstream.answer_with(answer)
        url = f"{site.url(scene)}/echo?number=[1-50]"
        process = await asyncio.create_subprocess_exec(
            installed("curl"),
            *("--silent", "--show-error", "--fail", "--parallel", "--parallel-max", "50"),
            *("--http2", "--cacert", str(tmp_path / "ca.pem"), url),
            *("--output", str(tmp_path / "got-#1"), "--write-out", "%{num_connects}\n"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()

    assert 0 == process.returncode
    assert 1 == sum(map(int, said.split()))
    for number in range(1, 51):
        assert b"number=%d " % number in (tmp_path / f"got-{number}").read_bytes()


@pytest.mark.parametrize("is_tls", [True, False], ids=["tls", "cleartext"])
@on_uvloop
async def test_early_answers(tmp_path: Path, is_tls: bool) -> None:
    """Each upload that is refused at its head gets to know why."""
    site = Site(tmp_path)
    limited = Setup().with_downstream(limits=LimitSettings(max_body_bytes=1000))
    way = "--http2" if is_tls else "--http2-prior-knowledge"
    async with site.running(limited, is_tls=is_tls) as scene:
        for _ in range(5):
            answered = await transfer(tmp_path, site.url(scene), "/echo", "-T", "FILE", way)

            assert ("2", "413") == (answered.version, answered.heads[-1][0])
            assert b"maxBodyBytes" in answered.body
