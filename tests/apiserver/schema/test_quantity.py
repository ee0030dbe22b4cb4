"""Tests of exact numbers with suffixes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.schema.quantity import (
    FORMAT_RULE,
    LARGEST_EXPONENT,
    LONGEST,
    NANO,
    NUMBER_RULE,
    SUFFIX_RULE,
    Quantity,
    QuantityError,
    canonical_quantity,
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

texts = st.builds(
    lambda sign, whole, point, fraction, suffix: f"{sign}{whole}{point}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.one_of(st.integers(0, 2000), st.integers(0, 10**20)),
    st.just("."),
    st.text("0123456789", max_size=12),
    st.sampled_from(sorted(SUFFIXES)),
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Mi", "1Gi"),
        ("1Gi", "1Gi"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5."),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1e3", "1e3"),
        ("1000e0", "1e3"),
        ("100e0", "100e0"),
        ("10e-1", "1"),
        ("1E", "1E"),
        ("1000E", "1e21"),
        ("12e7", "120e6"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1e-10", "1e-9"),
        ("1e-999999999", "1e-9"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("-1024Ki", "-1Mi"),
        ("16Ei", "9223372036854775807"),
        ("-16Ei", "-9223372036854775807"),
        ("8Ki", "8Ki"),
        ("1023", "1023"),
        ("0", "0"),
        ("00", "0"),
        ("+", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("0.000", "0"),
        (".", "0"),
        ("Ki", "0"),
        ("0Ei", "0"),
        ("2000000", "2M"),
        ("20000000000000000000", "20E"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    """The suffix is the largest of its family that keeps the value."""
    assert canonical == canonical_quantity(text)


@pytest.mark.parametrize("text", ["+5", "007", "1.500", "1E3", "1e+3", "+5Ki", "0005Ki", "1001Ki"])
def test_seemingly_canonical_texts_are_kept(text: str) -> None:
    """What Kubernetes takes for canonical at a glance is not rewritten."""
    assert text == canonical_quantity(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_RULE),
        ("lots", FORMAT_RULE),
        ("1 Gi", FORMAT_RULE),
        ("1..5", FORMAT_RULE),
        ("--5", SUFFIX_RULE),
        ("\u0661", FORMAT_RULE),
        ("5\n", FORMAT_RULE),
        ("1ki", SUFFIX_RULE),
        ("1mi", SUFFIX_RULE),
        ("1e", SUFFIX_RULE),
        ("5+3", SUFFIX_RULE),
        ("1e3e3", FORMAT_RULE),
        ("Ei", NUMBER_RULE),
        ("-.e-20", NUMBER_RULE),
        ("1" * (LONGEST + 1), f"quantities must have at most {LONGEST} characters"),
        (
            f"1e{LARGEST_EXPONENT + 1}",
            f"quantities must have an exponent of at most {LARGEST_EXPONENT}",
        ),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    """What is no quantity is refused with the words of Kubernetes."""
    with pytest.raises(QuantityError) as caught:
        parse(text)

    assert message == str(caught.value)


@given(texts)
def test_the_canonical_form_keeps_the_value_and_itself(text: str) -> None:
    """Writing a quantity and reading it again changes nothing any more."""
    canonical = canonical_quantity(text)

    assert (parse(text), canonical) == (parse(canonical), canonical_quantity(canonical))


@given(texts)
def test_the_value_is_exact_or_rounded_up(text: str) -> None:
    """The value is that of the digits and the suffix, up to what the limits allow."""
    suffix = max((one for one in SUFFIXES if text.endswith(one)), key=len)
    exact = Fraction(text.removesuffix(suffix).rstrip(".")) * SUFFIXES[suffix]
    magnitude = -(-abs(exact) * NANO // 1)
    if suffix.endswith("i"):
        magnitude = min(magnitude, (2**63 - 1) * NANO)
    expected = -magnitude if exact < 0 else magnitude

    assert expected == parse(text).nano


@given(st.text("0123456789+-.eEinumkKMGTP", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes reading fail in another way; what is read has a canonical form."""
    try:
        canonical = canonical_quantity(text)
    except QuantityError:
        return

    assert parse(text) == parse(canonical)


def test_quantities_are_compared_by_value() -> None:
    """However they are written."""
    ordered = [parse(text) for text in ("-1", "0", "1m", "1000m", "1Ki", "1025")]

    assert ordered == sorted(ordered)
    assert parse("1") == parse("1000m")


def test_sums_are_exact() -> None:
    """They are written with the suffix of the first, unless that is zero."""
    assert "1100m" == str(parse("1") + parse("100m"))
    assert "1025Mi" == str(parse("0") + parse("1Gi") + parse("1048576"))


def test_quantities_are_hashable_by_value() -> None:
    """Equal quantities are one member of a set."""
    assert {Quantity(NANO, "1")} == {parse("1"), parse("1000m")}
