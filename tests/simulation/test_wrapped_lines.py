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
        """Take an entry."""
        if entry.stage < 0:
            raise ValueError("below 0")
        self.found.append(entry.stage)

    def break_(self, number: int, message: str) -> None:
        """Note a broken line."""
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
    """Lines with the thirds of each entry in place of `LINE`."""
    return "\n".join(
        template.replace("LINE", part)
        for line in LINES
        for template, part in zip(templates, (line[:9], line[9:40], line[40:]), strict=True)
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WHOLE, id="lines"),
        pytest.param(f"\ufeff{WHOLE}\r\n\r\n", id="byte-order-mark"),
        pytest.param(json.dumps({"kind": "EventList", "items": EVENTS}), id="list"),
        pytest.param(json.dumps({"kind": "EventList", "items": EVENTS}, indent=2), id="long-list"),
        pytest.param(json.dumps(EVENTS), id="array"),
        pytest.param(json.dumps(EVENTS, indent=4), id="long-array"),
        pytest.param("[\n" + ",\n".join(LINES) + "\n]", id="array-of-lines"),
        pytest.param("\n".join(json.dumps(each, indent=2) for each in EVENTS), id="long"),
        pytest.param("".join(LINES), id="without-line-ends"),
        pytest.param(each_in('{"log":STRING,"stream":"stdout","time":"x"}'), id="docker"),
        pytest.param(
            "\n".join(
                json.dumps({"log": part, "stream": "stdout"})
                for line in LINES
                for part in (line[:9], line[9:40], line[40:] + "\n")
            ),
            id="docker-in-parts",
        ),
        pytest.param(each_in("2024-06-05T12:00:00.1Z stdout F LINE"), id="cri"),
        pytest.param(
            cut("2024Z stdout P LINE", "2024Z stdout P LINE", "2024Z stdout F LINE"),
            id="cri-in-parts",
        ),
        pytest.param(each_in('{"category":"kube-audit","properties":{"log":STRING}}'), id="aks"),
        pytest.param(
            json.dumps({"records": [{"properties": {"log": line}} for line in LINES]}),
            id="aks-records",
        ),
        pytest.param(
            json.dumps({"events": [{"message": line} for line in LINES], "next": "f"}, indent=4),
            id="cloudwatch",
        ),
        pytest.param(
            json.dumps({"results": [[{"field": "@message", "value": line}] for line in LINES]}),
            id="cloudwatch-insights",
        ),
        pytest.param(
            "\n".join('"2024","' + line.replace('"', '""') + '"' for line in LINES), id="csv"
        ),
        pytest.param(each_in("2024-06-05T12:00:00+00:00 kube-apiserver-audit LINE"), id="tail"),
        pytest.param(each_in("ip-10-0-140-97.ec2.internal LINE"), id="host-name"),
        pytest.param(each_in("Jun  5 12:00:00 host kube-apiserver[1]: LINE"), id="syslog"),
        pytest.param(each_in('2024 {app="audit", pod="x"} LINE'), id="labels"),
        pytest.param(each_in('{app="audit", pod="x"} LINE'), id="labels-alone"),
        pytest.param(each_in("[2024-06-05T12:00:00Z] LINE"), id="time-in-brackets"),
        pytest.param(each_in('{"date":1.5,"message":LINE,"kubernetes":{"a":[1]}}'), id="object"),
        pytest.param(each_in('{"message":{"log":STRING}}'), id="nested"),
        pytest.param(
            json.dumps({"message": json.dumps({"log": "x " + LINES[0]})})
            + "\n"
            + "\n".join(LINES[1:]),
            id="string-in-a-string",
        ),
        pytest.param(json.dumps({"body": "no entry\n" + WHOLE}), id="lines-in-a-string"),
        pytest.param(json.dumps({"body": json.dumps(EVENTS)}), id="array-in-a-string"),
        pytest.param(
            json.dumps({"hits": {"hits": [{"_source": each} for each in EVENTS]}}, indent=1),
            id="elasticsearch",
        ),
    ],
)
@pytest.mark.parametrize("small", [wrapped_lines.SMALL_BYTES, 0])
def test_wrappers(text: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is found, whether the value around it is taken apart or not."""
    monkeypatch.setattr(wrapped_lines, "SMALL_BYTES", small)
    read = Read(text)

    assert ([0, 1, 2], [], 0) == (read.found, read.problems, read.left_out)


@pytest.mark.parametrize(
    ("line", "foreign"),
    [
        pytest.param("I0605 12:00:00.1 1 server.go:1] text", 0, id="klog"),
        pytest.param('I0605 12:00:00.1 1 server.go:1] {"a":1}', 0, id="klog-with-json"),
        pytest.param("Jun  5 12:00:00 host kubelet[7]: text", 0, id="syslog"),
        pytest.param("<134>1 2024-06-05T12:00:00Z host kubelet 1 - - text", 0, id="syslog-5424"),
        pytest.param('Jun  5 12:00:00 host etcd[7]: {"level":"war', 0, id="other-json-cut"),
        pytest.param("[INFO] text [1]", 0, id="level-in-brackets"),
        pytest.param("-- Journal begins at Mon 2024 --", 0, id="journal"),
        pytest.param("2024-06-05T12:00:00Z stderr F text", 0, id="cri"),
        pytest.param("2024-06-05T12:00:00Z stderr F", 0, id="cri-empty"),
        pytest.param('{"log":"text\\n","stream":"stderr"}', 0, id="docker"),
        pytest.param('{"log":"{text","stream":"stderr"}\n{"log":"\\n"}', 0, id="docker-brace"),
        pytest.param('{"category":"guard","properties":{"log":"text {"}}', 0, id="aks"),
        pytest.param('{"events":[]}', 0, id="no-items"),
        pytest.param("[]", 0, id="empty-array"),
        pytest.param('{"protoPayload":{"methodName":"io.k8s.core.v1.pods.list"}}', 1, id="google"),
    ],
)
def test_left_out(line: str, foreign: int) -> None:
    """What other programs have written into the same wrapper is counted."""
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")

    assert ([0, 1], []) == (read.found, read.problems)
    assert (1, foreign) == (read.left_out, read.foreign)


def test_another_kind_of_log() -> None:
    """Its entries are left out, and counted, however they are wrapped."""
    read = Read(f'{LINES[0]}\n{{"other":1}}\n{{"log":{{"other":2}}}}\n[{{"other":3}}]\n')

    assert ([0], [], 3, 3) == (read.found, read.problems, read.left_out, read.misfits)


@pytest.mark.parametrize(
    ("line", "number", "message"),
    [
        pytest.param("text", 2, "JSON is malformed: invalid character", id="text"),
        pytest.param("7", 2, "Expected `object`, got `int`", id="number"),
        pytest.param('{"a":1}', 2, "Object missing required field `stage`", id="object"),
        pytest.param('[{"a":1}]', 2, "Expected `object`, got `array`", id="array"),
        pytest.param(LINES[0][:30], 2, "Input data was truncated", id="cut"),
        pytest.param('{"kind":"Event",', 2, "Input data was truncated", id="cut-between-members"),
        pytest.param('{"ips":["a"],"x":[1,\n2', 2, "Input data was truncated", id="cut-in-a-list"),
        pytest.param('{"a":[}', 2, "JSON is malformed", id="other-bracket"),
        pytest.param('{"a":' * (DEEPEST + 2), 2, "Input data was truncated", id="deep"),
        pytest.param('{"a":\ntrue, "b": tru}', 3, "JSON is malformed", id="no-json"),
        pytest.param('{"stage":5} x', 2, "there is text behind the end of a value", id="behind"),
        pytest.param(f"host {LINES[0][:70]}", 2, "Input data was truncated", id="cut-with-prefix"),
        pytest.param('{"stage":"x","kind":"Event"}', 2, "Expected `int`, got `str`", id="type"),
        pytest.param('{"stage":-1}', 2, "below 0", id="refused"),
        pytest.param('{"items":[{"stage":-1,"kind":""}]}', 2, "below 0", id="refused-item"),
    ],
)
def test_broken(line: str, number: int, message: str) -> None:
    """Each broken line has its number, and those around it count."""
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")

    assert [0] + [5] * (message.startswith("there")) + [1] == read.found
    assert [number] == [each for each, _ in read.problems]
    assert message in read.problems[0][1]


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
