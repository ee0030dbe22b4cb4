"""An explanation as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from apfproxy.cli.kubectl_phrases import IS_NAMESPACED
from apfproxy.cli.parameters import aligned
from apfproxy.objects.field_errors import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.flowcontrol.explanation import (
        EstimatePart,
        Explanation,
        FlowPart,
        FlowSchemaPart,
        LevelPart,
        RequestPart,
    )

    Lines = Iterable[tuple[str, str]]

COLOURS = {"execute": "green", "wait": "yellow", "reject": "red"}
LABEL_WIDTH = 16
ACROSS_NAMESPACES = frozenset({"list", "watch", "deletecollection"})
"""Verbs of requests that may be for all namespaces at once."""


def explanation_lines(explanation: Explanation, *, is_verbose: bool) -> Iterator[str]:
    """The lines of an explanation, with colours, what would happen first.

    All reasons for a mismatch only if verbose.
    """
    outcome = explanation.outcome
    yield click.style(verdict(explanation), fg=COLOURS.get(outcome.decision), bold=True)
    notes = [("note", each) for each in explanation.notes]
    yield from _labelled([("because", outcome.text.partition(": ")[2]), *notes])
    yield ""
    user = explanation.user
    who = ("user", f"{user.name} of {', '.join(user.groups) or 'no group'}")
    yield from _labelled(_request(explanation.request, who))
    yield ""
    yield "FlowSchemas in the order in which they are tried:"
    width = max((len(one_line(each.name)) for each in explanation.flow_schemas), default=0)
    for schema in explanation.flow_schemas:
        yield from _flow_schema_lines(schema, width, is_verbose=is_verbose)
    for name, level in explanation.dangling.items():
        yield one_line(f"  not used: {name}, whose priority level {level} does not exist")
    yield ""
    yield f"{'FlowSchema':<{LABEL_WIDTH}}" + click.style(
        one_line(explanation.flow_schema), bold=True
    )
    yield from _labelled(_level(explanation.priority_level))
    yield from _labelled(_flow(explanation.flow))
    yield from _labelled(_estimate(explanation.estimate))
    yield from _labelled(("addition", each) for each in explanation.additions)


def _labelled(lines: Lines) -> Iterator[str]:
    for label, text in lines:
        yield f"{label:<{LABEL_WIDTH}}{one_line(text)}"


def verdict(explanation: Explanation) -> str:
    """One line about what would happen now."""
    outcome, flow = explanation.outcome, explanation.flow
    level = explanation.priority_level.name
    behind = f"behind {counted(outcome.ahead, 'request')}" if outcome.ahead else "as the first"
    what = {
        "execute": f"would execute at once in level {level}",
        "wait": f"would wait in queue {outcome.queue} of level {level}, {behind}",
        "reject": f"would be {outcome.text.partition(':')[0]}, by level {level}",
    }.get(outcome.decision, outcome.text)
    whose = f"as flow {flow.distinguisher} of" if flow.distinguisher else "by"
    return one_line(f"{what}, {whose} FlowSchema {explanation.flow_schema}")


def _request(request: RequestPart, who: tuple[str, str]) -> Lines:
    if request.is_resource_request:
        resource = request.resource
        resource += f".{request.api_group}" if request.api_group else ""
        resource += f"/{request.subresource}" if request.subresource else ""
        words = (request.verb or "(no verb)", resource, request.name, _where(request))
        yield "request", " ".join(filter(None, words))
        yield "path", request.path
    else:
        yield "request", f"{request.verb} {request.path}, which is no resource"
    if request.path_prefix:
        yield "below", request.path_prefix
    yield who
    if request.long_running:
        yield "long-running", request.long_running_by or "as kube-apiserver has it"


def _where(request: RequestPart) -> str:
    """The namespace, or what is meant by none: all of them, unless the resource is in none."""
    if request.namespace:
        return f"in namespace {request.namespace}"
    is_namespaced = IS_NAMESPACED.get((request.api_group, request.resource))
    if request.verb not in ACROSS_NAMESPACES or is_namespaced is False:
        return "in no namespace"
    return "in all namespaces" if is_namespaced else "in all namespaces, or in none"


def _flow_schema_lines(schema: FlowSchemaPart, width: int, *, is_verbose: bool) -> Iterator[str]:
    reasons = [f"{each.field}: {each.reason}" for each in schema.mismatches]
    mark = "no"
    if schema.is_chosen:
        mark, reasons = "yes", [f"chosen: priority level {schema.priority_level}"]
    elif schema.matches:
        mark, reasons = "-", ["would match, but an earlier one is chosen"]
    elif not is_verbose and len(reasons) > 1:
        reasons = [f"{reasons[0]} (and {len(reasons) - 1} more: -v)"]
    start = f"{mark:>3} {schema.matching_precedence:>5}  {one_line(schema.name):<{width}}  "
    for reason in reasons:
        text = f"{start}{one_line(reason)}"
        if schema.is_chosen:
            yield click.style(text, fg="green", bold=True)
        else:
            yield text if schema.matches else click.style(text, dim=True)
        start = " " * len(start)


def _level(level: LevelPart) -> Lines:
    what = {
        "exempt": "exempt: never limited",
        "reject": "rejects what does not fit",
        "queue": f"{level.queues} queues of {level.queue_length_limit}, hands of {level.hand_size}",
    }.get(level.kind, level.kind)
    yield "priority level", f"{level.name} ({what})"
    seats = f"{level.seats_in_use} in use"
    if level.kind == "exempt":
        yield "  seats", f"{seats}, without a limit; nominal {level.nominal_limit}"
    else:
        limits = f"nominal {level.nominal_limit}, from {level.lower_limit} to {level.upper_limit}"
        yield "  seats", f"{seats} of {level.current_limit} now; {limits}"
    executing, waiting = level.requests_executing, level.requests_waiting
    yield "  requests", f"{executing} executing, {waiting} waiting"


def _flow(flow: FlowPart) -> Lines:
    by = flow.distinguished_by.removeprefix("By")
    by = by.lower() if by in {"User", "Namespace"} else flow.distinguished_by
    if not by:
        text = "one for the whole FlowSchema"
    else:
        text = f"{by} {flow.distinguisher}" if flow.distinguisher else f"no {by} tells it apart"
    yield "flow", f"{text} (hash {flow.hash})"
    if flow.hand:
        first, *rest = aligned(
            ("queue", *(str(each.index) for each in flow.hand)),
            [
                ("waiting", *(str(each.requests_waiting) for each in flow.hand)),
                ("seats", *(str(each.seats_in_use) for each in flow.hand)),
            ],
            frozenset(range(1, len(flow.hand) + 1)),
        )
        yield "  hand", first
        yield from (("", each) for each in rest)


def _estimate(estimate: EstimatePart) -> Lines:
    if not estimate.takes_seats:
        yield "estimate", "no seats: it may last as long as its client likes"
        return
    text = counted(estimate.initial_seats, "seat")
    if estimate.additional_latency_seconds:
        latency_ms = estimate.additional_latency_seconds * 1000
        text += f", then {estimate.final_seats} for {latency_ms:g} ms after its end"
    yield "estimate", text
    yield "  because", estimate.source
