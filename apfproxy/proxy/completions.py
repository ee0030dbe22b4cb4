"""Bodies of completions, which are read before their requests take seats.

A body is waited for as a whole, up to `downstream.limits.completionBodyBytes`, where any level,
FlowSchema or rate counts what it says.  Its room is reserved at once, so that a request is not
refused half way that would have been served without being read.  One that cannot be read, since it
is larger, slow or compressed, or since little room is left, is served all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.http.chunked import ChunkedDecoder
from apfproxy.http.request_fields import SIZED
from apfproxy.request.completion import NEVER_NS, Completion, read_completion

if TYPE_CHECKING:
    from apfproxy.http.token_counter import TokenCounter
    from apfproxy.proxy.client import Client
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request


def reservation(context: Context, client: Client, request: Request) -> int:
    """How many bytes of a completion's body to wait for, held from now on; 0 for none."""
    head, most = request.head, context.in_force.completion_body_bytes
    needed = head.body_bytes if head.framing == SIZED else most
    if (
        not 0 < needed <= most
        or not request.takes_seats
        or not context.flow_control.controller.reads_completions
        or not context.holdings.can_spare(needed)
    ):
        return 0
    bound = client.hold(head.kept_bytes + needed)
    if bound is not None:
        context.holdings.counters.held_refusals[bound] -= 1  # it is not refused for that
        return 0
    client.resume_reading()
    if head.expects_continue:
        client.send_continue()
    return needed + 1  # over HTTP/2 the end may come behind the last byte


def completion_of(
    context: Context, request: Request, body: bytes | bytearray, is_whole: bool
) -> Completion | None:
    """Read a completion's body, as it will be forwarded; None where that counts nowhere."""
    if not context.flow_control.controller.reads_completions:
        return None
    head = request.head
    if not is_whole or len(body) > context.in_force.completion_body_bytes:
        found = Completion(head.body_bytes or len(body))
        found.whole_ns = 0 if is_whole else NEVER_NS
        return found
    if head.framing != SIZED:
        pieces, _ = ChunkedDecoder().feed(bytes(body))
        body = b"".join(pieces)
    # A compressed one is no JSON; a Content-Encoding alone, which servers ignore, hides nothing.
    return read_completion(body, request.attributes.path)


def count_tokens(completion: Completion, counter: TokenCounter) -> None:
    """Note the tokens so far; a stream that is cut before the first one is no response."""
    if counter.tokens or completion.is_served:
        completion.count(counter.prompt_tokens, counter.tokens)
