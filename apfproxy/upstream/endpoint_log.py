"""What the log says of how a server behind is.

There is a line when the state changes, but no two of failures within `LINE_S`.  The last line is
true, soon.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.upstream.endpoint import EJECTED, FAILING, UP

if TYPE_CHECKING:
    from apfproxy.upstream.counters import UpstreamFailure

log = logging.getLogger(__name__)

LINE_S = 10.0
"""A server that comes and goes fills no log."""
NS_PER_S = 1_000_000_000
UNKNOWN = "unknown"
"""Of a server of which nothing is known yet; else its state is that of `EndpointState`."""


class EndpointLog:
    """Says how one server behind is.

    Args:
        url: Of the server.
        cluster: The cluster that it is of; "" where there is but one.
    """

    def __init__(self, url: str, cluster: str = "") -> None:
        self._server = f"the server behind, {url},"
        if cluster:
            self._server = f"{cluster}: {self._server}"
        # What the last line says, and since when the server is out if it says so.
        self._said: tuple[str, UpstreamFailure | None] = (UNKNOWN, None)
        self._out_since_ns = 0
        self._next_line_ns = 0

    def forget(self) -> None:
        """Begin anew, as with a server of which nothing was said."""
        self._said, self._next_line_ns = (UNKNOWN, None), 0

    def say(
        self,
        state: str,
        failure: UpstreamFailure | None,
        text: str,
        *,
        since_ns: int,
        now_ns: int,
    ) -> None:
        """Have the log say what it does not say yet.

        Args:
            state: `unknown`, or as of `EndpointState`.
            failure: How the server fails; of other kinds there is another line.
            text: What becomes of it and why, if it is out, such as "fails: no answer".
            since_ns: When the state began.
            now_ns: The time.
        """
        is_out = state in {FAILING, EJECTED}
        if (state, failure) == self._said or (is_out and now_ns < self._next_line_ns):
            return
        (before, _), self._said = self._said, (state, failure)
        was_out = before in {FAILING, EJECTED}
        if is_out:
            self._next_line_ns = now_ns + round(LINE_S * NS_PER_S)
            if not was_out:
                self._out_since_ns = since_ns
            log.warning("%s %s%s", self._server, "still " if was_out else "", text)
        elif was_out:
            lasted_s = (since_ns - self._out_since_ns) / NS_PER_S
            log.info("%s is up again after %.0f s", self._server, lasted_s)
        elif before == UNKNOWN and state == UP:
            log.info("%s can be reached", self._server)
