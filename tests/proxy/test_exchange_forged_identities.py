"""Identities that a client makes up, in whatever way it spells them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings import FRONT_PROXY, IMPERSONATE, PASS_THROUGH
from tests.end_to_end.http2_peer import HTTP2, PROTOCOLS
from tests.proxy.fakes import status
from tests.proxy.spoken import BOTH_SPOKEN, client_of
from tests.proxy.test_exchange_authentication import Known, Tls, get

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture
def bench() -> Iterator[Known]:
    with Known(downstream=BOTH_SPOKEN) as result:
        yield result


SPELLINGS = st.sampled_from(["-", "_", ".", "~", "!"])
NOMINATES = re.compile(rb"^Connection:", re.MULTILINE)
CLAIM_NAMES = (
    "X-Remote-User",
    "X-Remote-Group",
    "X-Remote-Uid",
    "X-Remote-Extra-Scopes",
    "X-My-User",
)


@st.composite
def forged(draw: st.DrawFn, names: Sequence[str] = CLAIM_NAMES) -> bytes:
    """One of some fields in some spelling, perhaps nominated, perhaps twice."""
    name = draw(st.sampled_from(names))
    name = "".join(draw(SPELLINGS) if each == "-" else each for each in name)
    name = "".join(draw(st.sampled_from([each.lower(), each.upper()])) for each in name)
    space = draw(st.sampled_from(["", " ", "\t "]))
    line = f"{name}:{space}forged{space}\r\n".encode()
    nominated = f"Connection: {name}\r\n".encode() if draw(st.booleans()) else b""
    return draw(st.sampled_from([line, line + line, nominated + line, line + nominated]))


@given(lines=st.lists(forged(), min_size=1, max_size=3), is_tls=st.booleans())
@pytest.mark.parametrize("assertion", [PASS_THROUGH, FRONT_PROXY])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_spelling_forges_an_identity(
    protocol: str, assertion: str, lines: list[bytes], is_tls: bool
) -> None:
    """Of a client that is no front proxy nothing gets through that an upstream could believe."""
    with Known(assertion, BOTH_SPOKEN) as bench:
        client = client_of(bench, protocol, Tls(b"alice") if is_tls else None)
        bench.send(client, get("quick", *lines))
        sent = bench.upstreams[0].take().lower()
        assert b"forged" not in sent
        is_malformed = protocol == HTTP2 and NOMINATES.search(b"".join(lines))
        if is_malformed:
            assert (b"", b"400") == (sent, status(client.take()))
        elif assertion == FRONT_PROXY:
            assert 1 == sent.count(b"x-remote-user: " + (b"alice" if is_tls else b"quick"))
        bench.end(client)
        bench.assert_at_rest()


@given(
    lines=st.lists(
        forged(["Impersonate-User", "Impersonate-Group", "Impersonate-Extra-A", "X-My-User"]),
        min_size=1,
        max_size=3,
    )
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_spelling_borrows_the_rights_of_the_proxy(protocol: str, lines: list[bytes]) -> None:
    """Where the proxy impersonates, nobody else does so in its name."""
    with Known(IMPERSONATE, BOTH_SPOKEN) as bench:
        client = client_of(bench, protocol)
        bench.send(client, get("quick", *lines))
        sent = bench.upstreams[0].take().lower()
        assert b"forged" not in sent
        if sent:
            assert [1, 1, 0] == [
                sent.count(name) for name in (b"authorization:", b"impersonate-", b"bearer quick")
            ]
            assert b"\r\nimpersonate-user: quick\r\n" in sent
        else:
            assert status(client.take()) in {b"400", b"403"}
        bench.end(client)
        bench.assert_at_rest()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(get("quick", b"X-Remote-User : admin\r\n"), id="space-before-the-colon"),
        pytest.param(get("quick", b"A: b\r\n X-Remote-User: admin\r\n"), id="continued-line"),
        pytest.param(get("quick", b"A: b\rX-Remote-User: admin\r\n"), id="bare-carriage-return"),
        pytest.param(get("quick", b"A: b\nX-Remote-User: admin\r\n"), id="bare-line-feed"),
        pytest.param(get("quick", b"A: b\x00X-Remote-User: admin\r\n"), id="nul"),
        pytest.param(get("quick", b"Authorization: Bearer a\r\n"), id="second-token"),
        pytest.param(get("quick", b"Connection: Authorization\r\n"), id="nominated-token"),
        pytest.param(get("quick", b"Impersonate-Group: system:masters\r\n"), id="group-of-nobody"),
        pytest.param(get("quick", b"Impersonate-User: \xff\r\n"), id="no-text"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_malformed_identities(bench: Known, protocol: str, request_: bytes) -> None:
    """What parsers read differently is refused, and its connection closed, or its stream."""
    client = client_of(bench, protocol)
    bench.send(client, request_)
    answer = client.take()

    assert b"400" == status(answer)
    assert protocol == HTTP2 or b"\r\nConnection: close\r\n" in answer
    assert b"" == bench.upstreams[0].take()
    bench.end(client)
    bench.assert_at_rest()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_trailers_claim_nothing(bench: Known, protocol: str) -> None:
    head = get("quick", b"Transfer-Encoding: chunked\r\n").replace(b"GET", b"POST", 1)
    trailers = (
        b"X-Remote-User: forged\r\nx_remote_group: forged\r\nImpersonate-User: forged\r\n"
        b"X-My-User: forged\r\nX_MY_USER: forged\r\nAuthorization: forged\r\n"
        b"X.Remote.Extra-a: forged\r\nA: kept\r\n"
    )
    client = client_of(bench, protocol)
    bench.send(client, head + b"0\r\n" + trailers + b"\r\n")
    sent = bench.upstreams[0].take()

    assert sent.lower().endswith(b"0\r\na: kept\r\n\r\n")
    assert b"forged" not in sent
    bench.end(client)
    bench.assert_at_rest()
