"""User name and password of `Authorization: Basic`, RFC 7617."""

from __future__ import annotations

import binascii


class BasicError(ValueError):
    """There is no user name and password; the client's fault."""


def user_and_password(encoded: str) -> tuple[str, bytes]:
    """Both of what stands behind the scheme, or BasicError; the password's bytes as they are."""
    try:
        pair = binascii.a2b_base64(encoded, strict_mode=True)
        name, colon, password = pair.partition(b":")
        user = name.decode()
    except (binascii.Error, ValueError):  # its text may have a part of it
        raise BasicError("Basic is not a user name and a password in Base64") from None
    if not colon:
        raise BasicError("Basic has no password")
    return user, password
