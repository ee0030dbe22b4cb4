"""The chunked transfer coding."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.http.chunked import (
    MAX_EXTENSION_BYTES,
    MAX_LINE_BYTES,
    MAX_TRAILER_BYTES,
    MAX_TRAILER_FIELDS,
    ChunkedDecoder,
    ChunkedError,
    encode_chunk,
    last_chunk,
)


def decode(pieces: list[bytes]) -> tuple[bytes, bytes, bytes, bool]:
    decoder = ChunkedDecoder()
    body = rest = b""
    for piece in pieces:
        if decoder.is_done:
            rest += piece
        else:
            part, rest = decoder.feed(memoryview(piece) if len(piece) % 2 else piece)
            body += b"".join(part)
    return body, decoder.trailers, rest, decoder.is_done


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[a:b] for a, b in itertools.pairwise(places)]


LONGEST_EXTENSION = b";" + b"e" * (MAX_LINE_BYTES - 4)
FULL_TRAILERS = b"A: b\r\n" * MAX_TRAILER_FIELDS
LONGEST_TRAILER = b"A: " + b"b" * (MAX_TRAILER_BYTES - 3)

WELL_FORMED = [
    pytest.param(b"0\r\n\r\n", b"", b"", id="empty"),
    pytest.param(b"3\r\nabc\r\n0\r\n\r\n", b"abc", b"", id="one-chunk"),
    pytest.param(b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc", b"", id="two-chunks"),
    pytest.param(b"00A\r\n0123456789\r\n00\r\n\r\n", b"0123456789", b"", id="leading-zeros"),
    pytest.param(
        b'a;x="y"\r\n\r\n\r\n\r\n\r\n\r\n\r\n0;z\r\n\r\n', b"\r\n" * 5, b"", id="extension"
    ),
    pytest.param(b"1" + LONGEST_EXTENSION + b"\r\na\r\n0\r\n\r\n", b"a", b"", id="longest-line"),
    pytest.param(b"0\r\nA: b\r\nC:\td\r\n\r\n", b"", b"A: b\r\nC:\td\r\n", id="trailers"),
    pytest.param(b"0\r\n" + FULL_TRAILERS + b"\r\n", b"", FULL_TRAILERS, id="most-trailers"),
    pytest.param(
        b"0\r\n" + LONGEST_TRAILER + b"\r\n\r\n",
        b"",
        LONGEST_TRAILER + b"\r\n",
        id="longest-trailer",
    ),
    pytest.param(
        b"0\r\nA: b\r\nContent-Length: 3\r\nX_Remote_User: root\r\nHost: h\r\nIf-Match: x\r\n"
        b"Content_Type: t\r\nImpersonate-User: u\r\nX-Kubernetes-PF-FlowSchema-UID: u\r\n"
        b"Z: y\r\n\r\n",
        b"",
        b"A: b\r\nZ: y\r\n",
        id="fields-that-no-trailer-may-carry",
    ),
]


@pytest.mark.parametrize(("data", "body", "trailers"), WELL_FORMED)
@pytest.mark.parametrize("behind", [b"", b"GET / HTTP/1.1\r\n"], ids=["alone", "with-more"])
def test_decodes(data: bytes, body: bytes, trailers: bytes, behind: bytes) -> None:
    expected = (body, trailers, behind, True)

    assert expected == decode([data + behind])
    assert expected == decode([*bytewise(data), behind])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\r\n", id="no-size"),
        pytest.param(b"g\r\n", id="no-digit"),
        pytest.param(b"0x1\r\na\r\n", id="prefix"),
        pytest.param(b"+1\r\na\r\n", id="sign"),
        pytest.param(b"-1\r\na\r\n", id="negative"),
        pytest.param(b" 1\r\na\r\n", id="space-before"),
        pytest.param(b"1 \r\na\r\n", id="space-behind"),
        pytest.param(b"1 ;x\r\na\r\n", id="space-before-extension"),
        pytest.param(b"1_0\r\na\r\n", id="underscore"),
        pytest.param(b"1\na\n", id="bare-lf-after-size"),
        pytest.param(b"1\ra\r\n", id="bare-cr-after-size"),
        pytest.param(b"1000000000000000\r\n", id="sixteen-digits"),
        pytest.param(b"1;x\x00\r\n", id="control-character-in-extension"),
        pytest.param(b"1;x\ny\r\n", id="lf-in-extension"),
        pytest.param(b"1\r\nab\r\n", id="data-too-long"),
        pytest.param(b"1\r\na\n", id="bare-lf-after-data"),
        pytest.param(b"1\r\na\rb", id="cr-without-lf-after-data"),
        pytest.param(b"1\r\na0\r\n", id="no-end-of-data"),
        pytest.param(b"1" + LONGEST_EXTENSION + b"e\r\n", id="line-too-long"),
        pytest.param(
            (b"1" + LONGEST_EXTENSION + b"\r\na\r\n") * (1 + MAX_EXTENSION_BYTES // MAX_LINE_BYTES),
            id="extensions-too-long",
        ),
        pytest.param(b"1;" + b"e" * MAX_LINE_BYTES, id="endless-line"),
        pytest.param(b"0\r\nA b\r\n\r\n", id="trailer-without-colon"),
        pytest.param(b"0\r\nA : b\r\n\r\n", id="trailer-with-space-before-colon"),
        pytest.param(b"0\r\nA: b\r\n c\r\n\r\n", id="trailer-continued"),
        pytest.param(b"0\r\nA: b\nB: c\r\n\r\n", id="trailer-with-bare-lf"),
        pytest.param(b"0\r\nA: \x00\r\n\r\n", id="trailer-with-control-character"),
        pytest.param(b"0\r\n" + FULL_TRAILERS + b"A: b\r\n\r\n", id="too-many-trailers"),
        pytest.param(b"0\r\n" + FULL_TRAILERS + b"A: b\r\n", id="too-many-trailers-without-end"),
        pytest.param(b"0\r\n" + LONGEST_TRAILER + b"b\r\n\r\n", id="trailers-too-long"),
        pytest.param(b"0\r\n" + LONGEST_TRAILER + b"bcde", id="endless-trailers"),
    ],
)
def test_refuses(data: bytes) -> None:
    with pytest.raises(ChunkedError):
        decode([data])
    with pytest.raises(ChunkedError):
        decode(bytewise(data))


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    trailers=st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]),
    behind=st.binary(max_size=10),
    cuts=st.lists(st.integers(0, 300), max_size=8),
)
def test_round_trip(chunks: list[bytes], trailers: bytes, behind: bytes, cuts: list[int]) -> None:
    coded = b"".join(b"".join(encode_chunk([chunk], len(chunk))) for chunk in chunks)
    data = coded + last_chunk(trailers) + behind
    expected = (b"".join(chunks), trailers, behind, True)

    assert expected == decode(slices(data, cuts))


@given(
    data=st.one_of(
        st.binary(max_size=60),
        st.lists(
            st.sampled_from([b"0", b"1", b"a", b"f", b";", b"\r", b"\n", b"\r\n", b"A: b", b" "]),
            max_size=20,
        ).map(b"".join),
    ),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_any_bytes_give_the_same_however_cut(data: bytes, cuts: list[int]) -> None:
    outcomes: list[object] = []
    for pieces in ([data], slices(data, cuts), bytewise(data)):
        try:
            outcomes.append(decode(pieces))
        except ChunkedError:
            outcomes.append("refused")

    # An early cut may show the start of what later turns out to be malformed, never more.
    assert outcomes[0] == outcomes[1] == outcomes[2]
