"""Who the proxy is when it asks servers how they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.app.test_identities import OWN_TOKEN, Folder, made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("identity", "has_token", "expected"),
    [
        ("passThrough", False, b""),
        ("passThrough", True, b"Authorization: Bearer %b\r\n"),
        ("impersonate", True, b"Authorization: Bearer %b\r\n"),
        (
            "frontProxy",
            False,
            b"X-Remote-User: apfproxy\r\nX-Remote-Group: system:authenticated\r\n",
        ),
    ],
)
def test_who_asks_servers_how_they_are(
    tmp_path: Path, identity: str, *, has_token: bool, expected: bytes
) -> None:
    """The proxy itself, by the means that it has."""
    folder = Folder(tmp_path)
    settings = folder.settings
    upstream = replace(
        settings.upstream,
        identity=identity,
        token_file=folder.of("own-token") if has_token else None,
        tls=replace(
            settings.upstream.tls,
            certificate_file=folder.of("proxy.crt"),
            key_file=folder.of("proxy.key"),
        ),
    )
    subject = made(replace(settings, upstream=upstream))

    assert expected.replace(b"%b", OWN_TOKEN.encode()) == subject.own_lines
