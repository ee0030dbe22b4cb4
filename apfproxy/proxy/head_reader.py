"""The reader of the heads that come on one connection: bytes to requests.

A head whose header block is known needs no parser: its line is divided at the spaces, and its
target is read in one pass.  Any other head llhttp judges as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.sockets import written
from apfproxy.http.grammar import HeadError
from apfproxy.http.read_buffer import NOWHERE
from apfproxy.http.request_fields import SIZED
from apfproxy.http.request_head import RequestHead, parse_fields, parse_head, target_too_long
from apfproxy.proxy.request import HeaderBlock, key_of
from apfproxy.proxy.tls import group_of, peer_certificates

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable

    from apfproxy.authn.credentials import Peer
    from apfproxy.proxy.cluster_router import ClusterRouter, Route
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import ClientKind, Request

MAX_BLOCK_BYTES = 2048
"""Longer blocks are read each time: they would take the room of many."""
MAX_BLOCKS: Final = 3
"""By which a connection is known: a program sends one with each kind of body."""
MAX_REPEATED_BYTES: Final = 512
"""Bounds a head that a connection knows again as a whole: longer ones cost too much memory."""

# A request line that needs no parser, since llhttp accepts it, too: one of Kubernetes' methods, and
# a path of visible ASCII.
_METHODS: Final[dict[bytes, str]] = {
    method.encode(): method
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
}
_VISIBLE: Final = bytes(sorted({*range(0x21, 0x7F)} - {ord("#")}))


class HeadReader:
    """Holds what is known of one connection's client, and of the requests that it has made.

    Attributes:
        context: Of the cluster that the last request was of; None before that is known.
        last_head: The last head that came alone, if it was short.
        last_request: The request of that head, if it came twice.
    """

    def __init__(self, router: ClusterRouter, *, is_http2: bool = False) -> None:
        self._router = router
        self._is_http2 = is_http2
        self._transport = NOWHERE
        self.address = ""
        self.context: Context | None = router.only
        self._tls_group: Hashable = None
        """The TLS group of the clusters that the handshake was for; None if it was for any."""
        self._kind: ClientKind | None = None
        self._known: list[HeaderBlock] = []
        """By what the connection is known: the header blocks of its last requests."""
        self.last_head = b""
        self.last_request: Request | None = None

    def begin(self, transport: asyncio.Transport, address: str) -> None:
        self._transport = transport
        self.address = address or written(transport.get_extra_info("peername"))
        if self._router.only is None:
            self._tls_group = group_of(transport)
        if self.context is not None:
            self.context.connection_count += 1
            self._learn_peer(self.context)

    def end(self) -> None:
        self._enter(None)

    def forget_peer(self) -> None:
        """Find out the kind of client again at its next request: for all now it takes seconds."""
        self._kind = None
        self.forget_header_blocks()

    def forget_header_blocks(self) -> None:
        self._known.clear()
        self.last_request = None

    def match(self, data: bytes | bytearray) -> tuple[HeaderBlock | None, int, int]:
        """The known block, the end of the head, and the length of the body; None, 0, 0."""
        start = data.find(b"\r\n") + 2
        for block in self._known:
            end, body_bytes = block.match(data, start)
            if end:
                return block, end, body_bytes
        return None, 0, 0

    def read(self, raw: bytes, block: HeaderBlock | None, body_bytes: int) -> Request:
        """Read a head by the rules of its cluster, which `context` is from now on.

        HeadError if it is malformed, over a limit, not served, or of no cluster that can be used.
        """
        router, context = self._router, self.context
        if context is not None and (
            context is router.only
            # With its fields the host is that of a request before, too.
            or (block is not None and not router.has_prefixes)
        ):
            return self._request_of(context, raw, block, body_bytes)
        try:
            route, host, head = router.route(
                raw, None if block is None else block.fields.host or b""
            )
        except HeadError:
            self._enter(None)
            raise
        if context is None or route.context is not context:
            self._enter(route)
            context, block = route.context, None
            assert context is not None
        request = self._request_of(context, head, block, body_bytes)
        if (request.head.fields.host or b"") != host:
            # The proxy's two ways to read a head must not differ in where it goes.
            self.forget_header_blocks()
            raise HeadError(400, "malformed request: its Host field is ambiguous")
        return request

    def _request_of(
        self, context: Context, raw: bytes, block: HeaderBlock | None, body_bytes: int
    ) -> Request:
        """Make a request of a head, without a parser if its line is plain and its block known."""
        kind = self._kind or self._learn_peer(context)
        start = raw.find(b"\r\n") + 2
        line = raw[:start]
        parts = line.split(b" ")
        method = _METHODS.get(parts[0]) if len(parts) == 3 and parts[2] == b"HTTP/1.1\r\n" else None
        if method is None or not parts[1].startswith(b"/") or parts[1].translate(None, _VISIBLE):
            head = parse_head(raw, kind.rules)
            return context.client_kinds.request_of(head, HeaderBlock(head.fields))
        target = parts[1]
        if block is None:
            block, body_bytes = self._block_of(kind, raw, start, target)
        if len(target) > kind.rules.max_target_bytes:
            raise target_too_long(kind.rules)
        fields = block.fields
        head = RequestHead(method, target, line, raw, fields, body_bytes, fields.upgrade)
        return context.client_kinds.request_of(head, block)

    def _block_of(
        self, kind: ClientKind, raw: bytes, start: int, target: bytes
    ) -> tuple[HeaderBlock, int]:
        section = raw[start:]
        key, body_bytes = key_of(section)
        known = self._known
        block = kind.blocks.values.get(key)
        if block is None:
            fields = parse_fields(raw, target, kind.rules, section[:-2])
            body_bytes = fields.body_bytes
            # They may say the same of all but the body, whatever length that has.
            is_told_apart = not key[0] or (fields.framing == SIZED and fields.has_one_length)
            is_kept = is_told_apart and len(section) <= MAX_BLOCK_BYTES
            # Only what may be known again needs its bytes, beside those of the head.
            block = HeaderBlock(fields, key) if is_kept else HeaderBlock(fields)
            if known and known[0].fields.credentials == fields.credentials:
                block.authentication = known[0].authentication
            if not is_kept or not kind.blocks.offer(key, block):
                return block, body_bytes
        elif not key[0]:
            body_bytes = block.fields.body_bytes
        known.insert(0, block)
        if len(known) > MAX_BLOCKS:
            known.pop()
        return block, body_bytes

    def remember(self, raw: bytes, request: Request) -> None:
        """Know this head as a whole, once it has come twice: there is no body behind it."""
        if len(raw) <= MAX_REPEATED_BYTES:
            self.last_request = request if raw == self.last_head else None
            self.last_head = raw

    def peer_at(self, context: Context) -> Peer:
        if context is self.context:
            return (self._kind or self._learn_peer(context)).peer
        return self._kind_at(context).peer

    def _enter(self, route: Route | None) -> None:
        if self.context is not None:
            self.context.connection_count -= 1
            self.context = None
        self.forget_peer()
        if route is None:
            return
        context = route.context
        assert context is not None
        if self._tls_group is not None and route.tls_group != self._tls_group:
            # Its client was asked for a certificate of other CAs, and may have another one here.
            raise HeadError(
                421,
                f"the cluster {route.name} has another certificate, or other clients', than the"
                " host of the TLS handshake: open another connection for it",
            )
        if route.max_connections is not None and context.connection_count >= route.max_connections:
            raise HeadError(
                503,
                f"the cluster {route.name} has {context.connection_count} connections, the most"
                " that it takes (maxConnections); use one of them, or try again later",
                b"Retry-After: 1\r\n",
            )
        context.connection_count += 1
        self.context = context

    def _learn_peer(self, context: Context) -> ClientKind:
        self._kind = self._kind_at(context)
        return self._kind

    def _kind_at(self, context: Context) -> ClientKind:
        is_tls = self._transport.get_extra_info("ssl_object") is not None
        leaf, chain = peer_certificates(self._transport) if is_tls else (None, ())
        kinds, is_http2 = context.client_kinds, self._is_http2
        return kinds.kind_of(self.address, leaf, chain, is_tls=is_tls, is_http2=is_http2)
