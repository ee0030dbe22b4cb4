"""Hostile and awkward HTTP/1.1 through a whole proxy, judged by what comes out on both sides.

Each case has a proxy and an origin of its own.  Left out are cases that need what the proxy does
not have (authentication, TLS, a body limit), or what one connection cannot make: see `why_not`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.settings import DrainSettings
from tests.conformance import vectors
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import NARROW, REJECTING, Scene, Setup, on_uvloop, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.origin import Arrival
    from tests.end_to_end.peer import Message, Peer

Case = dict[str, Any]

NOT_APPLICABLE_GROUPS = {"ID": "asks for authentication, of which there is none yet"}
NOT_YET: dict[str, str] = {}
"""Cases that do not pass, with the reason; one that begins to pass must leave the table."""

QUIET_S = 0.02
"""Nothing more comes if nothing came for so long: all sides run in one loop and one kernel."""
PATIENCE_S = 3.0
"""For the first byte that comes."""

EXPANSIONS: dict[str, Callable[[str, int], str]] = {
    "REP": lambda text, number: text * number,
    "REPLINE": lambda text, number: (text + "\r\n") * number,
    "REPCHUNK": lambda text, number: f"{int(text):x}\r\n{'x' * int(text)}\r\n" * number,
    "REPRAW": lambda text, number: unescaped(text) * number,
}
FOREACH = re.compile(r"\{\{FOREACH\|(\d+)\|(.*?)\}\}(?!\})", re.DOTALL)
REPETITION = re.compile(rf"\{{\{{({'|'.join(EXPANSIONS)})\|(.*?)\|(\d+)\}}\}}", re.DOTALL)
VERBS = ("PAUSE", "HALFCLOSE", "CLOSE", "RST", "SIGTERM", "NOREAD", "DRIP")
STEP = re.compile(rf"\{{\{{({'|'.join(VERBS)})(?:\|([^{{}}]*))?\}}\}}")
OTHER_MACRO = re.compile(r"\{\{[A-Z-]+[|}]")

IDENTITY = re.compile(
    rb"^x[-_]remote[-_](user|group|uid|extra[-_][^:]*)[ \t]*:", re.IGNORECASE | re.MULTILINE
)
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


def unescaped(text: str) -> str:
    """The text with its escapes for CR and LF replaced."""
    return text.replace("\\r", "\r").replace("\\n", "\n")


def expanded(text: str) -> str:
    """The text with repetitions written out."""

    def each(match: re.Match[str]) -> str:
        text = unescaped(match[2])
        return "".join(text.replace("{i}", str(number)) for number in range(int(match[1])))

    text = FOREACH.sub(each, text)
    return REPETITION.sub(lambda match: EXPANSIONS[match[1]](match[2], int(match[3])), text)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """What to do, in order: a verb and its argument."""
    text = expanded(text)
    position = 0
    for match in STEP.finditer(text):
        if match.start() > position:
            yield "SEND", text[position : match.start()]
        yield match[1], match[2] or ""
        position = match.end()
    if position < len(text):
        yield "SEND", text[position:]


@dataclass
class Outcome:
    """What came out.

    Attributes:
        received: What the client got.
        is_closed: Whether the proxy closed the client's connection.
        has_left: Whether the client closed it.
        requests: What the origin got whole, without what the scenario needs.
        is_origin_left: Whether the proxy ended its connections to the origin.
    """

    received: bytearray = field(default_factory=bytearray)
    is_closed: bool = False
    has_left: bool = False
    requests: list[Message] = field(default_factory=list)
    is_origin_left: bool = False

    @property
    def codes(self) -> list[int]:
        """All status codes that the client got."""
        return [int(code) for code in STATUS.findall(bytes(self.received))]

    @property
    def code(self) -> int:
        """That of the first final answer; 0 if there was none."""
        return next((code for code in self.codes if code >= 200), 0)

    def __str__(self) -> str:
        """What a failed case shows."""
        end = "closed" if self.is_closed else "open"
        lines = [request.line[:80] for request in self.requests]
        return f"answers {self.codes}, then {end}; the origin got {lines}"


class Play:
    """One case, played with a proxy."""

    def __init__(self, case: Case, scene: Scene) -> None:
        self._case = case
        self._scene = scene
        self._reader: asyncio.Task[None] | None = None
        self._events = 0
        self.outcome = Outcome()

    async def run(self) -> None:
        """Send what the case has, until nothing more comes."""
        await self._prepare()
        scene, outcome = self._scene, self.outcome
        client = await scene.connect()
        script = list(steps(self._case["raw"]))
        sending = begin(self._send(client, script))
        if "NOREAD" in dict(script):
            await self._settle()
        self._read(client)
        await self._settle(sending)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        origin = scene.origin
        outcome.is_origin_left = len(origin.ended) == len(origin.peers)
        client.close()

    async def _prepare(self) -> None:
        """Bring about the scenario."""
        scenario, origin = self._case.get("scenario"), self._scene.origin
        if scenario in ("apf-reject", "apf-queued"):
            await self._scene.take_seat()
        elif scenario == "upstream-idle-close":
            await (await self._scene.take_seat()).end()
            stale = origin.peers[0]

            async def close_stale(arrival: Arrival) -> None:
                if arrival.peer is stale:
                    stale.close()
                else:
                    await self._answer(arrival)

            origin.answer_with(close_stale)
            return
        origin.answer_with(self._answer)

    async def _answer(self, arrival: Arrival) -> None:
        """Answer at the origin: as scripted, else with what was asked."""
        self._events += 1
        peer, request = arrival
        self.outcome.requests.append(request)
        script = self._case.get("upstream_raw")
        if script is not None and len(self.outcome.requests) == 1:
            for verb, argument in steps(script):
                if verb == "SEND":
                    await peer.send(argument.encode("latin-1"))
                elif verb == "PAUSE":
                    await asyncio.sleep(float(argument))
                else:
                    peer.close()
            return
        if re.search(rb"[?&]watch=(true|1)\b", request.line):
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            await peer.send(head + b"2\r\n{}\r\n")
            return
        said = b"got " + request.line[:200]
        body = b"" if request.line.startswith(b"HEAD ") else said
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), body))

    async def _send(self, client: Peer, script: list[tuple[str, str]]) -> None:
        draining = None
        try:
            for verb, argument in script:
                if verb == "SEND":
                    await client.send(argument.encode("latin-1"))
                elif verb == "DRIP":
                    text, number = argument.rsplit("|", 1)
                    await self._drip(client, text.encode("latin-1"), int(number))
                elif verb == "PAUSE":
                    await self._settle()
                elif verb == "HALFCLOSE":
                    client.end_sending()
                elif verb == "SIGTERM":
                    await self._settle()
                    draining = begin(self._scene.process.drain())
                    await asyncio.sleep(0)
                elif verb in ("CLOSE", "RST"):
                    self.outcome.has_left = True
                    if self._reader is not None:
                        self._reader.cancel()
                        await asyncio.gather(self._reader, return_exceptions=True)
                    client.reset() if verb == "RST" else client.close()
        except OSError:
            pass  # the proxy closed before it had all
        if draining is not None:
            await draining

    async def _drip(self, client: Peer, piece: bytes, number: int) -> None:
        """Send a piece so often that each is a segment of its own, while the proxy reads."""
        for _ in range(number):
            if self.outcome.is_closed:
                return
            await client.send(piece)
            await asyncio.sleep(0)

    def _read(self, client: Peer) -> None:
        """Begin to read what the client gets."""
        if self._reader is None and not self.outcome.has_left:
            self._reader = begin(self._receive(client))

    async def _receive(self, client: Peer) -> None:
        outcome = self.outcome
        try:
            while data := await client.receive():
                self._events += 1
                outcome.received += data
        except TimeoutError:
            return
        except ConnectionResetError:
            pass
        outcome.is_closed = True
        self._events += 1

    async def _settle(self, sending: asyncio.Task[None] | None = None) -> None:
        """Wait until all is sent and the connection is closed, or nothing more comes."""
        loop = asyncio.get_running_loop()
        outcome, counters = self.outcome, self._scene.process.counters
        patient_until = loop.time() + PATIENCE_S
        state: tuple[int, ...] = ()
        while not (outcome.is_closed and (sending is None or sending.done())):
            before = state
            state = (
                self._events,
                counters.bytes_from_clients,
                counters.bytes_to_clients,
                counters.bytes_to_origins,
                counters.connections_open,
                len(self._scene.origin.ended),
            )
            is_enough = sending is None or (
                sending.done() and (outcome.received or outcome.has_left)
            )
            if before == state and (is_enough or loop.time() > patient_until):
                return
            await asyncio.sleep(QUIET_S)


def complaint(case: Case, outcome: Outcome) -> str | None:
    """What is wrong with an outcome, or None."""
    wanted = {case["expect"], *case.get("alt_expect", ())}
    may_see = case.get("upstream_must_see")
    may_go_on = "next-request-fully-reprocessed" in wanted
    for request in outcome.requests:
        if IDENTITY.search(request.head):
            return "an identity that the client made up reached the origin"
        if b"canary" in request.line and (may_see or 0) < 2 and not may_go_on:
            return "a smuggled request reached the origin"
    if may_see is not None and len(outcome.requests) > may_see and not may_go_on:
        return f"the origin got {len(outcome.requests)} requests instead of {may_see}"
    if "EVIL" in case.get("upstream_raw", "") and b"EVIL" in outcome.received:
        first = bytes(outcome.received).partition(b"EVIL")[0]
        if len(STATUS.findall(first)) > 1:
            return "an answer that nobody asked for reached the client"
    if any(IS_MET[want](case, outcome) for want in wanted):
        return None
    return f"want one of {sorted(wanted)}"


def is_refused(case: Case, outcome: Outcome) -> bool:
    """Whether the proxy refused the request, and the origin saw nothing of it."""
    # Which 4xx a case prefers is a matter of taste; a 5xx must be one that it names.
    accepted = case.get("accept_status", (501, 505))
    return (400 <= outcome.code < 500 or outcome.code in accepted) and not outcome.requests


def is_refused_and_closed(case: Case, outcome: Outcome) -> bool:
    """Whether, moreover, the connection is closed."""
    return is_refused(case, outcome) and outcome.is_closed


def is_forwarded(_: Case, outcome: Outcome) -> bool:
    """Whether the request was answered by the origin."""
    return bool(outcome.requests) and 0 < outcome.code < 500


def is_forwarded_verbatim(case: Case, outcome: Outcome) -> bool:
    """Whether, moreover, the origin got the very target that was sent."""
    words = expanded(case["raw"]).partition("\r\n")[0].encode("latin-1").split(b" ")
    if not is_forwarded(case, outcome) or len(words) < 2:
        return False
    return words[1] == outcome.requests[0].line.split(b" ")[1]


def is_answered_locally(_: Case, outcome: Outcome) -> bool:
    """Whether the proxy answered by itself."""
    return outcome.code > 0 and not outcome.requests


def is_truncated(_: Case, outcome: Outcome) -> bool:
    """Whether the client can tell that it did not get the whole answer."""
    ends_well = outcome.received.endswith(b"\r\n0\r\n\r\n")
    return bool(outcome.requests) and outcome.is_closed and not ends_well


def is_aborted(_: Case, outcome: Outcome) -> bool:
    """Whether the request of a client that left was not carried through."""
    if outcome.has_left:
        return outcome.is_origin_left or not outcome.requests
    return outcome.is_closed and (outcome.code == 0 or outcome.code >= 400)


def is_timed_out(_: Case, outcome: Outcome) -> bool:
    """Whether the connection was closed, with a 408 or without a word."""
    return outcome.is_closed and outcome.code in (0, 408)


IS_MET: dict[str, Callable[[Case, Outcome], bool]] = {
    "abort-upstream": is_aborted,
    "close-without-response": is_timed_out,
    "forward-classified-as-real-user": is_forwarded,
    "forward-normalised": is_forwarded,
    "forward-normalised-then-close": is_forwarded,
    "forward-verbatim-target": is_forwarded_verbatim,
    "next-request-fully-reprocessed": is_forwarded,
    "reject-401": is_refused,
    "reject-403": is_refused,
    "reject-4xx-and-close": is_refused_and_closed,
    "relay-error-and-close": lambda _, outcome: outcome.code > 0,
    "respond-500": is_answered_locally,
    "respond-502": lambda _, outcome: outcome.code in (502, 504),
    "respond-locally": is_answered_locally,
    "strip-and-forward": is_forwarded,
    "timeout-408-and-close": is_timed_out,
    "truncate-and-close": is_truncated,
    "tunnel": lambda _, outcome: outcome.codes[:1] == [101],
}
SCENARIOS = {
    "apf-queued": Setup(objects=NARROW, seats=1),
    "apf-reject": Setup(objects=REJECTING, seats=1),
    "upstream-idle-close": Setup(),
}


def why_not(case: Case) -> str | None:
    """Why a case cannot be played, or None."""
    if case["group"] in NOT_APPLICABLE_GROUPS:
        return NOT_APPLICABLE_GROUPS[case["group"]]
    for key in ("tls", "transport"):
        if key in case:
            return f"needs TLS, so has a test of its own: {case[key]}"
    if case.get("scenario", "upstream-idle-close") not in SCENARIOS:
        return f"needs what there is not: {case['scenario']}"
    for text in (case["raw"], case.get("upstream_raw", "")):
        other = OTHER_MACRO.search(STEP.sub("", expanded(text)))
        if other is not None:
            return f"needs more than one connection can do: {other[0]}"
    return None


def cases() -> list[Any]:
    """The cases that can be played, each with what is known of it beforehand."""
    found = []
    for case in vectors.load("hostile_http"):
        if why_not(case) is not None:
            continue
        marks: list[pytest.MarkDecorator] = []
        if case["id"] in NOT_YET:
            marks = [pytest.mark.xfail(reason=NOT_YET[case["id"]], strict=True)]
        found.append(pytest.param(case, id=case["id"], marks=marks))
    return found


@pytest.mark.parametrize("case", cases())
@on_uvloop
async def test_hostile_http(case: Case) -> None:
    """What a case sends has one of the outcomes that the case accepts."""
    setup = replace(
        SCENARIOS[case.get("scenario", "upstream-idle-close")],
        drain=DrainSettings(shutdown_delay_s=2 * QUIET_S),
    )
    async with running(setup) as scene:
        play = Play(case, scene)
        await play.run()

    assert None is complaint(case, play.outcome), str(play.outcome)


def test_macros() -> None:
    """Repetitions are written out, and steps come in their order."""
    text = "a{{REP|x|3}}{{REPLINE|b: 1|2}}{{REPCHUNK|2|1}}{{REPRAW|c\\r\\n|2}}"

    assert "axxxb: 1\r\nb: 1\r\n2\r\nxx\r\nc\r\nc\r\n" == expanded(text)
    assert "/0\r\n/1\r\n" == expanded("{{FOREACH|2|/{i}\\r\\n}}")
    assert [("SEND", "a"), ("PAUSE", "0.5"), ("SEND", "b"), ("HALFCLOSE", "")] == list(
        steps("a{{PAUSE|0.5}}b{{HALFCLOSE}}")
    )
    assert [("DRIP", "a|3"), ("SEND", "{i}")] == list(steps("{{DRIP|a|3}}{i}"))
