"""Quantities: exact numbers with a suffix, such as `500m`, `4Gi` or `1e3`.

There are three families of suffixes: decimal (`n u m k M G T P E`), binary (`Ki Mi Gi Ti Pi Ei`)
and decimal exponents (`e3`, `E3`).  A quantity keeps the family that it was written in.  Its
canonical form has no fraction, no plus sign, and the largest suffix of the family that keeps the
value:

1. What is finer than `n` is rounded away from zero, so that something never becomes nothing.
2. A binary quantity is at most 2^63 - 1 in magnitude; more becomes that, silently.
3. A binary quantity that is no integer, or nearer to zero than 1024, gets a decimal suffix.
4. Where no decimal suffix is large enough, an exponent is used.  (Kubernetes 1.36 writes `1000E`
   as `1` there and thus loses the value.  Later versions write `1e21`, and so does this.)
5. Quantities that are probably canonical are left as they were written.  Kubernetes' quick look
   takes some for canonical that are not, such as `+5`, `007`, `1.500` or `1E3`: they stay.

Sources: Kubernetes API reference, "Quantity"; kubernetes/apimachinery pkg/api/resource.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

LONGEST = 1_000
"""Characters.  Kubernetes is bounded by the size of a request only; nothing sensible is as long."""
LARGEST_EXPONENT = 1_000
"""Kubernetes has no such limit: ten characters make it compute with a billion digits."""
LARGEST_BINARY = 2**63 - 1
NANO_EXPONENT = -9
NANO = 10**9
SMALLEST_BINARY = 1024
"""Nearer to zero than this, a binary quantity is written in decimal."""
MOST_QUICK_DIGITS, MOST_QUICK_BINARY_DIGITS = 18, 14
"""With more Kubernetes does not look quickly; of binary ones three fewer for each `Ki`."""

FORMAT_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
"""Suffixes to powers of ten, and of 1024."""
DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in DECIMAL.items()}
BINARY_SUFFIXES = {0: "", **{power: suffix for suffix, power in BINARY.items()}}

# Possessive, so that no input makes matching slow.
PATTERN = re.compile(
    r"([+-]?)(0*+)([0-9]*+)((?:\.([0-9]*+))?)([eEinumkKMGTP]*+[-+]?[0-9]*+)", flags=re.ASCII
)
EXPONENT_PATTERN = re.compile(r"[eE]([+-]?[0-9]+)", flags=re.ASCII)


class QuantityError(ValueError):
    """The text is no quantity; the message is that of Kubernetes."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact number in units of 1e-9, and how it is written; comparison is by value."""

    nano: int
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Quantity) -> Quantity:
        total = self.nano + other.nano
        # The sum is written as the first of the two is, unless that is zero.
        first = self if self.nano else other
        return Quantity(total, _text_of(total, is_binary=first.text.endswith("i")))


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """The quantity that a text, or that of a JSON number, stands for; or QuantityError."""
    if len(text) > LONGEST:
        raise QuantityError(f"quantities must have at most {LONGEST} characters")
    match = PATTERN.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_RULE)
    sign, zeros, number, point, fraction, suffix = match.groups(default="")
    if not number and not point and not suffix:
        return Quantity(0, "0")
    has_digits = bool(zeros or number or fraction)
    digits = (number or "0") + fraction
    power = BINARY.get(suffix)
    if power is None:
        scale = (DECIMAL[suffix] if suffix in DECIMAL else _exponent_of(suffix)) - len(fraction)
        nano = _rounded_nano(int(digits), scale)
        is_quick = len(digits) <= MOST_QUICK_DIGITS and scale >= NANO_EXPONENT
        is_kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    else:
        nano = _rounded_nano(int(digits) * 1024**power, -len(fraction))
        nano = min(nano, LARGEST_BINARY * NANO)
        is_quick = not fraction and len(digits) <= MOST_QUICK_BINARY_DIGITS - 3 * power
        is_kept = int(digits) % 8 != 0
    if not is_quick and not has_digits:
        raise QuantityError("unable to parse numeric part of quantity")
    if sign == "-":
        nano = -nano
    if is_quick and is_kept:
        return Quantity(nano, text)
    has_suffixes = power is not None or suffix in DECIMAL
    return Quantity(nano, _text_of(nano, is_binary=power is not None, has_suffixes=has_suffixes))


def _exponent_of(suffix: str) -> int:
    match = EXPONENT_PATTERN.fullmatch(suffix)
    if match is None:
        raise QuantityError("unable to parse quantity's suffix")
    exponent = int(match[1])
    if exponent > LARGEST_EXPONENT:
        raise QuantityError(f"quantities must have an exponent of at most {LARGEST_EXPONENT}")
    return exponent


def _rounded_nano(unscaled: int, exponent: int) -> int:
    """`unscaled` times a power of ten, in units of 1e-9, rounded up."""
    exponent -= NANO_EXPONENT
    if exponent >= 0:
        return int(unscaled * 10**exponent)
    if -exponent > LONGEST * 2:
        # Less than one, however long the text and its suffix: no need for so large a divisor.
        return int(unscaled > 0)
    return int(-(-unscaled // 10**-exponent))


def _text_of(nano: int, *, is_binary: bool, has_suffixes: bool = True) -> str:
    """The canonical text of a value: an integer with the largest suffix, or exponent, that fits."""
    value, rest = divmod(nano, NANO)
    if is_binary and not rest and abs(value) >= SMALLEST_BINARY:
        power = 0
        while value % 1024 == 0:
            value //= 1024
            power += 1
        return f"{value}{BINARY_SUFFIXES[power]}"
    if nano == 0:
        return "0"
    digits = str(nano)
    significant = digits.rstrip("0")
    zeros = len(digits) - len(significant)
    exponent = NANO_EXPONENT + zeros // 3 * 3
    suffix = DECIMAL_SUFFIXES.get(exponent) if has_suffixes or not exponent else None
    suffix = f"e{exponent}" if suffix is None else suffix
    return significant + "0" * (zeros % 3) + suffix
