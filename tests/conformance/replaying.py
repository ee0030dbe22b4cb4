"""Sends recorded requests to a server, in order, and compares its answers with the recorded ones.

Compared are the status; of an error its reason, and fields and reasons of its causes; of a success
the whole object, without `managedFields` unless the step's note names them; of a Table the names of
its columns and its cells but for ages; of a watch its events; of a list of resources those that
this server has.  What differs in every run (uids, times, versions, tokens) counts as equal.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from typing import Any

VOLATILE = frozenset(
    {
        "continue",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "resourceVersion",
        "selfLink",
        "startTime",
        "time",
        "timeAdded",
        "uid",
    }
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
REFERENCE = re.compile(r"\$\{(\w+)\}")

FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
MOST_LOOKS = 1000
"""At the FlowSchemas until all have a status; a few suffice, since each look lets others work."""


class Server:
    """A server as a client sees it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def send(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request on a connection of its own; the answer's status, fields and body."""
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def settle(self) -> None:
        """Wait until the server's own writers have caught up: every FlowSchema has its status."""
        for _ in range(MOST_LOOKS):
            _, _, body = self.send("GET", FLOW_SCHEMAS)
            if all("conditions" in item["status"] for item in json.loads(body)["items"]):
                return
        raise AssertionError("some FlowSchema gets no status")


def replay(steps: list[dict[str, Any]], server: Server) -> list[str]:
    """Send all steps.

    Returns:
        What differs, a line for each step that does.
    """
    saved: dict[str, str] = {}
    problems = []
    for step in steps:
        problem = answer_to(step, server, saved)
        if problem:
            problems.append(f"{step['id']}: {step['method']} {step['path'][:80]}: {problem}")
        if step["method"] != "GET":
            server.settle()
    return problems


def answer_to(step: dict[str, Any], server: Server, saved: dict[str, str]) -> str:
    """Send one step, save what later ones need, and say what differs; "" for nothing."""
    path = REFERENCE.sub(
        lambda found: urllib.parse.quote(saved.get(found[1], ""), safe=""), step["path"]
    )
    body = step.get("raw")
    if "body" in step:
        body = REFERENCE.sub(lambda found: saved.get(found[1], ""), json.dumps(step["body"]))
    headers = {"Accept": step.get("accept", "application/json")}
    if "content_type" in step:
        headers["Content-Type"] = step["content_type"]
    status, fields, data = server.send(step["method"], path, body, headers)
    events = None
    if "events" in step and status == http.client.OK:
        events = [json.loads(line) for line in data.splitlines() if line.strip()]
    answer = json.loads(data) if events is None else None
    for name, dotted in step.get("save", {}).items():
        saved[name] = str(lookup(answer, dotted))
    problem = difference(step, status, answer, events)
    if not problem and step["expect"].get("warnings") and "Warning" not in fields:
        return "no Warning"
    return problem


def lookup(value: Any, dotted: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a path of names; "" where there is none."""
    for part in dotted.split("."):
        value = (value or {}).get(part)
    return value or ""


def difference(
    step: dict[str, Any],
    status: int,
    answer: Any,  # noqa: ANN401 - JSON
    events: list[Any] | None,
) -> str:
    """What of an answer is unlike the recorded one; "" for nothing."""
    want = step["expect"]
    if status != want["status"]:
        return f"status {status}, want {want['status']}: {lookup(answer, 'message')}"
    if "events" in want:
        return first_difference(
            [event(each) for each in want["events"]], [event(each) for each in events or []]
        )
    expected = want.get("body")
    if expected is None:
        return ""
    if status >= http.client.BAD_REQUEST:
        return first_difference(failure(expected), failure(answer))
    if expected.get("kind") == "Table":
        return first_difference(table(expected), table(answer))
    if expected.get("kind") == "APIGroup":
        return first_difference(expected["name"], answer["name"])
    if expected.get("kind") == "APIResourceList":
        return first_difference(*resources(expected, answer))
    with_managers = "managedFields" in step.get("note", "")
    return first_difference(
        normal(expected, with_managers=with_managers), normal(answer, with_managers=with_managers)
    )


def event(each: dict[str, Any]) -> list[Any]:
    """What of an event is compared."""
    held = each.get("object") or {}
    if each.get("type") == "ERROR":
        return ["ERROR", held.get("code"), held.get("reason")]
    return [each.get("type"), normal(held)]


def failure(status: dict[str, Any]) -> list[Any]:
    """What of a Status is compared."""
    causes = (status.get("details") or {}).get("causes", [])
    listed = {(cause.get("field", ""), cause.get("reason", "")) for cause in causes}
    return [status.get("kind"), status.get("reason"), sorted(map(list, listed))]


def table(document: dict[str, Any]) -> list[Any]:
    """What of a Table is compared."""
    names = [column["name"] for column in document["columnDefinitions"]]
    rows = [
        [cell for name, cell in zip(names, row["cells"], strict=True) if name != "Age"]
        for row in document["rows"]
    ]
    return [names, rows]


def resources(expected: dict[str, Any], answer: dict[str, Any]) -> tuple[Any, Any]:
    """What of two lists of resources is compared: those of the first whose resource both have."""
    want, have = (
        {
            each["name"]: [each["kind"], each["namespaced"], sorted(each["verbs"])]
            for each in document["resources"]
        }
        for document in (expected, answer)
    )
    if answer.get("groupVersion") == "v1":
        return {}, {}  # of the core group only what budgets need is there
    shared = {name: value for name, value in want.items() if name.split("/")[0] in have}
    return shared, {name: value for name, value in have.items() if name in shared}


def normal(value: Any, *, with_managers: bool = False) -> Any:  # noqa: ANN401 - JSON
    """The value without what differs in every run."""
    if isinstance(value, dict):
        return {
            name: f"<{name}>"
            if name in VOLATILE and isinstance(each, str) and each
            else normal(each, with_managers=with_managers)
            for name, each in value.items()
            if with_managers or name != "managedFields"
        }
    if isinstance(value, list):
        return [normal(each, with_managers=with_managers) for each in value]
    if isinstance(value, str):
        return UUID.sub("<uid>", TIME.sub("<time>", value))
    return value


def first_difference(want: Any, got: Any, path: str = "") -> str:  # noqa: ANN401 - JSON
    """Where two values differ first, and how; "" if they do not."""
    if isinstance(want, dict) and isinstance(got, dict):
        for name in sorted(want.keys() | got.keys()):
            if name not in got:
                return f"{path}.{name} is missing, want {want[name]!r}"
            if name not in want:
                return f"{path}.{name} is unexpected: {got[name]!r}"
            if found := first_difference(want[name], got[name], f"{path}.{name}"):
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{path} has {len(got)} items, want {len(want)}"
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return ""
    return "" if want == got else f"{path} is {got!r}, want {want!r}"
