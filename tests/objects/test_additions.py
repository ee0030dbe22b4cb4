"""What annotations add to objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.objects.additions import (
    MOST_ERRORS,
    NO_FLOW_SCHEMA_ADDITIONS,
    OF_FLOW_SCHEMA,
    OF_LEVEL,
    PREFIX,
    Condition,
    Distinguisher,
    DistinguisherKind,
    FlowSchemaAdditions,
    LevelAdditions,
    describe,
)
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
)
from loadtest.objects import flow_schema, group_subject, priority_level

QUEUING = priority_level("a", queuing=QueuingConfiguration(queues=1))
BANNED = priority_level("a", shares=0)
REJECTING = priority_level("a", shares=1)
EXEMPT = PriorityLevelConfiguration(spec=PriorityLevelConfigurationSpec(type="Exempt"))


def annotated(
    level: PriorityLevelConfiguration, annotations: dict[str, str]
) -> PriorityLevelConfiguration:
    """The level with annotations, of whose names the prefix is left out."""
    named = {PREFIX + name: value for name, value in annotations.items()}
    return replace(level, metadata=replace(level.metadata, annotations=named))


def schema(annotations: dict[str, str], name: str = "s") -> FlowSchema:
    """A FlowSchema with annotations, likewise."""
    obj = flow_schema(name, "a", group_subject("g"))
    named = {PREFIX + key: value for key, value in annotations.items()}
    return replace(obj, metadata=replace(obj.metadata, annotations=named))


def counting(obj: FlowControlObject) -> FlowSchemaAdditions | LevelAdditions:
    """What is added to an object, errors apart."""
    return replace(obj.additions, errors=())


@pytest.mark.parametrize(
    ("level", "annotations", "expected", "sentences"),
    [
        pytest.param(QUEUING, {}, LevelAdditions(), (), id="none"),
        pytest.param(
            QUEUING,
            {"wait-limit": "1.5s"},
            LevelAdditions(wait_limit_ns=1_500_000_000),
            ("A request waits in its queue for 1.5 s at most (apfproxy.io/wait-limit).",),
            id="wait-limit",
        ),
        pytest.param(
            QUEUING,
            {"wait-limit": "0.5m1s5ms"},
            LevelAdditions(wait_limit_ns=31_005_000_000),
            ("A request waits in its queue for 31.005 s at most (apfproxy.io/wait-limit).",),
            id="wait-limit-of-parts",
        ),
        pytest.param(
            QUEUING,
            {"priority": "1000"},
            LevelAdditions(priority=1000),
            (
                (
                    "Of the levels with a priority the greatest gets seats first; this one has 1000"
                    " (apfproxy.io/priority), and is sure of what its shares are of theirs."
                ),
            ),
            id="priority",
        ),
        pytest.param(
            BANNED,
            {"ban": "true"},
            LevelAdditions(is_ban=True),
            ("Every request is rejected, with 403 (apfproxy.io/ban).",),
            id="ban",
        ),
        pytest.param(REJECTING, {"ban": "false"}, LevelAdditions(), (), id="no-ban"),
    ],
)
def test_priority_levels(
    level: PriorityLevelConfiguration,
    annotations: dict[str, str],
    expected: LevelAdditions,
    sentences: tuple[str, ...],
) -> None:
    """Additions of priority levels are read, and described."""
    obj = annotated(level, annotations)

    assert expected == counting(obj)
    assert sentences == describe(obj.additions)
    assert () == obj.additions.errors


@pytest.mark.parametrize(
    ("annotations", "expected", "sentences"),
    [
        pytest.param({}, NO_FLOW_SCHEMA_ADDITIONS, (), id="none"),
        pytest.param(
            {"distinguisher": "group"},
            FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.GROUP)),
            (
                (
                    "Flows are told apart by the first group of the user that is not virtual"
                    " (apfproxy.io/distinguisher)."
                ),
            ),
            id="group",
        ),
        pytest.param(
            {"distinguisher": "user-agent"},
            FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.USER_AGENT)),
            (
                (
                    "Flows are told apart by the program that User-Agent names"
                    " (apfproxy.io/distinguisher)."
                ),
            ),
            id="user-agent",
        ),
        pytest.param(
            {"distinguisher": "path-prefix"},
            FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.PATH_PREFIX)),
            (
                (
                    "Flows are told apart by the variable part of request.pathPrefixes"
                    " (apfproxy.io/distinguisher)."
                ),
            ),
            id="path-prefix",
        ),
        pytest.param(
            {"distinguisher": "header:X-Tenant"},
            FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.HEADER, "x-tenant")),
            ("Flows are told apart by the header x-tenant (apfproxy.io/distinguisher).",),
            id="header",
        ),
        pytest.param(
            {"request-rate": "2.5"},
            FlowSchemaAdditions(request_rate=2.5, request_burst=3),
            (
                (
                    "A flow may make 2.5 requests a second (apfproxy.io/request-rate),"
                    " and 3 at once (apfproxy.io/request-burst)."
                ),
            ),
            id="rate",
        ),
        pytest.param(
            {"request-rate": "20", "request-burst": "40", "long-running-limit": "5"},
            FlowSchemaAdditions(request_rate=20.0, request_burst=40, long_running_limit=5),
            (
                (
                    "A flow may make 20 requests a second (apfproxy.io/request-rate),"
                    " and 40 at once (apfproxy.io/request-burst)."
                ),
                "A flow may have 5 long-running requests at once (apfproxy.io/long-running-limit).",
            ),
            id="limits",
        ),
    ],
)
def test_flow_schemas(
    annotations: dict[str, str], expected: FlowSchemaAdditions, sentences: tuple[str, ...]
) -> None:
    """Additions of FlowSchemas are read, and described."""
    obj = schema(annotations)

    assert expected == counting(obj)
    assert sentences == describe(obj.additions)
    assert () == obj.additions.errors


DURATION = "write a duration such as 500ms, 5s or 1m, longer than 0s and at most 1m"
RATE = "write requests per second, such as 20 or 0.5, from 0.001 to 1000000"
COUNT = "write a whole number from 1 to 1000000"
HOW = (
    "write group, path-prefix, user-agent, or header:NAME such as header:X-Tenant, of letters,"
    " digits and hyphens"
)


@pytest.mark.parametrize(
    ("level", "name", "value", "message"),
    [
        (QUEUING, "wait-limit", "5", f'Invalid value: "5": {DURATION}'),
        (QUEUING, "wait-limit", "0s", f'Invalid value: "0s": {DURATION}'),
        (QUEUING, "wait-limit", "61s", f'Invalid value: "61s": {DURATION}'),
        (QUEUING, "wait-limit", "-1s", f'Invalid value: "-1s": {DURATION}'),
        (
            REJECTING,
            "wait-limit",
            "5s",
            "Forbidden: nothing waits there: only with limitResponse.type Queue",
        ),
        (EXEMPT, "ban", "yes", 'Unsupported value: "yes": supported values: "false", "true"'),
        *(
            (
                level,
                "ban",
                "true",
                (
                    "Forbidden: only with limited.nominalConcurrencyShares 0"
                    " and limitResponse.type Reject"
                ),
            )
            for level in (QUEUING, REJECTING, EXEMPT)
        ),
        (
            QUEUING,
            "wait-limt",
            "5s",
            (
                'Unsupported value: "apfproxy.io/wait-limt": supported values: "apfproxy.io/ban",'
                ' "apfproxy.io/priority", "apfproxy.io/wait-limit"'
            ),
        ),
        (QUEUING, "request-rate", "5", "Forbidden: put it on a FlowSchema, or remove it"),
        *(
            (
                QUEUING,
                "priority",
                value,
                (
                    f'Invalid value: "{value}": write a whole number from 1 to 1000; the greatest'
                    " goes first"
                ),
            )
            for value in ("0", "1001", "-1", "1.5", "high", "")
        ),
        *(
            (
                level,
                "priority",
                "5",
                "Forbidden: nothing waits there for seats: only with limitResponse.type Queue",
            )
            for level in (REJECTING, EXEMPT)
        ),
    ],
)
def test_errors_of_priority_levels(
    level: PriorityLevelConfiguration, name: str, value: str, message: str
) -> None:
    """An error says where, what and what to do; the addition does not count."""
    obj = annotated(level, {name: value})

    assert [f"metadata.annotations[apfproxy.io/{name}]: {message}"] == list(
        map(str, obj.additions.errors)
    )
    assert LevelAdditions() == counting(obj)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("distinguisher", "user", f'Invalid value: "user": {HOW}'),
        ("distinguisher", "header", f'Invalid value: "header": {HOW}'),
        ("distinguisher", "header:", f'Invalid value: "header:": {HOW}'),
        ("distinguisher", "header:a b", f'Invalid value: "header:a b": {HOW}'),
        ("distinguisher", "group:a", f'Invalid value: "group:a": {HOW}'),
        *(
            (
                "distinguisher",
                f"header:{name}",
                (
                    f'Invalid value: "header:{name}": flows are named in logs and dumps, which must'
                    " not hold secrets: take another"
                ),
            )
            for name in ("Cookie", "authorization", "Proxy-Authorization", "Sec-WebSocket-Protocol")
        ),
        *(
            (
                "distinguisher",
                f"header:{name}",
                (
                    f'Invalid value: "header:{name}": it is about a connection, and tells no'
                    " requests apart: take another"
                ),
            )
            for name in ("Connection", "te")
        ),
        *(
            (
                "distinguisher",
                f"header:{name}",
                (
                    f'Invalid value: "header:{name}": it names the user: write group, or take'
                    " distinguisherMethod ByUser"
                ),
            )
            for name in ("X-Remote-User", "x-remote-extra-team")
        ),
        ("request-rate", "0", f'Invalid value: "0": {RATE}'),
        ("request-rate", "1e3", f'Invalid value: "1e3": {RATE}'),
        ("request-rate", "1000001", f'Invalid value: "1000001": {RATE}'),
        (
            "request-burst",
            "5",
            "Forbidden: of no use without apfproxy.io/request-rate: add that, or remove this",
        ),
        ("long-running-limit", "0", f'Invalid value: "0": {COUNT}'),
        ("long-running-limit", "many", f'Invalid value: "many": {COUNT}'),
        ("ban", "true", "Forbidden: put it on a PriorityLevelConfiguration, or remove it"),
        (
            "rate",
            "5",
            (
                'Unsupported value: "apfproxy.io/rate": supported values:'
                ' "apfproxy.io/distinguisher", "apfproxy.io/long-running-limit",'
                ' "apfproxy.io/match-header", "apfproxy.io/match-methods",'
                ' "apfproxy.io/request-burst", "apfproxy.io/request-rate"'
            ),
        ),
    ],
)
def test_errors_of_flow_schemas(name: str, value: str, message: str) -> None:
    """An error says where, what and what to do; the addition does not count."""
    obj = schema({name: value})

    assert [f"metadata.annotations[apfproxy.io/{name}]: {message}"] == list(
        map(str, obj.additions.errors)
    )
    assert NO_FLOW_SCHEMA_ADDITIONS == counting(obj)


def test_other_additions_count() -> None:
    """One that is wrong does not take the others with it."""
    obj = schema({"request-rate": "7", "request-burst": "many", "long-running-limit": "1"})

    assert 1 == len(obj.additions.errors)
    assert FlowSchemaAdditions(request_rate=7.0, request_burst=7, long_running_limit=1) == counting(
        obj
    )


def test_exempt_is_never_limited() -> None:
    """Nobody can lock administrators out; how flows are told apart does no harm."""
    limits = {"request-rate": "7", "long-running-limit": "1"}
    obj = schema({**limits, "distinguisher": "group"}, "exempt")

    assert [
        f"metadata.annotations[apfproxy.io/{name}]: Forbidden: the FlowSchema exempt is never"
        " limited: remove it"
        for name in limits
    ] == list(map(str, obj.additions.errors))
    assert FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.GROUP)) == counting(
        obj
    )


def test_errors_are_bounded() -> None:
    """An object has room for thousands of annotations."""
    assert MOST_ERRORS == len(schema({f"a{n}": "" for n in range(100)}).additions.errors)


def test_other_annotations_are_nobodys_business() -> None:
    """Those of other domains are left alone."""
    obj = flow_schema("s", "a", group_subject("g"))
    other = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "apfproxy.iox/a": "b"}
    obj = replace(obj, metadata=replace(obj.metadata, annotations=other))

    assert () == obj.additions.errors


NAMES = [name.removeprefix(PREFIX) for name in OF_LEVEL + OF_FLOW_SCHEMA]


@given(
    st.dictionaries(st.sampled_from(NAMES), st.text(alphabet="0123456789.smh:-atrue", max_size=9))
)
def test_any_value_is_read_or_refused(annotations: dict[str, str]) -> None:
    """No text makes reading fail, and what is refused is left out of the description."""
    for obj in (schema(annotations), annotated(QUEUING, annotations)):
        assert len(obj.additions.errors) + len(describe(obj.additions)) <= 2 * len(annotations)


def test_conditions() -> None:
    """They are read together, and described."""
    given = schema({"match-header": "X-Priority: b, a", "match-methods": "GET, HEAD"})

    assert (
        Condition(frozenset({"get", "head"}), "x-priority", frozenset("ab"))
        == given.additions.condition
    )
    assert () == given.additions.errors
    assert (
        "Of requests for other URLs it matches only GET, HEAD (apfproxy.io/match-methods).",
        "It matches only requests with the header x-priority, a or b (apfproxy.io/match-header).",
    ) == describe(given.additions)


@pytest.mark.parametrize(
    "annotations",
    [
        {"match-header": "X-Priority"},
        {"match-methods": "get", "match-header": "X-Priority: batch"},
        {"match-header": "Cookie: a", "match-methods": "GET"},
    ],
)
def test_conditions_that_cannot_be_read(annotations: dict[str, str]) -> None:
    """One such part makes the whole one that no request meets."""
    given = schema(annotations)

    condition = given.additions.condition

    assert condition is not None
    assert condition.is_broken
    assert ("It matches no request, because a condition cannot be read.",) == describe(
        given.additions
    )
    (error,) = given.additions.errors
    assert str(error).endswith("; as it is, the FlowSchema matches no request")


@pytest.mark.parametrize("name", ["exempt", "catch-all"])
def test_mandatory_schemas_have_no_conditions(name: str) -> None:
    """They match all, whatever is written there."""
    given = schema({"match-header": "X-Priority: batch"}, name)

    assert given.additions.condition is None
    (error,) = given.additions.errors
    assert "is mandatory and matches all" in str(error)
