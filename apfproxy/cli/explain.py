"""`apfproxy explain`: the FlowSchema of a request, the reason, and what would happen to it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import click
import msgspec

from apfproxy.admin.explain_page import (
    PATH,
    TOLD_APART,
    RawRequest,
    header_in,
    parse_header,
    read_raw_request,
    request_of_line,
)
from apfproxy.authn.impersonation import effective
from apfproxy.cli.admin_client import fetch, of_cluster
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.kubectl_phrases import (
    IS_NAMESPACED,
    parse_path_request,
    parse_phrase,
)
from apfproxy.cli.offline import controller_of_flags, is_offline, objects_options
from apfproxy.cli.parameters import (
    Parsed,
    WholeNumber,
    admin_options,
    aligned,
    output_option,
    path_prefix_option,
)
from apfproxy.flowcontrol.classifier import LONGEST_VALUE, MODEL, QUERY, raw_query
from apfproxy.flowcontrol.explanation import Explanation
from apfproxy.flowcontrol.explanation import explain as explained
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.additions import LONGEST_HEADER_NAME
from apfproxy.objects.field_errors import counted, one_line
from apfproxy.proxy.request import preset_of
from apfproxy.request.attributes import ANONYMOUS, User, supposed_groups
from apfproxy.settings import HTTP_API, KUBERNETES_API, RequestSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.cli.parameters import AdminAddress
    from apfproxy.flowcontrol.explanation import (
        EstimatePart,
        FlowPart,
        FlowSchemaPart,
        LevelPart,
        RequestPart,
    )
    from apfproxy.flowcontrol.preset import Preset

    Lines = Iterable[tuple[str, str]]

STDIN = "-"
LARGEST_HEAD_BYTES = 1 << 20
COLOURS = {"execute": "green", "wait": "yellow", "reject": "red"}
LABEL_WIDTH = 16
ACROSS_NAMESPACES = frozenset({"list", "watch", "deletecollection"})
"""Verbs of requests that may be for all namespaces at once."""
EXAMPLE_NOTE = (
    "offline nothing executes or waits, and without --hash-seed the hash and the hand are an"
    " example: a proxy draws its own seed"
)

EPILOG = f"""\b
Examples:
  apfproxy explain list pods -n x --as alice
  apfproxy explain get deployments.apps/scale web --as alice --as-group dev
  apfproxy explain --verb GET --path /api/v1/pods?limit=500 --as alice
  apfproxy explain list pods -A --as alice --admin 10.0.0.7:8081 -o json
  apfproxy explain list pods -A --as alice --objects objects/
  printf 'GET /healthz HTTP/1.1\\nHost: a\\n\\n' | apfproxy explain --offline -

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[VERB RESOURCE [NAME] | -]")
@click.option(
    "--verb", help="HTTP method or Kubernetes verb of the request to --path. [default: GET]"
)
@click.option("--path", metavar="/PATH", help="The target of the request, with its query.")
@click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace of the object. [default: default]"
)
@click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    help="All namespaces, or a resource that has no namespace.",
)
@click.option("--as", "user", metavar="USER", help="The user. [default: system:anonymous]")
@click.option(
    "--as-group", "groups", multiple=True, metavar="GROUP", help="A group of the user.  Repeatable."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    type=Parsed("header", parse_header),
    metavar="NAME:VALUE",
    help="A header field, for FlowSchemas that tell flows apart by one.  Repeatable.",
)
@click.option(
    "--model", metavar="NAME", help="The model that the body of a completion (of an LLM API) names."
)
@objects_options
@click.option(
    "--hash-seed",
    type=WholeNumber(0, (1 << 32) - 1),
    metavar="SEED",
    help="The proxy's setting flowControl.hashSeed, if it has one.",
)
@path_prefix_option
@admin_options
@output_option
@click.option(
    "-v", "--verbose", is_flag=True, help="Show the failures of all rules, not only the first."
)
def explain(  # noqa: PLR0913 - a parameter for each flag
    *,
    words: tuple[str, ...],
    verb: str | None,
    path: str | None,
    namespace: str | None,
    all_namespaces: bool,
    user: str | None,
    groups: tuple[str, ...],
    headers: tuple[tuple[str, str], ...],
    model: str | None,
    hash_seed: int | None,
    path_prefix: tuple[str, ...],
    admin: AdminAddress,
    cluster: str | None,
    output: str,
    verbose: bool,
    **objects: Any,  # noqa: ANN401 - as click gives them
) -> int:
    """Explain how a request is classified, and what happens to it.

    The request is given as kubectl would name it (VERB is get, list, watch, create, update, patch,
    delete or deletecollection; RESOURCE is pods, deployments.apps, pods/log and so on), as --verb
    and --path, or raw on standard input (-).

    The answer begins with what would happen now.  Then come the FlowSchemas in their order, each
    with the first rule that fails, the chosen one, the priority level, the flow and its hand of
    queues, and the seats.

    A running proxy is asked.  With --offline, --objects or another flag about the configuration no
    proxy is asked: the answer is that of an idle one with the built-in objects and those of
    --objects.
    """
    asks_no_proxy = is_offline(*objects, "hash_seed", "path_prefix")
    if groups and user is None:
        raise click.UsageError("--as-group needs --as")
    for flag, names in (("--as", (user,)), ("--as-group", groups)):
        if "" in names:
            raise click.UsageError(f"{flag} needs a name")
    # A running proxy judges by its own preset, so here only what no API takes is refused.
    preset = (objects["preset"] or KUBERNETES_API) if asks_no_proxy else HTTP_API
    settings = Settings(preset=preset, request=RequestSettings(path_prefixes=path_prefix))
    asked = request_of(words, verb, path, namespace, settings, all_namespaces=all_namespaces)
    if user is not None:
        # What was supposed about a raw request's user does not matter then.
        notes = () if words == (STDIN,) else asked.notes
        named = effective(User(user, supposed_groups(user, groups)))
        asked = replace(asked, user=named, notes=notes)
    named_model = ((MODEL, model),) if model else ()
    asked = replace(asked, headers=headers + asked.headers + named_model)
    if asks_no_proxy:
        explanation = explained_offline(asked, hash_seed, objects, preset_of(settings))
    else:
        explanation = explained_by(admin, cluster, asked)
    explanation = msgspec.structs.replace(explanation, notes=explanation.notes + asked.notes)
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(explanation), indent=2))
    else:
        for line in explanation_lines(explanation, is_verbose=verbose):
            click.echo(line)
    return OK


def request_of(
    words: tuple[str, ...],
    verb: str | None,
    path: str | None,
    namespace: str | None,
    settings: Settings,
    *,
    all_namespaces: bool,
) -> RawRequest:
    """The request that is explained; only a raw one can name a user.

    UsageError if it is not said clearly, and CommandError if the proxy would refuse it.
    """
    if bool(words) == (path is not None):
        raise click.UsageError(
            "say the request once: VERB RESOURCE [NAME], or --path, or - for stdin"
        )
    if (path is not None or words == (STDIN,)) and (namespace is not None or all_namespaces):
        raise click.UsageError("--namespace and --all-namespaces go with VERB RESOURCE only")
    if verb is not None and path is None:
        raise click.UsageError("--verb goes with --path")
    if words == (STDIN,):
        try:
            return read_raw_request(sys.stdin.buffer.read(LARGEST_HEAD_BYTES), settings)
        except ValueError as error:
            raise CommandError(f"<stdin>: {error}") from error
    notes: tuple[str, ...] = ()
    if path is not None:
        method, target = parse_path_request(verb or "GET", path)
    else:
        method, target, notes = parse_phrase(
            words, namespace=namespace, is_cluster_wide=all_namespaces
        )
    try:
        return replace(request_of_line(method, target, settings), notes=notes)
    except ValueError as error:
        raise CommandError(str(error)) from error


def explained_offline(
    asked: RawRequest, hash_seed: int | None, objects: dict[str, Any], preset: Preset
) -> Explanation:
    headers = (*asked.headers, (QUERY, raw_query(asked.target)))
    found = explained(
        controller_of_flags(**objects, hash_seed=hash_seed),
        LearnedCosts(lambda: 0),
        asked.user,
        preset.attributes_of(asked.method, asked.target),
        lambda name: header_in(headers, name),
    )
    told_apart = (TOLD_APART,) if preset.is_plain and asked.user is ANONYMOUS else ()
    example = (EXAMPLE_NOTE,) if hash_seed is None else ()
    return msgspec.structs.replace(found, notes=found.notes + told_apart + example)


def explained_by(admin: AdminAddress, cluster: str | None, asked: RawRequest) -> Explanation:
    query = [("method", asked.method), ("target", asked.target.decode("latin-1"))]
    data = urlencode(query, quote_via=quote, encoding="latin-1")
    # No more than tells flows apart: a request line is short.
    named = [
        ("model", value) if name == MODEL else ("header", f"{name}:{value[:LONGEST_VALUE]}")
        for name, value in asked.headers
        if len(name) <= LONGEST_HEADER_NAME
    ]
    if asked.user != ANONYMOUS:
        named += [("user", asked.user.name), *(("group", group) for group in asked.user.groups)]
    if named:
        data += "&" + urlencode(named, quote_via=quote, errors="surrogateescape")
    found: Explanation = fetch(admin, of_cluster(cluster, f"{PATH}?{data}"), Explanation)
    return found


def explanation_lines(explanation: Explanation, *, is_verbose: bool) -> Iterator[str]:
    """An explanation as text with colours; all reasons for a mismatch only if verbose."""
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
    weight = f", weight {flow.weight}" if flow.weight > 1 else ""
    yield "flow", f"{text} (hash {flow.hash}{weight})"
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
