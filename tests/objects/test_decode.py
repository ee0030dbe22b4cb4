"""Files to objects and problems; the built-in objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.objects.decode import (
    MOST_MESSAGES,
    MOST_PROBLEMS,
    Decoded,
    Problem,
    built_in,
    decode_documents,
    mandatory_objects,
    parts_of,
    suggested_objects,
)
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import kind_of
from apfproxy.objects.validation import FLOW_SCHEMAS, PRIORITY_LEVELS
from tests.conformance import vectors
from tests.support.objects import V1, V1BETA3, as_written, flow_schema, priority_level

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: one
spec:
  priorityLevelConfiguration: {name: two}
"""


SCHEMAS = {"kind": "FlowSchemaList", "version": V1}


def decode(*wires: object) -> Decoded:
    return decode_documents("\n".join(map(json.dumps, wires)).encode(), "f.json")


def names(decoded: Decoded) -> list[tuple[str, str]]:
    return [(kind_of(obj), obj.metadata.name) for obj in decoded.objects]


def untyped(wire: dict[str, Any]) -> dict[str, Any]:
    return {key: wire[key] for key in ("metadata", "spec")}


def listed(*items: object, kind: str = "List", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "items": list(items)}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (listed(flow_schema("a"), listed(flow_schema("b"))), ["a", "b"]),
        (
            listed(flow_schema("a"), untyped(flow_schema("b")), **SCHEMAS)
            | {"metadata": {"resourceVersion": "1"}},
            ["a", "b"],
        ),
        (
            listed(
                untyped(priority_level("a")),
                kind="PriorityLevelConfigurationList",
                version=V1BETA3,
            ),
            ["a"],
        ),
        (listed(), []),
        ({"apiVersion": "v1", "kind": "List"}, []),
    ],
    ids=["nested", "schemas", "levels-of-v1beta3", "empty", "no-items"],
)
def test_lists(wire: dict[str, Any], expected: list[str]) -> None:
    decoded = decode(wire)
    assert (expected, []) == ([obj.metadata.name for obj in decoded.objects], decoded.problems)


PROBLEMS: list[tuple[object, str]] = [
    (
        flow_schema("a", matchingPrecedence=10001),
        'FlowSchema "a": spec.matchingPrecedence: Invalid value: 10001: must not be greater than',
    ),
    (
        flow_schema("a", matchingPrecedense=1, rules={}),
        (
            'FlowSchema "a": spec.rules: Invalid value: "a mapping": want a list: write it as'
            " [...], or each item after a dash; spec.matchingPrecedense: Unknown field: did you m"
        ),
    ),
    (
        {**flow_schema(), "metadata": {"name": "A\n"}, "spec": None},
        'FlowSchema "A\\n": metadata.name: Invalid value: "A\\n": a lowercase RFC',
    ),
    (
        {**flow_schema(), "metadata": {"name": 7}},
        'FlowSchema: metadata.name: Invalid value: "7": want a string: put it in',
    ),
    *(
        ({"apiVersion": V1, "kind": kind}, f'{kind}: kind: Unsupported value: "{kind}": supported')
        for kind in ("Pod", "PodList", "Flow")
    ),
    (listed(3), 'Invalid value: "a number": want an object with apiVersion and kind'),
    (
        {"apiVersion": "v1", "kind": "List", "items": {}},
        'List: items: Invalid value: "a mapping": want a list of objects',
    ),
    ({"apiVersion": "v1", "kind": "FlowSchema"}, 'FlowSchema: apiVersion: Unsupported value: "v1"'),
    ({"kind": "Deployment"}, "Deployment: kind: Unsupported value"),
]


@pytest.mark.parametrize(("wire", "problem"), PROBLEMS)
def test_problems(wire: object, problem: str) -> None:
    """A problem is one line with place, object, field and what to do; the others are read."""
    decoded = decode(wire, flow_schema("fine"))
    problem = f"f.json:1: {problem}"
    assert names(decoded) == [("FlowSchema", "fine")]
    assert [problem] == [str(each)[: len(problem)] for each in decoded.problems]
    assert () == decoded.left_out


def test_lists_in_lists_end() -> None:
    wire: dict[str, Any] = flow_schema()
    for _ in range(3):
        wire = listed(wire)
    assert [error.detail for problem in decode(wire).problems for error in problem.errors] == [
        "a List in a List in a List"
    ]


def test_second_definition() -> None:
    decoded = decode(flow_schema("a"), priority_level("a"), flow_schema("a", matchingPrecedence=7))
    assert as_written(decoded.objects[0])["spec"]["matchingPrecedence"] == 500
    assert [str(problem) for problem in decoded.problems] == [
        'f.json:3: FlowSchema "a": defined a second time in this file: remove one'
    ]


def test_unreadable_end() -> None:
    decoded = decode_documents(f"{SCHEMA}---\n*x\n".encode(), "f.yaml")
    assert names(decoded) == [("FlowSchema", "one")]
    assert [str(problem) for problem in decoded.problems] == [
        "f.yaml:8: alias *x: there is no &x before it"
    ]
    assert "f.yaml:1: not UTF-8" in str(decode_documents(b"\xff", "f.yaml").problems[0])


def test_many_problems() -> None:
    decoded = decode_documents(b"- a\n---\n" * 1000, "f")
    assert len(decoded.problems) == MOST_PROBLEMS + 1
    assert (f"more than {MOST_PROBLEMS} problems: the rest of the file was not read",) == (
        decoded.problems[-1].messages
    )


def test_many_messages() -> None:
    (problem,) = decode(flow_schema(rules=[{"subjects": [{}]}] * 20)).problems
    assert len(problem.messages) == MOST_MESSAGES + 1
    assert len(problem.errors) == 40
    assert problem.messages[-1] == "and 20 more"


def test_one_line() -> None:
    (problem,) = decode({"kind": "A\nB" * 100, "metadata": {"name": "\x1b" * 1000}}).problems
    (other,) = decode({**flow_schema(), "a\nb\u2028\x07": 1}).problems
    assert str(problem).isprintable()
    assert len(str(problem)) < 1000
    assert 'FlowSchema "one": a\\nb\\u2028\\x07: Unknown field' in str(other)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "rules", "subjects", "name", "limited", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(["FlowSchema", "PriorityLevelConfiguration", "FlowSchemaList"]),
    fields=JSON,
)
def test_any_json(kind: str, fields: object) -> None:
    wire = {"metadata": fields, "spec": fields, "items": fields, "apiVersion": V1, "kind": kind}
    decoded = decode(wire)
    assert all(isinstance(str(problem), str) for problem in decoded.problems)
    assert decoded.objects == [read_object(as_written(obj)) for obj in decoded.objects]


@settings(max_examples=50, deadline=None)
@given(
    data=st.binary(max_size=80)
    | st.text("{}[]:,-?&*!|>'\"#%@ \n\tab1~<", max_size=60).map(str.encode),
    cut=st.integers(0, len(SCHEMA)),
)
def test_any_bytes(data: bytes, cut: int) -> None:
    decoded = decode_documents(SCHEMA[:cut].encode() + data + SCHEMA[cut:].encode(), "f.yaml")
    assert all(isinstance(problem, Problem) for problem in decoded.problems)


WRITTEN = """\
# a comment
apiVersion: v1
kind: List
items:
- apiVersion: flowcontrol.apiserver.k8s.io/v1
  kind: FlowSchema
  metadata:
    name: one
    annotations:
      apfproxy.io/request-rate: "1"
  spec:
    matchingPrecedence: 7
    priorityLevelConfiguration: {name: two}
    rules:
    - subjects:
      - {kind: User, user: {name: alice}}
      nonResourceRules:
      - verbs: [get]
        nonResourceURLs:
        - /a
        - /b
"""


LINES = {
    "metadata.name": 8,
    "metadata.annotations[apfproxy.io/request-rate]": 10,
    "metadata.annotations[apfproxy.io/ban]": 9,  # where it is missing
    "spec.matchingPrecedence": 12,
    "spec.distinguisherMethod.type": 11,
    "spec.rules[0]": 15,
    "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]": 21,
    "spec.rules[1].subjects": 14,
    f"spec.rules[{'9' * 5000}]": 14,
    "spec[0]": 11,
    "]..[": 5,
}


def test_line_of() -> None:
    (written,) = decode_documents(WRITTEN.encode(), "f.yaml").written.values()
    assert LINES == {field: written.line_of(field) for field in LINES}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (json.dumps(flow_schema("a"), indent=2), 11),
        (json.dumps(flow_schema("a"), indent=2) + "{}", 1),
        (WRITTEN.replace("v1\nkind: List", f"{V1}\nkind: FlowSchemaList", 1), 12),
    ],
    ids=["json", "two-of-json", "typed-list"],
)
def test_line_of_precedence(text: str, line: int) -> None:
    """A document of JSON has its lines, as have the items of a list of one kind."""
    (written,) = decode_documents(text.encode(), "f").written.values()
    assert line == written.line_of("spec.matchingPrecedence")


def test_parts_of_a_problem() -> None:
    text = WRITTEN.replace("Precedence: 7", "Precedence: 70000").replace("[get]", "[gat]")
    found = decode_documents(f"{text}---\n[".encode(), "f.yaml")
    first, second, third = parts_of(found.problems)
    assert first.startswith('f.yaml:12: FlowSchema "')
    assert second.startswith('f.yaml:18: FlowSchema "')
    assert third.startswith("f.yaml:24: not YAML: ")


def test_other_kinds_are_left_out() -> None:
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"
    deployment = "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}\n"
    items = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n"
    text = f"# nothing\n---\n{account}---\n{SCHEMA}---\n{deployment}---\n{account}---\n{items}"
    decoded = decode_documents(text.encode(), "f.yaml")

    assert [("FlowSchema", "one")] == names(decoded)
    assert [] == decoded.problems
    assert ["f.yaml:3: left out, as it is no object of flow control: Deployment, Pod, "] == [
        str(each).removesuffix("ServiceAccount") for each in decoded.left_out
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("replicas: 1\nimage: {tag: a}\n", 1),
        ("---\n- {op: replace, path: /spec, value: 1}\n", 2),
        ('{"name": "package"}', 1),
    ],
    ids=["values", "patch", "json"],
)
def test_found_files_may_have_no_objects(text: str, line: int) -> None:
    """A file that is in a directory for another reason is left out; a half object is not."""
    decoded = decode_documents(text.encode(), "f.yaml", is_found=True)
    half = decode_documents(b"metadata: {name: a}\n", "f.yaml", is_found=True)

    assert ([], []) == (decoded.objects, decoded.problems)
    assert [
        f"f.yaml:{line}: left out, as it is no object of flow control: a document without a kind"
    ] == [str(each) for each in decoded.left_out]
    assert 1 == len(half.problems)


@pytest.mark.parametrize("name", ["{{ .Values.name }}", "${NAME}-flow", "{% name %}"])
def test_quoted_template(name: str) -> None:
    text = SCHEMA.replace("one", f'"{name}"')
    (problem,) = decode_documents(text.encode(), "f.yaml").problems
    assert name[:2] in problem.messages[0]
    assert "a template that was not rendered: render it first" in problem.messages[-1]


@pytest.mark.parametrize(
    ("version", "release"), [("v1alpha1", "1.21"), ("v1beta1", "1.26"), ("v1beta2", "1.29")]
)
def test_old_versions(version: str, release: str) -> None:
    old = priority_level("a", "flowcontrol.apiserver.k8s.io/" + version)
    limited = old["spec"]["limited"]
    limited["assuredConcurrencyShares"] = limited.pop("nominalConcurrencyShares", 5)
    good = [str(error) for error in decode(old).problems[0].errors]
    limited["queues"] = -1
    broken = decode(old)

    assert [
        (
            f'apiVersion: Invalid value: "flowcontrol.apiserver.k8s.io/{version}": Kubernetes has'
            f" not served it since {release}: write flowcontrol.apiserver.k8s.io/v1"
        ),
        "spec.limited.assuredConcurrencyShares: Invalid value:",
    ] == [good[0], good[1][: good[1].index(":", 45) + 1]]
    assert "its name is nominalConcurrencyShares since v1beta3" in good[1]
    assert 2 == len(good)
    assert "spec.limited.queues" in str(broken.problems[-1])
    for spec in (None, {"limited": 7}):
        (problem,) = decode(old | {"spec": spec}).problems
        assert f"Kubernetes has not served it since {release}" in problem.messages[0]
        assert not any("assured" in message for message in problem.messages)


def test_flaws_of_others() -> None:
    """Tags and repeated keys are allowed in objects of other kinds, but not in a List."""
    other = "apiVersion: v1\nkind: Secret\ndata: {a: !!binary aGk=, b: 1, b: !x [2]}\n"
    decoded = decode_documents(f"{other}---\n{SCHEMA}".encode(), "f.yaml")
    values = decode_documents(b"a: !secret b\n", "f.yaml", is_found=True)
    item = f"apiVersion: v1\nkind: List\nitems:\n- {'  '.join(SCHEMA.splitlines(keepends=True))}"
    flawed = [SCHEMA + "status: !x 1\n", item + "  status: {a: 1, a: 2}\n", "a: !secret b\n"]
    problems = [decode_documents(text.encode(), "f.yaml").problems for text in flawed]

    assert ([("FlowSchema", "one")], []) == (names(decoded), decoded.problems)
    assert [] == values.problems
    assert 1 == len(values.left_out)
    assert [
        "f.yaml:7: tag !x is not supported: leave it out",
        'f.yaml:10: key "a" occurs twice in one mapping: keep one',
        "f.yaml:1: tag !secret is not supported: leave it out",
    ] == [str(each) for found in problems for each in found]


def test_bootstrap_objects() -> None:
    expected = {
        (kind, wire["metadata"]["name"]): (wire["metadata"], wire["spec"])
        for kind, wires in (
            ("FlowSchema", vectors.load("classification")[0]["flow_schemas"]),
            ("PriorityLevelConfiguration", vectors.load("limits")[0]["priority_levels"]),
        )
        for wire in wires
    }
    found = [as_written(obj) for obj in (*mandatory_objects(), *suggested_objects())]

    assert expected == {
        (wire["kind"], wire["metadata"]["name"]): (wire["metadata"], wire["spec"]) for wire in found
    }


def test_edited_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apfproxy.objects.decode.DIRECTORY", tmp_path)
    (tmp_path / "edited.yaml").write_text("kind: FlowSchema\n")
    with pytest.raises(ValueError, match=r"edited\.yaml:1: FlowSchema: apiVersion"):
        built_in("edited.yaml")


def test_fixed_specs_are_those_of_the_files() -> None:
    found = {(kind_of(obj), obj.metadata.name): obj.spec for obj in mandatory_objects()}

    assert found == {
        (kind, name): spec
        for kind, specs in (
            ("FlowSchema", FLOW_SCHEMAS),
            ("PriorityLevelConfiguration", PRIORITY_LEVELS),
        )
        for name, spec in specs.items()
    }
