"""Exact numbers with suffixes."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.schema.quantity import (
    FORMAT_RULE,
    LARGEST_EXPONENT,
    LONGEST,
    NANO,
    QuantityError,
    parse,
)

SUFFIXES = {
    "n": Fraction(1, NANO),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** (power + 1) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
    **{f"e{exponent}": Fraction(10) ** exponent for exponent in (-12, -9, -3, -1, 0, 1, 6, 21)},
}

CANONICAL = """
    1024Mi=1Gi 0.5=500m 5.=5. 1000m=1 1e3=1e3 1000e0=1e3 100e0=100e0 10e-1=1 1E=1E 1000E=1e21
    12e7=120e6 0.1n=1n -0.1n=-1n 1e-999999999=1e-9 1.5Gi=1536Mi 0.5Ki=512 1.1Ki=1126400m
    -1024Ki=-1Mi 16Ei=9223372036854775807 -16Ei=-9223372036854775807 00=0 +=0 -0=0 0Ki=0 .=0
    Ki=0 20000000000000000000=20E +5=+5 007=007
    1.500=1.500 1E3=1E3 +5Ki=+5Ki 0005Ki=0005Ki 1001Ki=1001Ki
""".split()  # noqa: SIM905  pairs read best in rows


@pytest.mark.parametrize("pair", CANONICAL)
def test_canonical_form(pair: str) -> None:
    """The suffix is the largest that keeps the value; seemingly canonical texts are kept."""
    text, _, canonical = pair.partition("=")

    assert canonical == str(parse(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, FORMAT_RULE) for text in ("", "1 Gi", "1..5", "\u0661", "5\n", "1e3e3")),
        *((text, "unable to parse quantity's suffix") for text in ("--5", "1ki", "1e", "5+3")),
        *((text, "unable to parse numeric part of quantity") for text in ("Ei", "-.e-20")),
        ("1" * (LONGEST + 1), f"quantities must have at most {LONGEST} characters"),
        (
            f"1e{LARGEST_EXPONENT + 1}",
            f"quantities must have an exponent of at most {LARGEST_EXPONENT}",
        ),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)

    assert message == str(caught.value)


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 2000) | st.integers(0, 10**20),
    st.text("0123456789", max_size=12),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_the_value_is_exact_or_rounded_up(
    sign: str, whole: int, fraction: str, suffix: str
) -> None:
    """The value is that of digits and suffix within the limits, and its text has the same."""
    magnitude = -(-Fraction(f"{whole}.{fraction or 0}") * SUFFIXES[suffix] * NANO // 1)
    if suffix.endswith("i"):
        magnitude = min(magnitude, (2**63 - 1) * NANO)

    found = parse(f"{sign}{whole}.{fraction}{suffix}")

    assert (-magnitude if sign == "-" else magnitude) == found.nano
    assert (found.nano, found.text) == (parse(found.text).nano, parse(found.text).text)


@given(st.text("0123456789+-.eEinumkKMGTP", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(QuantityError):
        assert parse(text) == parse(parse(text).text)
