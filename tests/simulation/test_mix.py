"""Synthetic mixes."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.preset import HTTP, KUBERNETES, LLM, Preset
from apfproxy.settings import Settings
from apfproxy.simulation.mix import LEAST_SERVICE_NS, Mix, MixError, Times, parse_mix, parse_times

MS = 1_000_000
S = 1_000_000_000
REQUEST = "request: GET /api/v1/pods"
FLOW = f"name: a\n  {REQUEST}\n  rate: 10\n  serviceTime: 5ms"


def mix_of(*flows: str, top: str = "duration: 10s") -> Mix:
    return parse_mix("\n".join([top, "flows:", *(f"- {flow}" for flow in flows)]).encode())


def test_a_whole_flow() -> None:
    mix = mix_of(
        "name: tenant-{}\n  count: 2\n  user: user-{}\n  groups: [tenants]\n"
        "  request: GET /api/v1/namespaces/ns-{}/pods\n  clients: 3\n"
        '  serviceTime: exp(50ms)\n  seats: 2\n  headers: ["X-Priority:  batch"]\n'
        "  thinkTime: 10ms\n  start: 1s\n  stop: 4s",
        top="duration: 10s\nseed: 5",
    )
    first, second = mix.flows

    assert (10 * S, 5) == (mix.duration_ns, mix.seed)
    assert [first.kind, second.kind] == mix.kinds
    assert ("tenant-0", "tenant-1") == (first.kind.client, second.kind.client)
    assert ("user-1", ("tenants", "system:authenticated")) == (
        second.kind.user.name,
        second.kind.user.groups,
    )
    assert ("ns-1", 2) == (second.kind.attributes.namespace, second.kind.seats)
    assert (("x-priority", "batch"),) == second.kind.headers
    assert (0.0, 3, 10 * MS, S, 4 * S) == (
        first.entry.rate,
        first.entry.clients,
        first.entry.think_time,
        first.entry.start,
        first.stop_ns,
    )
    assert Times("exp", 50 * MS) == first.service
    assert 2 * 3 * 3 / 0.06 == pytest.approx(mix.expected_requests())


@pytest.mark.parametrize(
    ("fields", "name", "groups"),
    [
        ("", "system:anonymous", "system:unauthenticated"),
        ("\n  user: a", "a", "system:authenticated"),
        ("\n  user: a\n  groups: [b]", "a", "b system:authenticated"),
        (
            "\n  user: system:serviceaccount:x:y",
            "system:serviceaccount:x:y",
            "system:serviceaccounts system:serviceaccounts:x system:authenticated",
        ),
    ],
)
def test_users(fields: str, name: str, groups: str) -> None:
    """Any name is authenticated; without one a flow goes on from the start to the end."""
    (flow,) = mix_of(FLOW + fields).flows
    assert (name, groups.split()) == (flow.kind.user.name, list(flow.kind.user.groups))
    assert (0, 10 * S, 0) == (flow.entry.start, flow.stop_ns, flow.kind.seats)
    assert "poisson" == flow.entry.arrivals


@pytest.mark.parametrize(
    ("fields", "verb", "path"),
    [
        ("verb: list\n  resource: pods", "list", "/api/v1/pods"),
        ("verb: watch\n  resource: pods", "watch", "/api/v1/pods"),
        (
            "verb: get\n  resource: deployments.apps\n  namespace: x",
            *("get", "/apis/apps/v1/namespaces/x/deployments/some"),
        ),
        ("verb: patch\n  resource: nodes\n  objectName: one", "patch", "/api/v1/nodes/one"),
        ("verb: create\n  resource: pods", "create", "/api/v1/pods"),
        ("request: GET /healthz", "get", "/healthz"),
    ],
)
def test_requests(fields: str, verb: str, path: str) -> None:
    (flow,) = mix_of(f"name: a\n  rate: 1\n  serviceTime: 1ms\n  {fields}").flows
    assert (verb, path) == (flow.kind.attributes.verb, flow.kind.attributes.path)


def test_what_flow_schemas_may_look_at() -> None:
    entry = FLOW.replace("GET /api/v1/pods", "POST /v1/completions")
    entry += "\n  headers: ['X-A: b']\n  model: llama3:8b\n  tokens: 5"
    (flow,) = parse_mix(f"duration: 10s\nflows:\n- {entry}".encode(), HTTP).flows
    assert 5 == flow.kind.tokens
    assert (("x-a", "b"), (MODEL, "llama3:8b")) == flow.kind.headers


@pytest.mark.parametrize("preset", [KUBERNETES, LLM])
def test_times_are_those_of_the_preset(preset: Preset) -> None:
    """A completion may take minutes."""
    entry = FLOW.replace("GET /api/v1/pods", "POST /v1/completions")
    (flow,) = parse_mix(f"duration: 10s\nflows:\n- {entry}".encode(), preset).flows

    assert Settings(preset=preset.name).request_timeout_s * S == flow.kind.timeout_ns


def test_arrivals() -> None:
    """Chance gives about the rate, from the start to the stop; constant arrivals have one gap."""
    mix = mix_of(
        FLOW.replace("rate: 10", "rate: 1000") + "\n  start: 2s\n  stop: 8s",
        FLOW + "\n  arrivals: constant",
    )
    poisson, constant = (
        list(flow.requests(mix.chance(index))) for index, flow in enumerate(mix.flows)
    )
    times = [at_ns for at_ns, _, _ in poisson]
    gaps = {after - before for (before, *_), (after, *_) in itertools.pairwise(constant)}

    assert 6000 == pytest.approx(len(poisson), rel=0.05)
    assert 2 * S <= min(times) <= max(times) < 8 * S
    assert times == sorted(times)
    assert (100, {100 * MS}) == (len(constant), gaps)
    assert poisson == list(mix.flows[0].requests(mix.chance(0)))
    assert 6000 + 100 == mix.expected_requests()


@pytest.mark.parametrize(
    ("text", "mean_ns", "least_ns", "greatest_ns"),
    [
        pytest.param("20ms", 20 * MS, 20 * MS, 20 * MS, id="constant"),
        pytest.param("0s", LEAST_SERVICE_NS, LEAST_SERVICE_NS, LEAST_SERVICE_NS, id="least"),
        pytest.param("10ms - 30ms", 20 * MS, 10 * MS, 30 * MS, id="uniform"),
        pytest.param("exp(20ms)", 20 * MS, 0, S, id="exponential"),
        pytest.param("normal(20ms, 5ms)", 20 * MS, LEAST_SERVICE_NS, S, id="normal"),
        pytest.param("lognormal(20ms, 0.5)", 20 * MS * 1.1331, 0, S, id="lognormal"),
    ],
)
def test_times(text: str, mean_ns: float, least_ns: int, greatest_ns: int) -> None:
    draw = parse_times(text).drawer(random.Random(1))  # noqa: S311  no secret
    drawn = [draw() for _ in range(20_000)]
    assert mean_ns == pytest.approx(sum(drawn) / len(drawn), rel=0.03)
    assert least_ns <= min(drawn) <= max(drawn) <= greatest_ns


WRONG_TIMES = {
    "x": "'x' is not a duration such as 30s or 1m30s",
    "exp(x)": "'x' is not a duration such as 30s or 1m30s",
    "exp(5ms,1)": "expected a service time, not",
    "normal(5ms,2)": "'2' is not a duration such as 30s or 1m30s",
    "lognormal(5ms)": "expected a service time, not",
    "lognormal(5ms,99)": "expected a service time, not",
    "5ms-1ms": "expected the shorter time first",
    "-5ms": "'' is not a duration",
    "999h": "expected a time from 0s to 604800 s",
}


@pytest.mark.parametrize("text", WRONG_TIMES)
def test_wrong_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|duration") as error:
        parse_times(text)
    assert str(error.value).startswith(WRONG_TIMES[text])


ADDED = {
    "more: 5": "more: unknown; known are name",
    "think: 5": "think: unknown; did you mean thinkTime?",
    "groups: a": "groups: expected a list, not 'a'",
    "count: 0": "count: expected a whole number >= 1, not '0'",
    "seats: 2.5": "seats: expected a whole number, not '2.5'",
    "headers: [X-Priority]": "headers: expected a header such as X-Team: red, not 'X-Priority'",
    "clients: 5": "rate: give either rate",
    "arrivals: x": "arrivals: expected poisson or constant, not 'x'",
    "thinkTime: x": "thinkTime: 'x' is not",
    "start: 10s": "start: has to be before",
    "verb: get": "request: give either",
    "model: llama3:8b": "model: the request is no completion",
    "tokens: 5": "tokens: the request is no completion",
}
"""Says what is wrong with a flow that has one more field."""
REPLACED = {
    ("10", "0"): "rate: expected a number > 0.0, not '0'",
    ("10", "true"): "rate: expected a number, not 'True'",
    ("10", ".nan"): "rate: expected a number, not '.nan'",
    ("5ms", "5"): "serviceTime: '5' is not a duration",
    ("5ms", "[5]"): "serviceTime: expected a time, not '[5]'",
    ("GET ", ""): "request: expected a method and",
    ("pods", "pods?timeout=x"): "request: 'x' is not a duration",
    (REQUEST, "groups: []"): "request: is missing; or give verb and resource",
    (REQUEST, "verb: x\n  resource: pods"): "verb: expected one of get, list",
    (REQUEST, "verb: list\n  resource: pods\n  objectName: some"): "objectName: means nothing to",
    (REQUEST, "verb: get\n  resource: pods/status"): "resource: expected a name, not 'pods/status'",
    (
        REQUEST,
        "verb: get\n  resource: a\n  namespace: a?b",
    ): "namespace: expected a name, not 'a?b'",
    ("rate: 10", "clients: 90000\n  count: 2"): "clients: more than 100,000 clients in all",
    ("rate: 10", "rate: 1000000\n  count: 101"): "rate: more than 1,000,000,000 requests in all",
}
"""Says what is wrong with a flow that has something in the place of something else."""
WRONG = {
    **{f"{FLOW}\n  {field}": message for field, message in ADDED.items()},
    **{FLOW.replace(*each): message for each, message in REPLACED.items()},
    "name: a": "serviceTime: is missing; give one such as 50ms",
    "name: ''": "name: expected text of length >= 1, not ''",
    "user: a": "name: is missing",
}


@pytest.mark.parametrize("fields", WRONG)
def test_wrong_flows(fields: str) -> None:
    with pytest.raises(MixError) as error:
        mix_of(fields)
    assert str(error.value).startswith(f"flows[0].{WRONG[fields]}")
    assert error.value.line is not None


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"", None, "expected one document with `flows`, not 0"),
        (b"a: [", 2, "not YAML"),
        (b"[]", 1, "the document: expected a mapping"),
        (b"flows: []", 1, "flows: expected a list of length >= 1, not '[]'"),
        (b"duration: 5\nflows: [a]", 1, "duration: '5' is not a duration such as 30s or 1m30s"),
        (b"duration: 0s\nflows: [a]", 1, "duration: has to be above 0"),
        (b"duration: 5s", 1, "flows: is missing"),
        (b"duration: 5s\nx: 1\nflows: [a]", 2, "x: unknown"),
        (b"duration: 5s\nflows:\n- []", 1, "flows[0]: expected a mapping"),
        (
            f"duration: 5s\nflows:\n- {FLOW}\n  count: 10000\n- {FLOW}".encode(),
            *(8, "flows[1].count: more than"),
        ),
    ],
)
def test_wrong_documents(data: bytes, line: int | None, message: str) -> None:
    with pytest.raises(MixError) as error:
        parse_mix(data)
    assert str(error.value).startswith(message)
    assert line == error.value.line


@given(data=st.data())
def test_any_values(data: st.DataObject) -> None:
    flow: dict[str, object] = {"name": "a", "request": "GET /x", "rate": 1, "serviceTime": "5ms"}
    values: st.SearchStrategy[object] = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([[]])
    )
    fields = ["name", "count", "user", "groups", "request", "verb", "resource", "namespace"]
    fields += ["objectName", "rate", "clients", "arrivals", "serviceTime", "seats", "thinkTime"]
    name = data.draw(st.sampled_from([*fields, "start", "stop", "x"]))
    flow[name] = data.draw(values)
    text = json.dumps({"duration": "5s", "flows": [flow]})
    try:
        mix = parse_mix(text.encode())
    except MixError as error:
        assert str(error)  # noqa: PT017  either will do
    else:
        assert mix.expected_requests() > 0


@given(data=st.binary())
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(MixError):
        parse_mix(data)
