"""Identities that are forged, ambiguous, revoked or borrowed: who is served, as whom.

Each case is played in all three ways to tell the upstream who asks.  The upstream has to get the
lines that belong to the user, in that way, and no other line that could name anybody; the class of
each answer tells whom the flow control took the user for.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.app import process as process_module
from apfproxy.settings import (
    FRONT_PROXY,
    IMPERSONATE,
    PASS_THROUGH,
    AuthenticationSettings,
    ReviewSettings,
)
from tests.conformance import vectors
from tests.conformance.hostile.judgement import complaint
from tests.conformance.hostile.play import Play
from tests.conformance.hostile.site import OWN_TOKEN, SCHEMA_NUMBERS, Site
from tests.end_to_end.http2_peer import HTTP2
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import (
    OK,
    REJECTING,
    MovedClock,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.hostile.script import Case
    from tests.end_to_end.peer import Message
    from tests.end_to_end.upstream import Arrival

Line = tuple[bytes, bytes]

CASES: dict[str, Case] = {case["id"]: case for case in vectors.load("hostile_http")}
MODES = (PASS_THROUGH, FRONT_PROXY, IMPERSONATE)
REVIEWS = b"/apis/authentication.k8s.io/v1/tokenreviews"

SCHEMA = re.compile(
    rb"X-Kubernetes-PF-FlowSchema-UID: 00000000-0000-0000-0000-0*([0-9]+)\r\n", re.IGNORECASE
)

USERS: dict[str, list[Line]] = {
    "alice": [(b"user", b"alice"), (b"uid", b"1"), (b"group", b"dev")],
    "bob": [(b"user", b"bob"), (b"uid", b"2")],
    "root": [(b"user", b"root"), (b"uid", b"3"), (b"group", b"system:masters")],
    "alice, by certificate": [(b"user", b"alice"), (b"group", b"dev")],
    "alice, by proxy": [(b"user", b"alice"), (b"group", b"dev"), (b"extra-scopes", b"a%2Fb")],
    "bob, by root": [(b"user", b"bob"), (b"extra-acme.com%2fproject", b"x")],
}
"""Fields that name each user, without their prefix and the group of all users."""
TOKEN_OF = {"alice": b"user-a", "bob": b"user-b", "root": b"admin"}

AS_BOB_OF_MASTERS = [(b"impersonate-user", b"bob"), (b"impersonate-group", b"system:masters")]
AS_BOB_OF_A_PROJECT = [
    (b"impersonate-user", b"bob"),
    (b"impersonate-extra-acme.com%2fproject", b"x"),
]


@dataclass(frozen=True)
class Served:
    """A request that is served.

    Attributes:
        user: Who asks; a key of `USERS`.
        lines: What else goes on, where the upstream judges it.
        effective: Who that is then, if it is somebody else.
        told: What the upstream learns of that; a key of `USERS`.
        code: Of the answer.
        authorization: What the client sent, if it was not `Bearer` and the user's token.
    """

    user: str
    lines: tuple[Line, ...] = ()
    effective: str = ""
    told: str = ""
    code: int = 200
    authorization: bytes | None = None


ALICE, BOB = Served("alice"), Served("bob")

OUTCOMES: dict[str, list[Served | int]] = {
    "ID-01": [401],
    "ID-02": [Served("alice, by certificate", authorization=b"")],
    "ID-03": [401],
    "ID-04": [Served("alice, by proxy", authorization=b"")],
    "ID-05": [401],
    "ID-06": [ALICE],
    "ID-07": [ALICE],
    "ID-08": [ALICE],
    "ID-09": [ALICE],
    "ID-10": [ALICE],
    "ID-11": [400],
    "ID-12": [400],
    "ID-13": [401],
    "ID-14": [replace(ALICE, authorization=b"bEaReR user-a")],
    "ID-15": [Served("alice, by certificate", authorization=b"Bearer garbage")],
    "ID-16": [replace(ALICE, lines=tuple(AS_BOB_OF_MASTERS))],
    "ID-17": [400],
    "ID-18": [ALICE],
    "ID-19": [Served("root", tuple(AS_BOB_OF_A_PROJECT), "bob", "bob, by root")],
    "ID-20": [ALICE, BOB, ALICE],
    "ID-21": [ALICE, 401],
    "ID-23": [replace(ALICE, code=101, authorization=b"")],
    "ID-24": [431],
    "ID-25": [400],
    "ID-26": [401],
    "ID-27": [401],
    "ID-28": [],
}
"""The outcome of each request of a case: a code of the proxy, or the user."""
OF_ONE_WAY: dict[tuple[str, str], list[Served | int]] = {("ID-16", IMPERSONATE): [403]}
"""Outcomes in one way to tell the upstream: with the proxy's rights no impersonation is done."""
OVER_HTTP2: dict[str, tuple[str, list[Served | int]]] = {"ID-23": ("reject-4xx-and-close", [400])}
"""Where the protocol makes one: what is expected, and what becomes of the requests.

It has no Upgrade.
"""

AGREED = (
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def identity_lines(request: Message) -> list[Line]:
    """All that an upstream could take for a word about who asks, however it reads names."""
    found = []
    for name, value in request.fields:
        folded = re.sub(rb"[^a-z0-9]", b"-", name)
        if folded.endswith(b"-authentication-kubernetes-io-2fcredential-id"):
            assert re.fullmatch(rb"X509SHA256=[0-9a-f]{64}", value)
        elif folded == b"authorization" or folded.startswith(
            (b"x-remote-", b"impersonate-", b"x-my")
        ):
            found.append((name, value))
    return sorted(found)


def wanted_lines(served: Served, mode: str) -> list[Line]:
    if mode == IMPERSONATE:
        own = (b"authorization", b"Bearer " + OWN_TOKEN)
        told = USERS[served.told or served.user]
        return sorted([own, *((b"impersonate-" + name, value) for name, value in told)])
    lines = list(served.lines)
    if mode == FRONT_PROXY or served.user == "alice, by proxy":
        lines += [(b"x-remote-" + name, value) for name, value in USERS[served.user]]
        if mode == FRONT_PROXY:
            lines.append((b"x-remote-group", b"system:authenticated"))
    if mode == PASS_THROUGH:
        sent = served.authorization
        if sent is None:
            sent = b"Bearer " + TOKEN_OF[served.user]
        if sent:
            lines.append((b"authorization", sent))
    return sorted(lines)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case_id", OUTCOMES)
@over_both_protocols
@on_uvloop
async def test_hostile_identity(case_id: str, mode: str, site: Site, protocol: str) -> None:
    case = CASES[case_id]
    if case["expect"] == "tunnel":
        case = {**case, "upstream_raw": AGREED}
    is_tls = "tls" in case or "transport" in case
    names = ("X-My-User",) if case_id == "ID-10" else ("X-Remote-User",)
    async with running(site.setup(mode, is_tls=is_tls, names=names)) as scene:
        connect = (lambda: site.connect(scene, case["tls"])) if "tls" in case else None
        play = Play(case, scene, connect)
        await play.run()
    outcome = play.outcome
    expected = OF_ONE_WAY.get((case_id, mode), OUTCOMES[case_id])
    if protocol == HTTP2 and case_id in OVER_HTTP2:
        expect, expected = OVER_HTTP2[case_id]
        case = {**case, "expect": expect}
    served = [each for each in expected if isinstance(each, Served)]
    effective = [(each.effective or each.user).partition(",")[0] for each in served]

    assert None is complaint(case, outcome, may_assert=True), str(outcome)
    assert [each.code if isinstance(each, Served) else each for each in expected] == outcome.codes
    assert [wanted_lines(each, mode) for each in served] == list(
        map(identity_lines, outcome.requests)
    )
    # An answer to exec does not name its schema; who asks is seen in what the upstream got.
    named = [] if case["expect"] == "tunnel" else [SCHEMA_NUMBERS[name] for name in effective]
    assert named == [int(number) for number in SCHEMA.findall(bytes(outcome.received))]
    if mode != PASS_THROUGH:
        for request in outcome.requests:
            assert None is re.search(
                rb"user-[ab]|dXNlci1h|Bearer (?!token-of-the-proxy)", request.head
            )


@pytest.mark.parametrize("mode", MODES)
@on_uvloop
async def test_id_01_of_nobody(mode: str, site: Site) -> None:
    setup = site.setup(mode, is_tls=False)
    setup = replace(setup, authentication=structs.replace(setup.authentication, anonymous=True))
    async with running(setup) as scene:
        request, answer = await scene.exchange(CASES["ID-01"]["raw"].encode())

    assert 200 == answer.status
    assert [] == [line for line in identity_lines(request) if b"admin" in line[1]]
    assert b"system:masters" not in request.head


@on_uvloop
async def test_id_05_of_a_server(site: Site) -> None:
    async with running(site.setup(PASS_THROUGH, is_tls=True)) as scene:
        with contextlib.suppress(ssl.SSLError, ConnectionResetError):
            client = await site.connect(scene, "requestheader-ca:serverAuth")
            await client.send(CASES["ID-05"]["raw"].encode())
            assert b"" == await client.receive()

        assert [] == scene.upstream.peers


@on_uvloop
async def test_id_27_without_seats() -> None:
    async with running(Setup(objects=REJECTING, seats=1)) as scene:
        hold = await scene.take_seat()
        client = await scene.ask(CASES["ID-27"]["raw"].encode())

        assert 429 == (await client.read_answer()).status
        await hold.end()


@on_uvloop
async def test_id_27_during_a_drain() -> None:
    async with running() as scene:
        hold = await scene.take_seat(CASES["ID-27"]["raw"].encode())
        draining = begin(scene.process.drain())
        await until(lambda: scene.process.cluster.served.listener.is_draining)
        answer = await hold.end()
        await draining

        assert (200, b"close") == (answer.status, answer.value(b"connection"))


class Reviewer:
    """An upstream that reviews tokens, and answers all else."""

    def __init__(self) -> None:
        self.groups: list[str] | None = ["dev"]
        self.reviews: list[str] = []
        self.requests: list[Message] = []

    async def answer(self, arrival: Arrival) -> None:
        peer, request = arrival
        if REVIEWS not in request.line:
            self.requests.append(request)
            await peer.send(OK)
            return
        review = json.loads(request.body)
        self.reviews.append(review["spec"]["token"])
        review["status"] = {"authenticated": self.groups is not None}
        if self.groups is not None:
            review["status"]["user"] = {"username": "alice", "groups": self.groups}
        body = json.dumps(review).encode()
        head = (
            b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
        await peer.send(head % len(body) + body)


def reviewed(setup: Setup) -> Setup:
    authentication = AuthenticationSettings(
        token_review=ReviewSettings(is_enabled=True), anonymous=False
    )
    return replace(setup, authentication=authentication)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\0"])
@on_uvloop
async def test_hh_16(mode: str, end: str, site: Site) -> None:
    """A user with a group that would become a field of its own is refused."""
    reviewer = Reviewer()
    reviewer.groups = [f"a{end}X-Remote-Group: system:masters"]
    async with running(reviewed(site.setup(mode, is_tls=False))) as scene:
        scene.upstream.answer_with(reviewer.answer)
        client = await scene.ask(CASES["HH-16"]["raw"].encode())

        assert 401 == (await client.read_answer()).status
        assert (["token-with-crlf-group"], []) == (reviewer.reviews, reviewer.requests)


@pytest.mark.parametrize("mode", MODES)
@on_uvloop
async def test_id_22(mode: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was revoked is good for ten seconds at most, and is asked about once in them."""
    monkeypatch.setattr(process_module, "LoopClock", MovedClock)
    ask = CASES["ID-22"]["raw"].partition("{{")[0].encode()
    reviewer = Reviewer()
    async with running(reviewed(site.setup(mode, is_tls=False))) as scene:
        clock = scene.process.clock
        assert isinstance(clock, MovedClock)
        scene.upstream.answer_with(reviewer.answer)
        client = await scene.connect()

        async def statuses(number: int) -> list[int]:
            found = []
            for _ in range(number):
                await client.send(ask)
                found.append((await client.read_answer()).status)
            return found

        assert [200] == await statuses(1)
        reviewer.groups = None
        assert ([200, 200], 1) == (await statuses(2), len(reviewer.reviews))
        clock.move(10)
        assert [401, 401] == await statuses(2)
        assert (["user-a"] * 2, 3) == (reviewer.reviews, len(reviewer.requests))
