"""An explanation as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from apfproxy.cli.kubectl_phrases import IS_NAMESPACED
from apfproxy.cli.parameters import aligned
from apfproxy.objects.field_errors import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.flowcontrol.explanation import Explanation, FlowSchemaPart, RequestPart

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
    _, _, because = outcome.text.partition(": ")
    yield _labelled("because", one_line(because))
    for line in explanation.notes:
        yield _labelled("note", one_line(line))
    yield ""
    yield from _request_lines(explanation)
    yield ""
    yield "FlowSchemas in the order in which they are tried:"
    yield from _flow_schema_lines(explanation, is_verbose=is_verbose)
    for name, level in explanation.dangling.items():
        yield f"  not used: {one_line(name)}, whose priority level {one_line(level)} does not exist"
    yield ""
    yield _labelled("FlowSchema", click.style(one_line(explanation.flow_schema), bold=True))
    yield from _level_lines(explanation)
    yield from _flow_lines(explanation)
    yield from _estimate_lines(explanation)
    for line in explanation.additions:
        yield _labelled("addition", one_line(line))


def verdict(explanation: Explanation) -> str:
    """One line about what would happen now."""
    outcome, flow = explanation.outcome, explanation.flow
    level = explanation.priority_level.name
    what = {
        "execute": f"would execute at once in level {level}",
        "wait": f"would wait in queue {outcome.queue} of level {level}"
        + (f", behind {counted(outcome.ahead, 'request')}" if outcome.ahead else ", as the first"),
        "reject": f"would be {outcome.text.partition(':')[0]}, by level {level}",
    }.get(outcome.decision, outcome.text)
    whose = f"as flow {flow.distinguisher} of" if flow.distinguisher else "by"
    return one_line(f"{what}, {whose} FlowSchema {explanation.flow_schema}")


def _labelled(label: str, text: str) -> str:
    return f"{label:<{LABEL_WIDTH}}{text}"


def _request_lines(explanation: Explanation) -> Iterator[str]:
    request, user = explanation.request, explanation.user
    if request.is_resource_request:
        resource = request.resource
        resource += f".{request.api_group}" if request.api_group else ""
        resource += f"/{request.subresource}" if request.subresource else ""
        words = [request.verb or "(no verb)", resource]
        words += [request.name] if request.name else []
        yield _labelled("request", one_line(f"{' '.join(words)} {_where(request)}"))
        yield _labelled("path", one_line(request.path))
    else:
        yield _labelled("request", one_line(f"{request.verb} {request.path}, which is no resource"))
    if request.path_prefix:
        yield _labelled("below", one_line(request.path_prefix))
    groups = ", ".join(user.groups) or "no group"
    yield _labelled("user", one_line(f"{user.name} of {groups}"))
    if request.long_running:
        why = request.long_running_by or "as kube-apiserver has it"
        yield _labelled("long-running", one_line(why))


def _where(request: RequestPart) -> str:
    """The namespace, or what is meant by none: all of them, unless the resource is in none."""
    if request.namespace:
        return f"in namespace {request.namespace}"
    is_namespaced = IS_NAMESPACED.get((request.api_group, request.resource))
    if request.verb not in ACROSS_NAMESPACES or is_namespaced is False:
        return "in no namespace"
    return "in all namespaces" if is_namespaced else "in all namespaces, or in none"


def _flow_schema_lines(explanation: Explanation, *, is_verbose: bool) -> Iterator[str]:
    schemas = explanation.flow_schemas
    names = [one_line(schema.name) for schema in schemas]
    width = max(map(len, names), default=0)
    for name, schema in zip(names, schemas, strict=True):
        mark, first, *more = _schema_verdict(schema, is_verbose=is_verbose)
        start = f"{mark:>3} {schema.matching_precedence:>5}  {name:<{width}}  "
        line = f"{start}{one_line(first)}"
        if schema.is_chosen:
            line = click.style(line, fg="green", bold=True)
        elif not schema.matches:
            line = click.style(line, dim=True)
        yield line
        for text in more:
            yield click.style(f"{'':<{len(start)}}{one_line(text)}", dim=True)


def _schema_verdict(schema: FlowSchemaPart, *, is_verbose: bool) -> list[str]:
    """A mark, then what to say about the FlowSchema, a line each."""
    if schema.is_chosen:
        return ["yes", f"chosen: priority level {schema.priority_level}"]
    if schema.matches:
        return ["-", "would match, but an earlier one is chosen"]
    reasons = [f"{each.field}: {each.reason}" for each in schema.mismatches]
    if not is_verbose and len(reasons) > 1:
        return ["no", f"{reasons[0]} (and {len(reasons) - 1} more: -v)"]
    return ["no", *reasons]


def _level_lines(explanation: Explanation) -> Iterator[str]:
    level = explanation.priority_level
    what = {
        "exempt": "exempt: never limited",
        "reject": "rejects what does not fit",
        "queue": f"{level.queues} queues of {level.queue_length_limit}, hands of {level.hand_size}",
    }.get(level.kind, level.kind)
    yield _labelled("priority level", one_line(f"{level.name} ({what})"))
    if level.kind == "exempt":
        seats = f"{level.seats_in_use} in use, without a limit; nominal {level.nominal_limit}"
    else:
        seats = (
            f"{level.seats_in_use} in use of {level.current_limit} now;"
            f" nominal {level.nominal_limit}, from {level.lower_limit} to {level.upper_limit}"
        )
    yield _labelled("  seats", seats)
    yield _labelled(
        "  requests", f"{level.requests_executing} executing, {level.requests_waiting} waiting"
    )


def _flow_lines(explanation: Explanation) -> Iterator[str]:
    flow = explanation.flow
    by = {"ByUser": "user", "ByNamespace": "namespace"}.get(
        flow.distinguished_by, flow.distinguished_by
    )
    if not flow.distinguished_by:
        text = "one for the whole FlowSchema"
    elif not flow.distinguisher:
        text = f"no {by} tells it apart"
    else:
        text = f"{by} {flow.distinguisher}"
    yield _labelled("flow", one_line(f"{text} (hash {flow.hash})"))
    if not flow.hand:
        return
    rows = [
        [str(queue.index), str(queue.requests_waiting), str(queue.seats_in_use)]
        for queue in flow.hand
    ]
    columns = zip(("queue", "waiting", "seats"), zip(*rows, strict=True), strict=True)
    table = aligned(
        ("", *("" for _ in rows)),
        [(name, *cells) for name, cells in columns],
        frozenset(range(1, len(rows) + 1)),
    )[1:]
    for label, line in zip(("  hand", "", ""), table, strict=True):
        yield _labelled(label, line)


def _estimate_lines(explanation: Explanation) -> Iterator[str]:
    estimate = explanation.estimate
    text = counted(estimate.initial_seats, "seat")
    if estimate.additional_latency_seconds:
        text += (
            f", then {estimate.final_seats} for"
            f" {estimate.additional_latency_seconds * 1000:g} ms after its end"
        )
    if not estimate.takes_seats:
        text = "no seats: it may last as long as its client likes"
    yield _labelled("estimate", text)
    if estimate.takes_seats:
        yield _labelled("  because", one_line(estimate.source))
