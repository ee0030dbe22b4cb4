"""Access to the admin listener; processes are in `tests/end_to_end/test_admin_access.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace
from multidict import CIMultiDict

from apfproxy.admin.access import AdminAccess, Refusal, token_of
from apfproxy.base.errors import OperatorError
from apfproxy.settings import AdminTlsSettings, Settings
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOKEN, WRITERS = "token-of-32-characters-and-so-on", "writers-token-of-32-characters-x"
NOWHERE = "/nowhere"
TCP, UNIX = ("127.0.0.1", 1), "/run/socket"


def refusal(
    access: AdminAccess, path: str, shown: Sequence[str] = (), own_address: object = TCP
) -> Refusal | None:
    headers = CIMultiDict(("Authorization", each) for each in shown)
    transport = asyncio.Transport({"sockname": own_address})
    return access.refusal(make_mocked_request("GET", path, headers, transport=transport))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "readers").write_text(f"# a\n{TOKEN}\n")
    (tmp_path / "writers").write_text(WRITERS)
    return Settings(
        admin_read_token_file=str(tmp_path / "readers"), admin_token_file=str(tmp_path / "writers")
    )


@pytest.mark.parametrize(
    ("path", "shown", "may"),
    [
        pytest.param("/metrics", [], False, id="nothing"),
        pytest.param("/metrics", [f"Bearer {TOKEN}"], True, id="token"),
        pytest.param("/metrics", [f"Bearer {WRITERS}"], True, id="writers-token"),
        pytest.param("/metrics", [f"Bearer {TOKEN}"] * 2, False, id="twice"),
        pytest.param("/metrics", [f"Digest {TOKEN}"], False, id="another-scheme"),
        pytest.param("/metrics", [f"Bearer {TOKEN[:-1]}"], False, id="cut"),
        pytest.param("/livez", [], True, id="health"),
        pytest.param("/readyz/ping", [], True, id="a-check"),
        pytest.param("/livezx", [], False, id="like-health"),
        pytest.param("/clusters/a/livez", [], False, id="within"),
    ],
)
def test_tokens(settings: Settings, path: str, shown: list[str], may: bool) -> None:
    access = AdminAccess(settings)

    assert may == (refusal(access, path, shown) is None)
    assert TOKEN not in repr(access)


def test_unix_socket_and_nothing_asked_for(settings: Settings) -> None:
    access = AdminAccess(settings)

    assert None is refusal(access, "/metrics", own_address=UNIX)
    assert Refusal.NO_CREDENTIALS is refusal(access, "/metrics", own_address=None)
    assert None is refusal(AdminAccess(Settings()), "/metrics")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (["bearer  a "], b"a"),
        (["Basic dTphOmI="], b"a:b"),
        (["Basic dQ=="], b""),
        (["Basic d"], None),
        (["Basic \udcff"], None),
        ([""], None),
    ],
)
def test_token_of(shown: list[str], expected: bytes | None) -> None:
    """The password is what comes behind the first colon."""
    assert expected == token_of(shown)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"admin_read_token_file": "/nowhere"}, "nowhere"),
        ({"admin_read_token_file": __file__}, "something else"),
        (
            {"admin_tls": AdminTlsSettings(certificate_file=__file__, key_file=__file__)},
            "adminTls.certificateFile: .* has no certificate",
        ),
    ],
)
def test_files_of_no_use(changes: dict[str, object], message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        AdminAccess(Settings(**changes))  # type: ignore[arg-type]  # by their names


async def test_other_settings(settings: Settings, tmp_path: Path) -> None:
    """They count once they are committed; those of no use change nothing."""
    access = AdminAccess(settings)
    access.start()
    with pytest.raises(OperatorError):
        await access.prepare(replace(settings, admin_read_token_file=NOWHERE))
    same = await access.prepare(settings)
    other = await access.prepare(Settings())
    same.commit()
    before = refusal(access, "/")
    other.commit()
    after = refusal(access, "/")
    authority = Authority("a")
    certificate, key = authority.issue("s", usage="server").write(tmp_path, "s")
    tls = AdminTlsSettings(
        certificate_file=certificate, key_file=key, client_ca_file=authority.write(tmp_path)
    )
    (await access.prepare(Settings(admin_tls=tls))).commit()
    by_certificate = refusal(access, "/"), access.context is not None
    access.stop()

    missing = Refusal.NO_CREDENTIALS
    assert (missing, None, (missing, True)) == (before, after, by_certificate)


async def test_problems(settings: Settings, tmp_path: Path) -> None:
    certificate, key = Authority("a").issue("s", usage="server").write(tmp_path, "s")
    tls = AdminTlsSettings(certificate_file=certificate, key_file=key)
    tokens = AdminAccess(settings)
    well = tokens.problem()
    (tmp_path / "readers").write_text("short")
    await tokens.read_again()

    assert well is None
    assert "shorter than 16 characters" in (tokens.problem() or "")
    assert AdminAccess(Settings(admin_tls=tls)).problem() is None
