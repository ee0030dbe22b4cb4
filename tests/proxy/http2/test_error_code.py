"""Codes of errors: those that another library has by the same names."""

from __future__ import annotations

from h2.errors import ErrorCodes

from apfproxy.proxy.http2 import error_code


def test_codes() -> None:
    """They are RFC 9113's."""
    codes = {name: value for name, value in vars(error_code).items() if isinstance(value, int)}

    assert 6 == len(codes)
    assert codes == {name: ErrorCodes[name].value for name in codes}
