"""Entries of logs, in whatever wraps them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.simulation import wrapped_lines
from apfproxy.simulation.wrapped_lines import DEEPEST, Format, WrappedLines


class Entry(msgspec.Struct):
    """An entry of a log; one below 0 is refused by who takes it."""

    stage: int


def entry_of(value: dict[str, Any]) -> dict[str, Any] | None:
    """The entry that an object is meant as."""
    return value if {"stage", "kind"} <= value.keys() else None


class Read:
    """What is found in lines."""

    def __init__(self, text: str | bytes) -> None:
        self.found: list[int] = []
        self.problems: list[tuple[int, str]] = []
        wrapped = WrappedLines(
            Format(Entry, "stage", entry_of, lambda value: "other" in value), self.take, self.break_
        )
        data = text if isinstance(text, bytes) else text.encode()
        wrapped.read(data.splitlines(keepends=True))
        self.left_out, self.misfits = wrapped.left_out, wrapped.misfits
        self.foreign = wrapped.foreign

    def take(self, entry: Entry) -> None:
        if entry.stage < 0:
            raise ValueError("below 0")
        self.found.append(entry.stage)

    def break_(self, number: int, message: str) -> None:
        self.problems.append((number, message))


def entry(number: int) -> dict[str, Any]:
    """An entry as events are: with braces, quotes and lists of strings in it."""
    odd = 'a "quoted" {brace} [list] \\ and \u00e9'
    return {"kind": "Event", "stage": number, "ips": ["::1"], "user": {"odd": odd, "of": [{}]}}


EVENTS = [entry(number) for number in range(3)]
LINES = [json.dumps(each) for each in EVENTS]
WHOLE = "\n".join(LINES)


def each_in(wrap: str) -> str:
    """Lines with each entry in place of `LINE`, as text, or of `STRING`, as a string of JSON."""
    return "\n".join(
        wrap.replace("LINE", line).replace("STRING", json.dumps(line)) for line in LINES
    )


def cut(*templates: str) -> str:
    return "\n".join(
        template.replace("LINE", part)
        for line in LINES
        for template, part in zip(templates, (line[:9], line[9:40], line[40:]), strict=True)
    )


INSIGHTS = [[{"field": "@message", "value": line}] for line in LINES]
WRAPPED = {
    "lines": WHOLE,
    "byte-order-mark": f"\ufeff{WHOLE}\r\n\r\n",
    "list": json.dumps({"kind": "EventList", "items": EVENTS}),
    "long-list": json.dumps({"kind": "EventList", "items": EVENTS}, indent=2),
    "array": json.dumps(EVENTS),
    "long-array": json.dumps(EVENTS, indent=4),
    "array-of-lines": "[\n" + ",\n".join(LINES) + "\n]",
    "long": "\n".join(json.dumps(each, indent=2) for each in EVENTS),
    "without-line-ends": "".join(LINES),
    "docker": each_in('{"log":STRING,"stream":"stdout","time":"x"}'),
    "docker-in-parts": "\n".join(
        json.dumps({"log": part, "stream": "stdout"})
        for line in LINES
        for part in (line[:9], line[9:40], line[40:] + "\n")
    ),
    "cri": each_in("2024-06-05T12:00:00.1Z stdout F LINE"),
    "cri-in-parts": cut("2024Z stdout P LINE", "2024Z stdout P LINE", "2024Z stdout F LINE"),
    "aks": each_in('{"category":"kube-audit","properties":{"log":STRING}}'),
    "aks-records": json.dumps({"records": [{"properties": {"log": line}} for line in LINES]}),
    "cloudwatch": json.dumps({"events": [{"message": line} for line in LINES]}, indent=4),
    "cloudwatch-insights": json.dumps({"results": INSIGHTS}),
    "csv": "\n".join('"2024","' + line.replace('"', '""') + '"' for line in LINES),
    "tail": each_in("2024-06-05T12:00:00+00:00 kube-apiserver-audit LINE"),
    "host-name": each_in("ip-10-0-140-97.ec2.internal LINE"),
    "syslog": each_in("Jun  5 12:00:00 host kube-apiserver[1]: LINE"),
    "labels": each_in('2024 {app="audit", pod="x"} LINE'),
    "labels-alone": each_in('{app="audit", pod="x"} LINE'),
    "time-in-brackets": each_in("[2024-06-05T12:00:00Z] LINE"),
    "object": each_in('{"date":1.5,"message":LINE,"kubernetes":{"a":[1]}}'),
    "nested": each_in('{"message":{"log":STRING}}'),
    "string-in-a-string": "\n".join(
        [json.dumps({"message": json.dumps({"log": "x " + LINES[0]})}), *LINES[1:]]
    ),
    "lines-in-a-string": json.dumps({"body": "no entry\n" + WHOLE}),
    "array-in-a-string": json.dumps({"body": json.dumps(EVENTS)}),
    "elasticsearch": json.dumps({"hits": {"hits": [{"_source": a} for a in EVENTS]}}, indent=1),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("small", [wrapped_lines.SMALL_BYTES, 0])
def test_wrappers(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is found, whether the value around it is taken apart or not."""
    monkeypatch.setattr(wrapped_lines, "SMALL_BYTES", small)
    read = Read(WRAPPED[name])

    assert ([0, 1, 2], [], 0) == (read.found, read.problems, read.left_out)


GOOGLE = '{"protoPayload":{"methodName":"io.k8s.core.v1.pods.list"}}'


@pytest.mark.parametrize(
    "line",
    [
        "I0605 12:00:00.1 1 server.go:1] text",
        'I0605 12:00:00.1 1 server.go:1] {"a":1}',
        "Jun  5 12:00:00 host kubelet[7]: text",
        "<134>1 2024-06-05T12:00:00Z host kubelet 1 - - text",
        'Jun  5 12:00:00 host etcd[7]: {"level":"war',
        "[INFO] text [1]",
        "-- Journal begins at Mon 2024 --",
        "2024-06-05T12:00:00Z stderr F text",
        "2024-06-05T12:00:00Z stderr F",
        '{"log":"text\\n","stream":"stderr"}',
        '{"log":"{text","stream":"stderr"}\n{"log":"\\n"}',
        '{"category":"guard","properties":{"log":"text {"}}',
        '{"events":[]}',
        "[]",
        GOOGLE,
    ],
)
def test_left_out(line: str) -> None:
    """What other programs have written into the same wrapper is counted."""
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")

    assert ([0, 1], []) == (read.found, read.problems)
    assert (1, line == GOOGLE) == (read.left_out, read.foreign)


def test_another_kind_of_log() -> None:
    """Its entries are left out, and counted, however they are wrapped."""
    read = Read(f'{LINES[0]}\n{{"other":1}}\n{{"log":{{"other":2}}}}\n[{{"other":3}}]\n')

    assert ([0], [], 3, 3) == (read.found, read.problems, read.left_out, read.misfits)


BROKEN = {
    "text": "JSON is malformed: invalid character",
    "7": "Expected `object`, got `int`",
    '{"a":1}': "Object missing required field `stage`",
    '[{"a":1}]': "Expected `object`, got `array`",
    LINES[0][:30]: "Input data was truncated",
    '{"kind":"Event",': "Input data was truncated",
    '{"ips":["a"],"x":[1,\n2': "Input data was truncated",
    '{"a":[}': "JSON is malformed",
    '{"a":' * (DEEPEST + 2): "Input data was truncated",
    '{"a":\ntrue, "b": tru}': "JSON is malformed",
    '{"stage":5} x': "there is text behind the end of a value",
    f"host {LINES[0][:70]}": "Input data was truncated",
    '{"stage":"x","kind":"Event"}': "Expected `int`, got `str`",
    '{"stage":-1}': "below 0",
    '{"items":[{"stage":-1,"kind":""}]}': "below 0",
}


@pytest.mark.parametrize("line", BROKEN)
def test_broken(line: str) -> None:
    """Each broken line has its number, and those around it count."""
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")
    number = 3 if line.endswith("tru}") else 2

    assert [0] + [5] * ("5} x" in line) + [1] == read.found
    assert [number] == [each for each, _ in read.problems]
    assert BROKEN[line] in read.problems[0][1]


def test_ends_within_an_entry() -> None:
    """What has no end at the end of the log is broken."""
    assert [(1, "Input data was truncated")] == Read("[\n1,").problems
    assert [(1, "the log ends within an entry")] == Read(f"2024Z stdout P {LINES[0][:9]}").problems


def test_a_part_without_its_rest() -> None:
    """An entry whose end is lost does not take the next one with it."""
    half = json.dumps({"log": LINES[0][:30], "stream": "stdout"})
    read = Read(f"{half}\n" + each_in('{"log":STRING,"stream":"stdout"}'))

    assert [0, 1, 2] == read.found
    assert [(2, "the entry before has no end")] == read.problems


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no end is given up; a list may be as long as it likes, its items may not."""
    monkeypatch.setattr(wrapped_lines, "MAX_BYTES", 1 << 10)
    items = json.dumps({"items": EVENTS * 100}, indent=1)
    large = json.dumps([{"kind": "", "stage": 7, "x": ["x" * 100] * 20}], indent=1)
    rest = json.dumps({"a": {"b": list(range(1000))}}, indent=1)
    parts = "\n".join(["2024Z stdout P " + "{" * 600] * 2)
    docker = "\n".join([json.dumps({"log": "{" * 600})] * 2)

    assert [0, 1, 2] * 100 == Read(items).found
    assert (1, "a value has more than 0 MiB") == Read(large).problems[0]
    assert (1, "a value has more than 0 MiB") == Read(rest).problems[0]
    assert 1 == Read(parts).left_out
    assert 1 == Read(docker).left_out


def test_nested_without_end() -> None:
    """Wrappers in wrappers are looked into to a depth."""
    value: object = entry(1)
    for _ in range(DEEPEST + 1):
        value = {"log": value}

    assert [] == Read(json.dumps(value)).found
    assert [1] == Read(json.dumps(value["log"])).found  # type: ignore[index]  # an object


@given(st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"1", b"\\"])))
def test_any_bytes(parts: list[bytes]) -> None:
    """Whatever a log has, it is read to its end."""
    read = Read(b"".join(parts) + b"\n\n" + LINES[0].encode())

    assert read.found in ([0], [])
