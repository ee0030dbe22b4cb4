"""What several workers say of one request as one explanation.

They classify it alike, and deal it the same hand, since they have the same objects and the same
seed.  What executes and what waits is summed.  What would happen depends on the worker that has the
client's connection: where they differ, that is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.admin.findings import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.flowcontrol.explanation import Explanation, LevelPart, QueuePart

SEVERAL = (
    "seats and requests of the level and its queues are sums over {count} workers; what would"
    " happen is what worker {first} says"
)


def merged_explanation(found: Mapping[int, Explanation]) -> Explanation:
    """The explanation of all workers, by their indices; there is at least one."""
    answers = list(found.values())
    first = answers[0]
    if len(answers) == 1:
        return first
    alike = [each for each in answers if each.flow_schema == first.flow_schema]
    notes = [*first.notes, SEVERAL.format(count=len(answers), first=next(iter(found)))]
    others: dict[str, list[str]] = {}
    for index, each in found.items():
        if each.flow_schema != first.flow_schema:
            kind = f"has other objects, by which it is of FlowSchema {each.flow_schema}"
            others.setdefault(kind, []).append(str(index))
        elif each.outcome.decision != first.outcome.decision:
            others.setdefault(f"would {each.outcome.decision} it", []).append(str(index))
    for what, indices in others.items():
        notes.append(f"worker {listed(indices)} {what}")
    return msgspec.structs.replace(
        first,
        priority_level=_level([each.priority_level for each in alike]),
        flow=msgspec.structs.replace(first.flow, hand=_hand([each.flow.hand for each in alike])),
        notes=tuple(notes),
    )


def _level(parts: Sequence[LevelPart]) -> LevelPart:
    def total(name: str) -> int:
        return sum(getattr(part, name) for part in parts)

    summed = (
        "nominal_limit",
        "lower_limit",
        "upper_limit",
        "current_limit",
        "seats_in_use",
        "requests_executing",
        "requests_waiting",
    )
    return msgspec.structs.replace(parts[0], **{name: total(name) for name in summed})


def _hand(hands: Sequence[tuple[QueuePart, ...]]) -> tuple[QueuePart, ...]:
    """The hand of the first one, with what is in these queues in all."""
    found = {queue.index: queue for queue in hands[0]}
    for hand in hands[1:]:
        for queue in hand:
            known = found.get(queue.index)
            if known is not None:
                found[queue.index] = msgspec.structs.replace(
                    known,
                    requests_waiting=known.requests_waiting + queue.requests_waiting,
                    requests_executing=known.requests_executing + queue.requests_executing,
                    seats_in_use=known.seats_in_use + queue.seats_in_use,
                )
    return tuple(found.values())
