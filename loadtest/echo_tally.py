"""What became of requests: every answer is right and whole, visibly broken, or wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadtest.echo import event

if TYPE_CHECKING:
    from loadtest.echo import Ask

OWN_ANSWERS = frozenset((408, 429, 502, 503, 504))
"""Statuses that a proxy may answer by itself to requests that are all right."""


@dataclass(slots=True)
class Answer:
    """What has come of an answer.

    Attributes:
        status: Its code.
        name: Of the request that it says it is for; none if the proxy made it.
        left: Bytes of its body to come; -1 for chunks, -2 for all until the connection ends.
        body: So far.
    """

    status: int
    name: bytes | None
    left: int
    body: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Tally:
    """What became of requests.

    Attributes:
        asked: Sent, or begun to be.
        answered: Right and whole, from the origin.
        by_status: The proxy's own answers.
        broken: The answer began, and its connection ended before its end.
        lost: The connection ended before the answer began.
        left: The client did.
        cut: Right and apparently whole, but short: the origin's connection marked its end and was
            closed early, which nobody can tell from the real end.
        mispaired: The answer is, in part or whole, not that of the request.
        hung: Neither an answer nor an end came.
        refused: Connections that were not made.
        wrong: The first few of the last two kinds.
    """

    asked: int = 0
    answered: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    lost: int = 0
    left: int = 0
    cut: int = 0
    mispaired: int = 0
    hung: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def ended(self) -> int:
        return (
            self.answered
            + sum(self.by_status.values())
            + self.broken
            + self.lost
            + self.left
            + self.cut
            + self.mispaired
            + self.hung
        )

    def on_mispaired(self, text: str) -> None:
        self.mispaired += 1
        self.complain(text)

    def complain(self, text: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(text)

    def judge(self, ask: Ask, answer: Answer) -> None:
        if answer.name is None:
            if answer.status in OWN_ANSWERS:
                self.by_status[answer.status] = self.by_status.get(answer.status, 0) + 1
            else:
                text = bytes(answer.body[:200])
                self.on_mispaired(f"{answer.status} for {ask}: {text!r}")
            return
        expected = ask.expected_body()
        body = bytes(answer.body)
        if answer.name == ask.id and body == expected:
            self.answered += 1
        elif answer.name == ask.id and ask.kind == "until-close" and expected.startswith(body):
            self.cut += 1
        else:
            self.on_mispaired(f"{answer.name!r}, {len(body)} bytes {body[:100]!r} for {ask}")

    def judge_broken(self, ask: Ask, answer: Answer) -> None:
        if answer.name is not None and ask.is_watch:
            if not self.judge_watch(ask, answer):
                return
        elif answer.name is not None and not (
            answer.name == ask.id and ask.expected_body().startswith(bytes(answer.body))
        ):
            self.on_mispaired(f"{answer.name!r}, {bytes(answer.body[:100])!r} for {ask}")
            return
        self.broken += 1

    def judge_watch(self, ask: Ask, answer: Answer) -> bool:
        one = event(ask.id)
        events = one * (len(answer.body) // len(one) + 1)
        is_right = answer.name == ask.id and events.startswith(bytes(answer.body))
        if not is_right:
            self.on_mispaired(f"{answer.name!r}, {bytes(answer.body[:100])!r} for {ask}")
        return is_right
