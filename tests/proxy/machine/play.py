"""Programs of the machine: what happens, step by step, as bytes that hypothesis or chance draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.proxy.early_seats import INITIAL_EVENTS_END
from tests.proxy.fakes import Tls
from tests.proxy.machine.choices import ABANDONED_S, COOPERATE, STOP, Choices
from tests.proxy.machine.peers import OF_CERTIFICATE
from tests.proxy.machine.requests import BAD_CHUNKS, GARBAGE, REQUESTS
from tests.proxy.machine.world import SLOTS, S, World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from tests.proxy.machine.peers import Client

FAVOURITES = (
    tuple(each for each in REQUESTS if b"Content-Length" in each.head and each.is_good),
    tuple(each for each in REQUESTS if each.token == "fickle"),  # noqa: S105  of no one
    REQUESTS,
    REQUESTS,
)
"""A run has one of each, which are asked most."""
SETTINGS_BYTES = 9 + len(FAVOURITES)
STEP_BYTES = 4
Step = bytes
TIMES_NS = tuple(round(each * S) for each in (0.01, 0.05, 0.21, 0.21, 0.6, 1.1, 2.6, 5.0))


@dataclass(frozen=True)
class Program:
    """Bytes that choose the settings, and `STEP_BYTES` a step."""

    settings: bytes
    steps: tuple[Step, ...]

    def to_hex(self) -> str:
        return self.settings.hex() + ":" + b"".join(self.steps).hex()

    @classmethod
    def from_hex(cls, text: str) -> Program:
        settings, _, steps = text.partition(":")
        data = bytes.fromhex(steps)
        return cls(
            bytes.fromhex(settings),
            tuple(data[i : i + STEP_BYTES] for i in range(0, len(data), STEP_BYTES)),
        )

    @classmethod
    def drawn(cls, chance: random.Random) -> Program:
        count = chance.choice((10, 20, 40, 60, 100, 200))
        data = chance.randbytes(count * STEP_BYTES)
        return cls(
            chance.randbytes(SETTINGS_BYTES),
            tuple(data[i : i + STEP_BYTES] for i in range(0, len(data), STEP_BYTES)),
        )


@dataclass
class Outcome:
    finding: str = ""
    steps: int = 0
    trace: list[str] = field(default_factory=list)


class Play:
    def __init__(self, program: Program, *, is_traced: bool = False) -> None:
        self._program = program
        self._world = World(Choices(int.from_bytes(program.settings, "little")))
        self._outcome = Outcome()
        self._is_traced = is_traced
        # So that equal requests come again and again.
        chosen = program.settings[-len(FAVOURITES) :]
        self._favourites = [
            requests[each % len(requests)]
            for each, requests in zip(chosen, FAVOURITES, strict=True)
        ]

    def run(self) -> Outcome:
        world, outcome = self._world, self._outcome
        try:
            for step in self._program.steps:
                outcome.steps += 1
                self._take(step)
                world.look()
                if world.findings:
                    break
            else:
                self._say("settle")
                if world.choices.end == STOP:
                    world.stop()
                else:
                    if world.choices.end == COOPERATE:
                        self._cooperate()
                    world.settle()
        except AssertionError as error:
            world.found("an assertion", error)
        finally:
            world.close()
        outcome.finding = "\n\n".join(world.findings)
        return outcome

    def _say(self, *what: object) -> None:
        if self._is_traced:
            now = self._world.loop.now_ns() / S
            self._outcome.trace.append(f"{now:.3f} {' '.join(map(str, what))}")

    def _take(self, step: Step) -> None:
        code, a, b, c = step
        OPERATIONS[code](self, a, b, c)

    def _cooperate(self) -> None:
        world = self._world
        clients = [each for each in (*world.former, *world.clients) if each is not None]
        for wire in (*(each.wire for each in clients), *(each.wire for each in world.upstreams)):
            self._do(wire.take_all)
        for _ in range(12):
            for client in clients:
                if client.is_tunnel or client.is_garbled:
                    self._do(client.wire.end)
                else:
                    self._do(client.send, 1 << 20)
            for upstream in world.upstreams:
                if upstream.is_tunnel:
                    self._do(upstream.wire.end)
            self.serve(0, 0, 0)
            paced = world.context.pacing.responses.values()
            if world.context.abandoned or any(each.held for each in paced):
                # The upstream waits for bodies that will not be whole, and connections with it.
                world.loop.run_for(round(ABANDONED_S * S))
        world.look()
        left = [
            client
            for client in clients
            if not (client.wire.has_left or client.wire.is_closed)
            and not (client.is_garbled or client.is_tunnel or client.is_last)
            and client.open_request is not None
            and not world.waits_for_seats(client)
        ]
        assert not left, ("not answered, though everybody does what is asked", left)

    def _do(self, action: Callable[..., object], *arguments: object) -> None:
        self._world.do(action, *arguments)

    # Clients.

    def connect(self, a: int, b: int, c: int) -> None:
        slot = a % SLOTS
        tls = (None, None, None, Tls(None), Tls(OF_CERTIFICATE.encode()))[c % 5]
        self._say("connect", slot, b % 4 == 0, "TLS" if tls else "")
        self._do(lambda: self._world.connect(slot, is_shared=b % 4 == 0, tls=tls))

    def _client(self, number: int) -> tuple[int, Client] | None:
        for offset in range(SLOTS):
            slot = (number + offset) % SLOTS
            client = self._world.clients[slot]
            if client is not None and not client.wire.is_over and not client.wire.has_left:
                return slot, client
        return None

    def ask(self, a: int, b: int, c: int) -> None:
        found = self._client(a)
        if found is None:
            self.connect(a, 1, c)
            found = self._client(a)
        if found is None:
            return
        slot, client = found
        request = self._favourites[b % len(FAVOURITES)]
        if b >= 192:
            request = REQUESTS[b % len(REQUESTS)]
        client.ask(request, BAD_CHUNKS if request.target == b"/bad-chunk" else request.body)
        head = len(request.head)
        count = (1 << 20, 1 << 20, 1 << 20, head, head + 2, head // 2, 0, 1 << 20)[c % 8]
        self._say("ask", slot, request.method, request.target, count)
        self._do(client.send, count)
        if c >= 128:
            self.serve(a, b, c)

    def send(self, a: int, b: int, c: int) -> None:
        found = self._client(a)
        if found is None:
            return
        slot, client = found
        if client.is_tunnel:
            self._say("tunnel", slot)
            self._do(client.wire.feed, b"t" * (1 + c))
        elif b >= 250 and not client.has_more:
            self._say("garbage", slot)
            self._do(client.send_raw, GARBAGE)
        else:
            count = (1, 2, 7, 50, 100, 1 << 20)[c % 6]
            self._say("send", slot, count)
            self._do(client.send, count)

    def take(self, a: int, b: int, _c: int) -> None:
        found = self._client(a)
        if found is not None:
            slot, client = found
            self._say("take", slot, b % 3 == 0)
            self._do(lambda: client.wire.take(takes=b % 3 == 0))

    def leave(self, a: int, b: int, _c: int) -> None:
        found = self._client(a)
        if found is not None:
            slot, client = found
            self._say("leave", slot, "end" if b % 2 else "reset")
            self._do(client.wire.end if b % 2 else client.wire.break_off)

    # The upstream.

    def come_about(self, a: int, b: int, c: int) -> None:
        attempts = self._world.waiting_attempts()
        if not attempts:
            return
        attempt = attempts[a % len(attempts)]
        kind = b % 8
        self._say("connection", kind)
        if kind == 0:
            error = (OSError(111, "refused"), ValueError("no name"), OSError(113, "no route"))
            self._do(attempt.outcome.set_exception, error[c % 3])
        else:
            self._do(lambda: self._world.come_about(attempt, is_lost=kind == 1))

    def serve(self, a: int, _b: int, _c: int) -> None:
        world = self._world
        self._say("serve")
        for _ in range(8):
            is_busy = False
            for attempt in list(world.waiting_attempts()):
                self._do(world.come_about, attempt)
                is_busy = True
            for token, future in list(world.tokens.waiting()):
                self._do(future.set_result, world.tokens.verdict(token))
                is_busy = True
            world.look()
            for upstream in world.upstreams:
                asked = upstream.asked
                if asked is not None and asked.is_whole and not upstream.is_gone:
                    if upstream.is_tunnel:
                        continue
                    if asked.rest is not None:
                        self._do(upstream.finish)
                    elif asked.request.protocol and a % 2:
                        self._do(upstream.switch, asked.request.protocol)
                    else:
                        self._do(upstream.answer, b"200 OK", 8)
                    is_busy = True
            if not is_busy:
                break

    def answer(self, a: int, b: int, c: int) -> None:
        world = self._world
        upstreams = [each for each in world.upstreams if not each.is_gone]
        if not upstreams:
            return
        busy = [each for each in upstreams if each.asked is not None]
        upstream = (busy or upstreams)[a % len(busy or upstreams)]
        kind = b % len(ANSWERS)
        self._say("answer", kind, c, upstream)
        asked = upstream.asked
        if asked is None:
            if b < 32:
                self._do(upstream.send, GARBAGE)
        elif upstream.is_tunnel:
            self._do(upstream.send, b"tunnel" * (1 + c))
        elif asked.rest is not None:
            self._go_on(a, kind, c)
        elif asked.request.protocol and c % 2:
            self._do(upstream.switch, asked.request.protocol)
        else:
            self._do(ANSWERS[kind], upstream, c)

    def _go_on(self, a: int, kind: int, c: int) -> None:
        world = self._world
        busy = [each for each in world.upstreams if not each.is_gone and each.asked is not None]
        upstream = busy[a % len(busy)]
        if kind % 4 == 0:
            self._do(upstream.finish, b"X-Trailer: t\r\n" if c % 4 == 0 else b"")
        elif kind % 4 == 1:
            self._do(upstream.go_on, INITIAL_EVENTS_END)
        elif kind % 8 == 6 and upstream.asked is not None and upstream.asked.is_chunked:
            self._do(upstream.send, b"zz no chunk")
        else:
            self._do(upstream.go_on, b"+" * (1 + c))

    def upstream_takes(self, a: int, b: int, _c: int) -> None:
        upstreams = self._world.upstreams
        if upstreams:
            self._say("upstream takes", a % len(upstreams), b % 2 == 0)
            self._do(lambda: upstreams[a % len(upstreams)].wire.take(takes=b % 2 == 0))

    def upstream_leaves(self, a: int, b: int, _c: int) -> None:
        upstreams = [each for each in self._world.upstreams if not each.is_gone]
        if not upstreams:
            return
        upstream = upstreams[a % len(upstreams)]
        self._say("upstream leaves", "end" if b % 2 else "reset", upstream)
        if b % 2:
            asked = upstream.asked
            if asked is not None and asked.is_open:
                self._do(upstream.finish)
            self._do(upstream.wire.end)
        else:
            self._do(upstream.wire.break_off)

    # The rest.

    def wait(self, a: int, b: int, _c: int) -> None:
        duration_ns = TIMES_NS[a % len(TIMES_NS)]
        self._say("wait", duration_ns / S)
        if b == 0:
            self._world.loop.stall(duration_ns)
            duration_ns = 0
        self._world.loop.run_for(duration_ns)

    def authenticate(self, a: int, b: int, c: int) -> None:
        tokens, kind = self._world.tokens, b % 16
        waiting = tokens.waiting()
        self._say("authenticate", kind, a, c)
        if kind < 8:
            if not waiting:
                return
            token, future = waiting[a % len(waiting)]
            if kind == 0:
                self._do(tokens.fail, future)
            else:
                self._do(future.set_result, tokens.verdict(token))
        elif kind in (8, 9):
            tokens.modes["fickle"] = ("now", "later", "bad", "open", "fails")[c % 5]
        elif kind == 10:
            tokens.rename("fickle", ("carol", "dave", "erin")[c % 3])
        elif kind == 11:
            tokens.lifetime_s = (float("inf"), 0.1, 1.0)[c % 3]
        elif kind >= 12:
            tokens.rename("fickle", ("carol", "dave", "erin")[c % 3])
            self._do(self._world.forget_authentications)

    def configure(self, a: int, b: int, _c: int) -> None:
        world = self._world
        self._say("configure", a, b)
        if b % 2:
            self._do(world.configure, a)
        else:
            self._do(world.controller.adjust_limits)

    def renew(self, a: int, b: int, c: int) -> None:
        if b % 8 == 0 and c % 4 == 0:
            self._say("drain")
            self._do(self._world.begin_drain)
        elif b % 8 == 1:
            self._say("renew")
            self._do(self._world.renew)
        elif b % 8 == 2:
            self._say("settings", a, c)
            bits = int.from_bytes(self._program.settings, "little") ^ (a + 1) * 0x9E3779B97F4A7C15
            self._do(self._world.change_settings, Choices(bits >> c % 8))


ANSWERS: tuple[Callable[..., None], ...] = (
    *[lambda o, _c: o.answer(b"200 OK", 8)] * 8,
    *[lambda o, c: o.answer(b"200 OK", 300 * (c % 3), part=c)] * 2,
    lambda o, c: o.answer(b"200 OK", 8, more=b"Connection: close\r\n" if c % 2 else b""),
    lambda o, c: o.answer(b"500 Oh" if c % 2 else b"429 Too many", 20),
    lambda o, c: o.answer(b"404 Not found", 2000 if c % 2 else 8),
    *[lambda o, c: o.begin(b"-" * c, is_chunked=True)] * 6,
    lambda o, c: o.begin(b"-" * c, is_chunked=True, more=b"Connection: close\r\n"),
    *[lambda o, c: o.begin(b"-" * c, is_chunked=False)] * 2,
    *[
        lambda o, c: o.send(
            b"HTTP/1.1 100 Continue\r\n\r\n" if c % 2 else b"HTTP/1.1 103 Hints\r\nX-H: h\r\n\r\n"
        )
    ]
    * 2,
    *[lambda o, c: o.switch((o.asked.request.protocol if c % 4 else b"websocket") or b"websocket")]
    * 5,
    lambda o, c: o.answer_without_body(b"304 Not modified" if c % 2 else b"204 No content"),
    lambda o, c: o.answer_too_much(c),
    lambda o, c: o.answer_in_chunks(b"X-T: t\r\n" if c % 2 else b""),
    lambda o, _c: o.answer(b"302 Found", 8, more=b"Location: /elsewhere\r\n"),
    lambda o, c: o.send(
        (GARBAGE, b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")[c % 3]
    ),
)

WEIGHTS: tuple[tuple[Callable[[Play, int, int, int], None], int], ...] = (
    (Play.ask, 64),
    (Play.send, 24),
    (Play.answer, 40),
    (Play.come_about, 20),
    (Play.serve, 14),
    (Play.wait, 28),
    (Play.connect, 12),
    (Play.take, 12),
    (Play.leave, 10),
    (Play.upstream_takes, 6),
    (Play.upstream_leaves, 6),
    (Play.authenticate, 12),
    (Play.configure, 4),
    (Play.renew, 4),
)
OPERATIONS = tuple(operation for operation, weight in WEIGHTS for _ in range(weight))
assert len(OPERATIONS) == 256


def run(program: Program, *, is_traced: bool = False) -> Outcome:
    return Play(program, is_traced=is_traced).run()


def search(chance: random.Random, steps: int) -> tuple[Program | None, int]:
    """Run programs by chance until one finds something, or so many steps are taken."""
    taken = 0
    while taken < steps:
        program = Program.drawn(chance)
        outcome = run(program)
        taken += outcome.steps
        if outcome.finding:
            return program, taken
    return None, taken


def explained(outcome: Outcome) -> str:
    return "\n".join((*outcome.trace, outcome.finding or "nothing is found", ""))


def smallest(program: Program, most_runs: int = 600) -> Program:
    runs = 0

    def finds(settings: bytes, steps: Sequence[Step]) -> bool:
        nonlocal runs
        runs += 1
        return bool(run(Program(settings, tuple(steps))).finding)

    settings, steps = program.settings, list(program.steps)
    size = max(1, len(steps) // 2)
    while size and runs < most_runs:
        start = 0
        while start < len(steps) and runs < most_runs:
            shorter = steps[:start] + steps[start + size :]
            if finds(settings, shorter):
                steps = shorter
            else:
                start += size
        size //= 2
    for place in range(SETTINGS_BYTES):
        plainer = settings[:place] + b"\0" + settings[place + 1 :]
        if plainer != settings and finds(plainer, steps):
            settings = plainer
    return Program(settings, tuple(steps))
