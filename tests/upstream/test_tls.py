"""Which sessions with the upstream are remembered, and for how long."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from apfproxy.upstream.tls import MAX_AGE_S, SessionContext

NOW_S = 1_700_000_000.0


def text_of(unix_s: float) -> str:
    return dt.datetime.fromtimestamp(unix_s, dt.UTC).strftime("%b %d %H:%M:%S %Y GMT")


def transport_of(
    context: object,
    *,
    session: object,
    valid_until_s: float = NOW_S + 10 * MAX_AGE_S,
    is_resumed: bool = False,
) -> asyncio.BaseTransport:
    tls = SimpleNamespace(
        context=context,
        session=session,
        session_reused=is_resumed,
        getpeercert=lambda: {"notAfter": text_of(valid_until_s)},
    )
    return asyncio.BaseTransport({"ssl_object": tls})


def session_of(*, begun_s: float = NOW_S, has_ticket: bool = True) -> SimpleNamespace:
    return SimpleNamespace(time=begun_s, has_ticket=has_ticket)


def remembered(context: SessionContext) -> object:
    return context._session  # noqa: SLF001  OpenSSL takes no session but its own


@pytest.fixture
def context() -> SessionContext:
    return SessionContext(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def test_whole_handshake_is_remembered_for_an_hour(context: SessionContext) -> None:
    session = session_of()
    context.remember(transport_of(context.shared, session=session), NOW_S)
    assert session is remembered(context)
    context.expire(NOW_S + MAX_AGE_S - 1)
    assert session is remembered(context)
    context.expire(NOW_S + MAX_AGE_S)

    assert None is remembered(context)


def test_certificate_that_expires_ends_its_session(context: SessionContext) -> None:
    connection = transport_of(context.shared, session=session_of(), valid_until_s=NOW_S + 5)
    context.remember(connection, NOW_S + 4)
    assert None is not remembered(context)
    context.expire(NOW_S + 5)

    assert None is remembered(context)


def test_failed_handshake_ends_all_sessions_before(context: SessionContext) -> None:
    before, later = session_of(), session_of(begun_s=NOW_S + 2)
    context.remember(transport_of(context.shared, session=before), NOW_S)
    context.forget(NOW_S + 1)
    assert None is remembered(context)
    context.remember(transport_of(context.shared, session=before), NOW_S + 2)
    assert None is remembered(context)
    context.remember(transport_of(context.shared, session=later), NOW_S + 2)

    assert later is remembered(context)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"session": None}, id="none"),
        pytest.param({"session": session_of(has_ticket=False)}, id="no-ticket"),
        pytest.param({"session": session_of(begun_s=NOW_S - MAX_AGE_S)}, id="old"),
        pytest.param({"session": session_of(), "is_resumed": True}, id="resumed"),
        pytest.param({"session": session_of(), "context": None}, id="other-context"),
    ],
)
def test_what_is_not_remembered(context: SessionContext, changed: dict[str, Any]) -> None:
    arguments = {"context": context.shared, **changed}
    context.remember(transport_of(**arguments), NOW_S)

    assert None is remembered(context)
