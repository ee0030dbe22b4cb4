"""`/debug/explain`: how flow control would treat a request, by current configuration and queues.

    /debug/explain?method=GET&target=/api/v1/pods&user=alice&group=dev&group=ops

The request need not exist: a reader of the page may ask about any user.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from apfproxy.authn.impersonation import effective
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.request.attributes import (
    ANONYMOUS,
    TOKEN,
    AttributesError,
    RequestAttributes,
    User,
    supposed_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.explanation import Explanation
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.flowcontrol.preset import Preset

    Headers = Sequence[tuple[str, str]]

PATH = "/debug/explain"
NOT_ENFORCED = (
    "this proxy only observes: whatever is said here to wait or to be rejected executes at once"
)
TOLD_APART = (
    "unverified clients are told apart: --as key:HASH or --as address:192.0.2.7 explains"
    " the flow of one, by its name in apfproxy top"
)
PARAMETERS = ("method", "target", "user", "group", "header")
OF_ALL_PAGES = frozenset({"cluster", "worker"})
MAX_PARAMETERS = 200
USAGE = f"""\
Ask what would happen to a request:

  {PATH}?method=GET&target=/api/v1/namespaces/x/pods&user=alice&group=dev

  method  of the request; GET if left out
  target  path and query, escaped
  user    who asks; anonymous if left out
  group   of the user; may be repeated
  header  of the request, as name:value, where a FlowSchema tells its flows apart by one

The answer is JSON; apfproxy explain shows it as text.
"""


def explained(
    query: str,
    controller: Controller,
    costs: LearnedCosts,
    judge: Callable[[str, bytes], object],
    preset: Preset,
    notes: Callable[[User], Iterable[str]] = lambda _: (),
) -> Explanation:
    """Explain a request by the page's query; ValueError if that makes no sense.

    `judge` raises ValueError for a method and a target that the proxy would refuse; the notes are
    lines about this proxy now, for a user.
    """
    user, attributes, headers = question(query, judge, preset)
    found = explain(controller, costs, user, attributes, lambda name: header_in(headers, name))
    return msgspec.structs.replace(found, notes=(*found.notes, *notes(user)))


def question(
    query: str, judge: Callable[[str, bytes], object], preset: Preset = KUBERNETES
) -> tuple[User, RequestAttributes, Headers]:
    """Read who asks for what, with which headers, by the page's query as it stands in the URL.

    ValueError, which says what would make sense, if it makes none or `judge` refuses it.
    """
    try:
        # Names and targets are bytes to others, so none may be lost.
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="surrogateescape", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise ValueError(f"there are more than {MAX_PARAMETERS} parameters") from None
    given: dict[str, list[str]] = {name: [] for name in PARAMETERS}
    for name, value in pairs:
        if name in OF_ALL_PAGES:
            continue  # has been looked at already
        if name not in given:
            raise ValueError(f"expected the parameters {', '.join(given)}, not {name!r}")
        given[name].append(value)
    for name in ("method", "target", "user"):
        if len(given[name]) > 1:
            raise ValueError(f"{name} is given twice; keep one")
    target = "".join(given["target"])
    if not target:
        raise ValueError("say what is asked for: target=/path")
    method = "".join(given["method"]) or "GET"
    if TOKEN.fullmatch(method) is None:
        raise ValueError(f"expected a method such as GET, not {method!r}")
    asked = target.encode(errors="surrogateescape")
    judge(method, asked)
    try:
        attributes = preset.attributes_of(method, asked)
    except AttributesError as error:
        raise ValueError(f"malformed request target: {error}") from None
    name, groups = "".join(given["user"]), tuple(given["group"])
    if not name and groups:
        raise ValueError("group needs user")
    user = effective(User(name, supposed_groups(name, groups))) if name else ANONYMOUS
    return user, attributes, tuple(map(parse_header, given["header"]))


def parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or TOKEN.fullmatch(name.strip()) is None:
        raise ValueError(f"expected a header such as X-Team:red, not {text!r}")
    return name.strip().lower(), value.strip(" \t")


def header_in(headers: Headers, name: str) -> str:
    """The first value of a header, by its name in lower case; "" if there is none."""
    return next((value for each, value in headers if each == name), "")


def explanation_json(explanation: Explanation) -> str:
    return json.dumps(msgspec.to_builtins(explanation), indent=2)
