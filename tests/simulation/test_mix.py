"""Synthetic mixes."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.simulation.mix import LEAST_SERVICE_NS, Mix, MixError, Times, parse_mix, parse_times

MS = 1_000_000
S = 1_000_000_000
FLOW = "name: a\n  request: GET /api/v1/pods\n  rate: 10\n  serviceTime: 5ms"


def mix_of(*flows: str, top: str = "duration: 10s") -> Mix:
    """A mix of flows, each the text of its fields."""
    return parse_mix("\n".join([top, "flows:", *(f"- {flow}" for flow in flows)]).encode())


def test_a_whole_flow() -> None:
    """Every field means what it says."""
    mix = mix_of(
        "name: tenant-{}\n  count: 2\n  user: user-{}\n  groups: [tenants]\n"
        "  request: GET /api/v1/namespaces/ns-{}/pods\n  clients: 3\n"
        '  serviceTime: exp(50ms)\n  seats: 2\n  headers: ["X-Priority:  batch"]\n'
        "  thinkTime: 10ms\n  start: 1s\n  stop: 4s",
        top="duration: 10s\nseed: 5",
    )
    first, second = mix.flows

    assert (10 * S, 5) == (mix.duration_ns, mix.seed)
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


def test_what_may_be_left_out() -> None:
    """Nobody asks, from the start to the end, and seats are estimated."""
    (flow,) = mix_of(FLOW).flows

    assert ("system:anonymous", ("system:unauthenticated",)) == (
        flow.kind.user.name,
        flow.kind.user.groups,
    )
    assert (0, 10 * S, 0, "poisson") == (
        flow.entry.start,
        flow.stop_ns,
        flow.kind.seats,
        flow.entry.arrivals,
    )


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        pytest.param("user: a", (), id="user"),
        pytest.param("user: a\n  groups: [b]", ("b",), id="user-with-groups"),
        pytest.param(
            "user: system:serviceaccount:x:y",
            ("system:serviceaccounts", "system:serviceaccounts:x"),
            id="account",
        ),
        pytest.param(
            "user: system:serviceaccount:x:y\n  groups: [b]", ("b",), id="account-with-groups"
        ),
    ],
)
def test_groups(fields: str, groups: tuple[str, ...]) -> None:
    """Whoever is named is authenticated, and a service account is one of its namespace."""
    (flow,) = mix_of(f"{FLOW}\n  {fields}").flows

    assert (*groups, "system:authenticated") == flow.kind.user.groups


def test_numbered_names() -> None:
    """Flows of one entry have names of their own, even if it does not say where the number is."""
    mix = mix_of(FLOW + "\n  count: 2")

    assert ["a-0", "a-1"] == [flow.kind.client for flow in mix.flows]


@pytest.mark.parametrize(
    ("fields", "verb", "path"),
    [
        pytest.param("verb: list\n  resource: pods", "list", "/api/v1/pods", id="list"),
        pytest.param("verb: watch\n  resource: pods", "watch", "/api/v1/pods", id="watch"),
        pytest.param(
            "verb: get\n  resource: deployments.apps\n  namespace: x",
            "get",
            "/apis/apps/v1/namespaces/x/deployments/some",
            id="get",
        ),
        pytest.param(
            "verb: patch\n  resource: nodes\n  objectName: one",
            "patch",
            "/api/v1/nodes/one",
            id="patch",
        ),
        pytest.param("verb: create\n  resource: pods", "create", "/api/v1/pods", id="create"),
        pytest.param("request: GET /healthz", "get", "/healthz", id="no-resource"),
    ],
)
def test_requests(fields: str, verb: str, path: str) -> None:
    """A request is a method and a target, or a verb and a resource."""
    (flow,) = mix_of(f"name: a\n  rate: 1\n  serviceTime: 1ms\n  {fields}").flows

    assert (verb, path) == (flow.kind.attributes.verb, flow.kind.attributes.path)


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
    """A distribution has its mean and its bounds."""
    draw = parse_times(text).drawer(random.Random(1))  # noqa: S311  no secret
    drawn = [draw() for _ in range(20_000)]

    assert mean_ns == pytest.approx(sum(drawn) / len(drawn), rel=0.03)
    assert least_ns <= min(drawn) <= max(drawn) <= greatest_ns


WRONG_TIMES = "'x' is not a duration such as 30s or 1m30s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x", WRONG_TIMES, id="no-duration"),
        pytest.param("exp(x)", WRONG_TIMES, id="no-duration-inside"),
        pytest.param("exp(5ms,1)", "expected a service time, not", id="too-many"),
        pytest.param("normal(5ms,2)", WRONG_TIMES.replace("x", "2"), id="no-deviation"),
        pytest.param("lognormal(5ms)", "expected a service time, not", id="too-few"),
        pytest.param("lognormal(5ms,99)", "expected a service time, not", id="too-wide"),
        pytest.param("5ms-1ms", "expected the shorter time first", id="order"),
        pytest.param("-5ms", "'' is not a duration", id="negative"),
        pytest.param("999h", "expected a time from 0s to 604800 s", id="too-long"),
    ],
)
def test_wrong_times(text: str, message: str) -> None:
    """What is no time is refused with what would be one."""
    with pytest.raises(ValueError, match=r"expected|duration") as error:
        parse_times(text)

    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            FLOW.replace("request: GET /api/v1/pods", "groups: []"),
            "flows[0].request: is missing; or give verb and resource",
            id="no-request",
        ),
        pytest.param(FLOW + "\n  more: 5", "flows[0].more: unknown; known are name", id="odd"),
        pytest.param(
            "name: a", "flows[0].serviceTime: is missing; give one such as 50ms", id="no-service"
        ),
        pytest.param(
            "name: ''", "flows[0].name: expected text of length >= 1, not ''", id="no-name"
        ),
        pytest.param("user: a", "flows[0].name: is missing", id="nameless"),
        pytest.param(
            FLOW + "\n  groups: a", "flows[0].groups: expected a list, not 'a'", id="groups"
        ),
        pytest.param(
            FLOW + "\n  count: 0",
            "flows[0].count: expected a whole number >= 1, not '0'",
            id="count",
        ),
        pytest.param(
            FLOW + "\n  headers: [X-Priority]",
            "flows[0].headers: expected a header such as X-Team: red, not 'X-Priority'",
            id="headers",
        ),
        pytest.param(
            FLOW + "\n  seats: 2.5",
            "flows[0].seats: expected a whole number, not '2.5'",
            id="seats",
        ),
        pytest.param(FLOW + "\n  clients: 5", "flows[0].rate: give either rate", id="both"),
        pytest.param(
            FLOW + "\n  think: 5", "flows[0].think: unknown; did you mean thinkTime?", id="unknown"
        ),
        pytest.param(
            FLOW + "\n  arrivals: x",
            "flows[0].arrivals: expected poisson or constant, not 'x'",
            id="arrivals",
        ),
        pytest.param(FLOW + "\n  thinkTime: x", "flows[0].thinkTime: 'x' is not", id="think"),
        pytest.param(FLOW + "\n  start: 10s", "flows[0].start: has to be before", id="start"),
        pytest.param(FLOW + "\n  verb: get", "flows[0].request: give either", id="two-requests"),
        pytest.param(
            FLOW.replace("10", "0"), "flows[0].rate: expected a number > 0.0, not '0'", id="no-rate"
        ),
        pytest.param(
            FLOW.replace("10", "true"), "flows[0].rate: expected a number, not 'True'", id="rate"
        ),
        pytest.param(
            FLOW.replace("5ms", "5"), "flows[0].serviceTime: '5' is not a duration", id="service"
        ),
        pytest.param(
            FLOW.replace("GET ", ""), "flows[0].request: expected a method and", id="method"
        ),
        pytest.param(
            FLOW.replace("pods", "pods?timeout=x"),
            "flows[0].request: 'x' is not a duration",
            id="timeout",
        ),
        pytest.param(
            FLOW.replace("request: GET /api/v1/pods", "verb: x\n  resource: pods"),
            "flows[0].verb: expected one of get, list",
            id="verb",
        ),
        pytest.param(
            FLOW.replace(
                "request: GET /api/v1/pods", "verb: list\n  resource: pods\n  objectName: some"
            ),
            "flows[0].objectName: means nothing to list",
            id="object-name",
        ),
        pytest.param(
            FLOW.replace("request: GET /api/v1/pods", "verb: get\n  resource: pods/status"),
            "flows[0].resource: expected a name, not 'pods/status'; or give the whole request",
            id="subresource",
        ),
        pytest.param(
            FLOW.replace(
                "request: GET /api/v1/pods", "verb: list\n  resource: pods\n  namespace: a?b"
            ),
            "flows[0].namespace: expected a name, not 'a?b'",
            id="query",
        ),
        pytest.param("[]", "flows[0]: expected a mapping", id="no-mapping"),
        pytest.param(FLOW + "\n  count: 10000\n- " + FLOW, "flows[1].count: more than", id="many"),
        pytest.param(
            FLOW.replace("rate: 10", "clients: 90000") + "\n  count: 2",
            "flows[0].clients: more than 100,000 clients in all",
            id="many-clients",
        ),
        pytest.param(
            FLOW.replace("rate: 10", "rate: 1000000") + "\n  count: 101",
            "flows[0].rate: more than 1,000,000,000 requests in all",
            id="many-requests",
        ),
        pytest.param(
            FLOW.replace("5ms", "exp(5ms,3)"),
            "flows[0].serviceTime: expected a service time, not 'exp(5ms,3)'; service times are"
            " such as 50ms",
            id="service-times",
        ),
    ],
)
def test_wrong_flows(fields: str, message: str) -> None:
    """A wrong field is named, with its place and what would be right."""
    with pytest.raises(MixError) as error:
        mix_of(fields)

    assert str(error.value).startswith(message)
    assert error.value.line is not None


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        pytest.param(b"", None, "expected one document with `flows`, not 0", id="empty"),
        pytest.param(b"a: [", 2, "not YAML", id="no-yaml"),
        pytest.param(b"[]", 1, "the document: expected a mapping", id="a-list"),
        pytest.param(
            b"flows: []", 1, "flows: expected a list of length >= 1, not '[]'", id="no-duration"
        ),
        pytest.param(
            b"duration: 5\nflows: [a]",
            1,
            "duration: '5' is not a duration such as 30s or 1m30s",
            id="no-unit",
        ),
        pytest.param(b"duration: 0s\nflows: [a]", 1, "duration: has to be above 0", id="no-time"),
        pytest.param(b"duration: 5s", 1, "flows: is missing", id="no-flows"),
        pytest.param(b"duration: 5s\nx: 1\nflows: [a]", 2, "x: unknown", id="unknown"),
    ],
)
def test_wrong_documents(data: bytes, line: int | None, message: str) -> None:
    """What is no mix is refused."""
    with pytest.raises(MixError) as error:
        parse_mix(data)

    assert str(error.value).startswith(message)
    assert line == error.value.line


@given(data=st.data())
def test_any_values(data: st.DataObject) -> None:
    """Whatever a field has for a value, a mix is made or refused."""
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
    """Bytes that are no mix are refused."""
    with pytest.raises(MixError):
        parse_mix(data)
