"""Types of flags."""

from __future__ import annotations

import click
import pytest

from apfproxy.cli.parameters import ADDRESS, ADDRESS_OR_NONE, NOWHERE
from apfproxy.settings import Address


def test_text_is_read() -> None:
    """A flag's text becomes the value that settings hold."""
    assert ADDRESS.convert("localhost:1", None, None) == Address(host="localhost", port=1)


def test_value_stays() -> None:
    """A default that is a value already is left alone."""
    address = Address(host="localhost", port=1)
    assert ADDRESS.convert(address, None, None) is address


def test_none() -> None:
    """A listener may be switched off, where that is allowed."""
    assert ADDRESS_OR_NONE.convert("none", None, None) == NOWHERE


def test_bad_text() -> None:
    """A bad text is wrong usage, with what is expected."""
    with pytest.raises(click.UsageError, match="expected HOST:PORT"):
        ADDRESS.convert("none", None, None)
