"""Host names that no web page from elsewhere can have."""

from __future__ import annotations

import pytest

from apfproxy.admin.own_names import is_own_name


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1:8081", True, id="address"),
        pytest.param("10.1.2.3", True, id="other-address"),
        pytest.param("[::1]:8081", True, id="ipv6"),
        pytest.param("localhost:8081", True, id="localhost"),
        pytest.param("LOCALHOST.", True, id="root"),
        pytest.param("apfproxy.localhost", True, id="under-localhost"),
        pytest.param("apfproxy", True, id="no-dot"),
        pytest.param("Node.Example:8081", True, id="machine"),
        pytest.param("", True, id="none"),
        pytest.param("evil.example:8081", False, id="public"),
        pytest.param("127.0.0.1.evil.example", False, id="like-an-address"),
        pytest.param("evil.example.:1", False, id="public-root"),
        pytest.param("localhost.evil.example", False, id="like-localhost"),
        pytest.param("notlocalhost.x", False, id="public-short"),
        pytest.param("evil.example,127.0.0.1", False, id="two"),
    ],
)
def test_is_own_name(host: str, *, expected: bool) -> None:
    """Names that anybody may have in public are none of this machine's."""
    assert expected == is_own_name(host, "node.example")
