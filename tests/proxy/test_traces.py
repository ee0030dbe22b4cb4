"""Audit-ID, traceparent and User-Agent among a request's fields."""

from __future__ import annotations

import re
import uuid
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.proxy.traces import (
    BATCH,
    Traces,
    audit_line,
    made_audit_lines,
    made_id,
    read_traces,
)

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_all() -> None:
    """They are found however their names are spelt."""
    fields = (
        b"Host: a\r\nUSER-AGENT: kubectl/v1.36 (linux)\r\nAudit-Id:  x-1\r\n"
        b"TraceParent: " + PARENT.encode() + b"\r\nX-Forwarded-For: "
    )

    assert Traces("x-1", PARENT, "kubectl/v1.36 (linux)") == read_traces(fields)


def test_none() -> None:
    """Fields that are like them, or values that are, are none of them."""
    fields = b"Host: a\r\nX-User-Agent: b\r\nReferer: audit-id: c\r\nUser-Agent-X: d\r\n"

    assert Traces("", "", "") == read_traces(fields)


def test_several() -> None:
    """As in kube-apiserver the first counts; several traceparents are none."""
    fields = b"Audit-ID: a\r\nAudit-ID: b\r\nUser-Agent: c\r\nUser-Agent: d\r\n"
    parent = f"traceparent: {PARENT}\r\n".encode()

    assert Traces("a", "", "c") == read_traces(fields + parent + parent)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(PARENT, PARENT, id="version-0"),
        pytest.param(f"{PARENT}-more", "", id="version-0-with-more"),
        pytest.param(f"01{PARENT[2:]}-more", f"01{PARENT[2:]}", id="later"),
        pytest.param(f"01{PARENT[2:]}more", "", id="later-without-dash"),
        pytest.param(f"ff{PARENT[2:]}", "", id="version-ff"),
        pytest.param(PARENT.upper(), "", id="upper-case"),
        pytest.param(f"00-{'0' * 32}-00f067aa0ba902b7-01", "", id="no-trace"),
        pytest.param(f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", "", id="no-span"),
        pytest.param("x", "", id="nonsense"),
        pytest.param("", "", id="empty"),
    ],
)
def test_traceparent(value: str, expected: str) -> None:
    """Only a proper one counts, by W3C's rules."""
    assert expected == read_traces(f"traceparent: {value}\r\n".encode()).traceparent


def test_no_text() -> None:
    """Bytes that are no UTF-8 are replaced."""
    assert "\ufffd" == read_traces(b"User-Agent: \xff\r\n").user_agent


@given(st.binary())
def test_any_bytes(fields: bytes) -> None:
    """Whatever the fields are, no line end comes out of them."""
    assert "\n" not in "".join(read_traces(fields))


def test_made_ids() -> None:
    """Each is a UUID of version 4, and another one, also beyond a batch."""
    lines = islice(made_audit_lines(), 3 * BATCH)
    made = {made_id(line) for line in lines}

    assert 3 * BATCH == len(made)
    for text in made:
        assert (4, text) == (uuid.UUID(text).version, str(uuid.UUID(text)))


def test_line() -> None:
    """It is one line, with its end."""
    assert b"Audit-Id: x-1\r\n" == audit_line("x-1")
    assert re.fullmatch(rb"Audit-Id: [0-9a-f-]{36}\r\n", next(made_audit_lines()))
