"""Sends requests to a kube-apiserver and keeps its answers.

    python -m tests.conformance.recording api_exchanges https://127.0.0.1:6443 --token-file token

README.md beside this file says how the server has to run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance import vectors
from tests.conformance.comparing import is_discovery, normal, served
from tests.conformance.generating import requests
from tests.conformance.steps import JSON, Answer, Server, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

EXCHANGES = "api_exchanges"
PLAIN_KINDS = "plain_kinds"
DIFFERENTIAL = "differential"
SEED = 0
SHARE = 0.35
"""Part of the generated requests that is recorded: some thousands."""
USER_AGENT = "differential/1"
"""It becomes the name of a field manager."""


def step_of(case: dict[str, Any]) -> Step:
    return Step(
        case["id"],
        case["method"],
        case["path"],
        body=case.get("body"),
        raw=case.get("raw"),
        content_type=case.get("content_type", ""),
        accept=case.get("accept", JSON),
        save=case.get("save", {}),
        is_watch="events" in case.get("expect", ()),
        is_settling=case["method"] != "GET",
    )


def exchanges(name: str = EXCHANGES) -> Iterator[tuple[Step, Answer, bool]]:
    """The requests of a file made by hand, the recorded answers, and whether owners are compared.

    Kubernetes merges the owners of writes that come within the same second, so that most recorded
    owners depend on when a request was sent.
    """
    for case in vectors.load(name):
        expected = case["expect"]
        step = step_of(case)
        body = expected["events"] if step.is_watch else expected["body"]
        warnings = expected.get("warnings", [])
        answer = Answer(expected["status"], expected["content_type"], warnings, body)
        yield step, answer, "managedFields" in case.get("note", "")


def generated() -> Iterator[tuple[Step, Answer, bool]]:
    steps = list(requests(SEED, SHARE))
    answers = vectors.load(DIFFERENTIAL)
    recorded_ids = [answer.pop("id") for answer in answers]
    assert [step.id for step in steps] == recorded_ids, "the requests changed: record them again"
    return ((step, Answer(**answer), True) for step, answer in zip(steps, answers, strict=True))


def record_exchanges(server: Server, name: str) -> list[dict[str, Any]]:
    cases = []
    for case in vectors.load(name):
        step = step_of(case)
        answer = server.answer(step)
        expected: dict[str, Any] = {
            "status": answer.status,
            "content_type": answer.content_type,
            "events" if step.is_watch else "body": normal(answer.body),
        }
        if answer.warnings:
            expected["warnings"] = normal(answer.warnings)
        cases.append(case | {"expect": expected})
    return cases


def record_generated(server: Server) -> list[dict[str, Any]]:
    cases = []
    for step in requests(SEED, SHARE):
        answer = server.answer(step)
        body = served(answer.body) if is_discovery(answer.body) else answer.body
        cases.append(
            {
                "id": step.id,
                "status": answer.status,
                "content_type": answer.content_type,
                "warnings": normal(answer.warnings),
                "body": normal(body),
            }
        )
    return cases


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Record the answers of a kube-apiserver.")
    parser.add_argument("name", choices=[EXCHANGES, PLAIN_KINDS, DIFFERENTIAL])
    parser.add_argument("url", help="address of the server, such as https://127.0.0.1:6443")
    parser.add_argument("--token-file", type=Path, help="holds a bearer token; may do everything")
    parser.add_argument("--ca-file", default="", help="certificates that sign the server's")
    parser.add_argument("--output", type=Path, help="instead of the file in vectors/")
    options = parser.parse_args(arguments)
    token = options.token_file.read_text().strip() if options.token_file else ""
    is_generated = options.name == DIFFERENTIAL
    server = Server(options.url, token, options.ca_file, USER_AGENT if is_generated else "")
    cases = record_generated(server) if is_generated else record_exchanges(server, options.name)
    server.close()
    output = options.output or vectors.DIRECTORY / f"{options.name}.jsonl"
    output.write_text("".join(json.dumps(case) + "\n" for case in cases))
    print(f"recorded {len(cases)} answers in {output}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
