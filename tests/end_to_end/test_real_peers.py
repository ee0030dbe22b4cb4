"""Between programs of others: nginx as the upstream, aiohttp as the client."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import aiohttp

from tests.end_to_end.programs import nginx
from tests.end_to_end.scene import on_uvloop, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

BIG_BYTES = 5_000_000

SERVER = """
location / { root DIRECTORY; }
location /text/ { alias DIRECTORY/; gzip on; gzip_proxied any; gzip_types text/plain; }
location /put/ { root DIRECTORY; dav_methods PUT; create_full_put_path on; }
client_max_body_size 100m;
location /moved { return 307 http://elsewhere.test/; }
"""


@on_uvloop
async def test_nginx_as_the_upstream(tmp_path: Path) -> None:
    """Files, parts of them, heads, what has not changed, compressed text and bodies are whole."""
    big = random.Random(1).randbytes(BIG_BYTES)  # noqa: S311  not a secret
    (tmp_path / "big.bin").write_bytes(big)
    text = "one line of many\n" * 10_000
    (tmp_path / "long.txt").write_text(text)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, BIG_BYTES, 100_000):
            yield big[start : start + 100_000]

    with nginx(
        tmp_path, "include /etc/nginx/mime.types;" + SERVER.replace("DIRECTORY", str(tmp_path))
    ) as port:
        async with (
            running(upstream_port=port) as scene,
            aiohttp.ClientSession(f"http://127.0.0.1:{scene.process.port}") as session,
        ):
            async with session.get("/big.bin") as answer:
                assert big == await answer.read()
                tag = answer.headers["ETag"]
            async with session.get("/big.bin", headers={"Range": "bytes=10-19"}) as answer:
                assert (206, big[10:20]) == (answer.status, await answer.read())
            async with session.head("/big.bin") as answer:
                assert (200, str(BIG_BYTES)) == (answer.status, answer.headers["Content-Length"])
            async with session.get("/big.bin", headers={"If-None-Match": tag}) as answer:
                assert (304, b"") == (answer.status, await answer.read())
            async with session.get("/moved", allow_redirects=False) as answer:
                assert "http://elsewhere.test/" == answer.headers["Location"]
            async with session.get("/none") as answer:
                assert 404 == answer.status
            # It has no length, since it is compressed as it goes.
            async with session.get("/text/long.txt", headers={"Accept-Encoding": "gzip"}) as answer:
                assert "chunked" == answer.headers["Transfer-Encoding"]
                assert "gzip" == answer.headers["Content-Encoding"]
                assert text == await answer.text()
            for path, body in (("/put/sized", io.BytesIO(big)), ("/put/chunked", pieces())):
                async with session.put(path, data=body) as answer:
                    assert 201 == answer.status
                assert big == (tmp_path / path[1:]).read_bytes()
            assert 1 == scene.process.cluster.served.pool.open_count
