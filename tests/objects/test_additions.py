"""Additions to objects by annotations."""

from __future__ import annotations

import re
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.objects.additions import (
    LONGEST_HEADER_NAME,
    LONGEST_VALUE,
    MOST_VALUES,
    NO_FLOW_SCHEMA_ADDITIONS,
    OF_FLOW_SCHEMA,
    OF_LEVEL,
    PREFIX,
    TOKENS,
    Condition,
    Cost,
    Distinguisher,
    DistinguisherKind,
    FlowSchemaAdditions,
    LevelAdditions,
    StreamSeats,
    describe,
    matches,
    parse_header,
    parse_methods,
    parse_parameter,
    values_meet,
)
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
)
from tests.support.builders import flow_schema, group_subject, priority_level

AnyObject = TypeVar("AnyObject", bound=FlowControlObject)

QUEUING = priority_level("a", queuing=QueuingConfiguration(queues=1))
BANNED = priority_level("a", shares=0)
REJECTING = priority_level("a", shares=1)
EXEMPT = PriorityLevelConfiguration(spec=PriorityLevelConfigurationSpec(type="Exempt"))
SCHEMA = flow_schema("s", "a", group_subject("g"))


def annotated(obj: AnyObject, annotations: dict[str, str]) -> AnyObject:
    """The object with annotations, of whose names the prefix is left out."""
    named = {PREFIX + name: value for name, value in annotations.items()}
    return replace(obj, metadata=replace(obj.metadata, annotations=named))


def schema(annotations: dict[str, str], name: str = "s") -> FlowSchema:
    return annotated(flow_schema(name, "a", group_subject("g")), annotations)


def counting(obj: FlowControlObject) -> FlowSchemaAdditions | LevelAdditions:
    return replace(obj.additions, errors=())


UNTIL_S = 1_795_869_000.0
DISTINGUISHERS = {
    "group": (DistinguisherKind.GROUP, "", "the first group of the user that is not virtual"),
    "user-agent": (DistinguisherKind.USER_AGENT, "", "the program that User-Agent names"),
    "path-prefix": (DistinguisherKind.PATH_PREFIX, "", "the variable part of request.pathPrefixes"),
    "header:X-Tenant": (DistinguisherKind.HEADER, "x-tenant", "the header x-tenant"),
}


@pytest.mark.parametrize(
    ("obj", "annotations", "expected", "sentences"),
    [
        pytest.param(QUEUING, {}, LevelAdditions(), "", id="no-level"),
        pytest.param(
            QUEUING,
            {"wait-limit": "0.5m1s5ms"},
            LevelAdditions(wait_limit_ns=31_005_000_000),
            "A request waits in its queue for 31.005 s at most (apfproxy.io/wait-limit).",
            id="wait-limit-of-parts",
        ),
        pytest.param(
            QUEUING,
            {"priority": "1000"},
            LevelAdditions(priority=1000),
            "Of the levels with a priority the greatest gets seats first; this one has 1000"
            " (apfproxy.io/priority), and is sure of what its shares are of theirs.",
            id="priority",
        ),
        pytest.param(
            QUEUING,
            {"stream-seats": "hold", "wait-limit": "10m"},
            LevelAdditions(wait_limit_ns=600_000_000_000, stream_seats=StreamSeats.HOLD),
            "A request waits in its queue for 600 s at most (apfproxy.io/wait-limit)."
            "\nA response of unknown length has its seats until it ends"
            " (apfproxy.io/stream-seats).",
            id="streams-of-a-level",
        ),
        pytest.param(
            QUEUING,
            {"cost": "tokens"},
            LevelAdditions(cost=TOKENS),
            "Fair queuing shares tokens, not time (apfproxy.io/cost).",
            id="tokens",
        ),
        pytest.param(
            QUEUING,
            {"cost": "header:X-Cost"},
            LevelAdditions(cost=Cost("x-cost")),
            "Fair queuing shares the cost that the header x-cost says, not time"
            " (apfproxy.io/cost).",
            id="cost-of-a-header",
        ),
        pytest.param(
            SCHEMA,
            {"stream-seats": "release"},
            FlowSchemaAdditions(stream_seats=StreamSeats.RELEASE),
            "A response of unknown length gives its seats back at its begin"
            " (apfproxy.io/stream-seats).",
            id="streams-of-a-schema",
        ),
        pytest.param(
            BANNED,
            {"ban": "true"},
            LevelAdditions(is_ban=True),
            "Every request is rejected, with 403 (apfproxy.io/ban).",
            id="ban",
        ),
        pytest.param(REJECTING, {"ban": "false"}, LevelAdditions(), "", id="no-ban"),
        pytest.param(SCHEMA, {}, NO_FLOW_SCHEMA_ADDITIONS, "", id="no-schema"),
        *(
            pytest.param(
                SCHEMA,
                {"distinguisher": text},
                FlowSchemaAdditions(distinguisher=Distinguisher(kind, name)),
                f"Flows are told apart by {words} (apfproxy.io/distinguisher).",
                id=text,
            )
            for text, (kind, name, words) in DISTINGUISHERS.items()
        ),
        pytest.param(
            SCHEMA,
            {"request-rate": "2.5"},
            FlowSchemaAdditions(request_rate=2.5, request_burst=3),
            "A flow may make 2.5 requests a second (apfproxy.io/request-rate),"
            " and 3 at once (apfproxy.io/request-burst).",
            id="rate",
        ),
        pytest.param(
            SCHEMA,
            {"request-rate": "20", "request-burst": "40", "long-running-limit": "5"},
            FlowSchemaAdditions(request_rate=20.0, request_burst=40, long_running_limit=5),
            "A flow may make 20 requests a second (apfproxy.io/request-rate),"
            " and 40 at once (apfproxy.io/request-burst)."
            "\nA flow may have 5 long-running requests at once (apfproxy.io/long-running-limit).",
            id="limits",
        ),
        pytest.param(
            SCHEMA,
            {"token-rate": "6000"},
            FlowSchemaAdditions(token_rate=6000, token_burst=6000),
            "A flow may have 6000 tokens a minute (apfproxy.io/token-rate),"
            " and 6000 at once (apfproxy.io/token-burst).",
            id="token-rate",
        ),
        pytest.param(
            SCHEMA,
            {"token-rate": "1000000000", "token-burst": "7"},
            FlowSchemaAdditions(token_rate=1_000_000_000, token_burst=7),
            "A flow may have 1000000000 tokens a minute (apfproxy.io/token-rate),"
            " and 7 at once (apfproxy.io/token-burst).",
            id="token-burst",
        ),
        pytest.param(
            SCHEMA,
            {"flow-requests-limit": "8", "weight": "3"},
            FlowSchemaAdditions(flow_requests_limit=8, weight=3),
            "A flow may have 8 requests that wait or have seats (apfproxy.io/flow-requests-limit)."
            "\nA flow has 3 times the share of one of weight 1 (apfproxy.io/weight).",
            id="flow-requests-limit-and-weight",
        ),
        *(
            pytest.param(
                SCHEMA,
                {"bytes-per-second": text},
                FlowSchemaAdditions(bytes_per_second=rate),
                f"The responses of a flow get {rate} bytes a second together"
                " (apfproxy.io/bytes-per-second).",
                id=f"bytes-{text}",
            )
            for text, rate in (
                *(("1000", 1000), ("1000000", 10**6), ("500k", 500_000), ("10M", 10**7)),
                *(("100G", 10**11), ("1Ki", 1024), ("10Mi", 10 << 20), ("2Gi", 2 << 30)),
            )
        ),
        pytest.param(
            SCHEMA,
            {"match-header": "X-Priority: b, a", "match-methods": "GET, HEAD"},
            FlowSchemaAdditions(
                condition=Condition(frozenset({"get", "head"}), "x-priority", frozenset("ab"))
            ),
            "Of requests for non-resource paths it matches only GET, HEAD"
            " (apfproxy.io/match-methods)."
            "\nIt matches only requests with the header x-priority, a or b"
            " (apfproxy.io/match-header).",
            id="conditions",
        ),
        pytest.param(
            SCHEMA,
            {"match-query": "limit=!, 0"},
            FlowSchemaAdditions(
                condition=Condition(parameter="limit", parameter_values=frozenset({"", "0"}))
            ),
            "It matches only requests with the parameter limit, missing or 0"
            " (apfproxy.io/match-query).",
            id="query",
        ),
        pytest.param(
            SCHEMA,
            {"match-model": "llama3:*, gpt-4"},
            FlowSchemaAdditions(condition=Condition(models=frozenset({"llama3:*", "gpt-4"}))),
            "It matches only completions of gpt-4 or llama3:* (apfproxy.io/match-model).",
            id="models",
        ),
        pytest.param(
            SCHEMA,
            {"match-model": "*"},
            FlowSchemaAdditions(condition=Condition(models=frozenset())),
            "It matches only completions of any model (apfproxy.io/match-model).",
            id="any-model",
        ),
        pytest.param(
            SCHEMA,
            {"until": "2026-11-28T12:30:00Z"},
            FlowSchemaAdditions(until_s=UNTIL_S),
            "The FlowSchema is in force until 2026-11-28T12:30:00Z (apfproxy.io/until).",
            id="until",
        ),
        pytest.param(
            BANNED,
            {"ban": "true", "until": "2026-11-28T14:30:00+02:00"},
            LevelAdditions(is_ban=True, until_s=UNTIL_S),
            "Every request is rejected, with 403 (apfproxy.io/ban)."
            "\nThe level is in force until 2026-11-28T12:30:00Z (apfproxy.io/until).",
            id="level-until",
        ),
    ],
)
def test_additions_are_read_and_described(
    obj: FlowControlObject,
    annotations: dict[str, str],
    expected: FlowSchemaAdditions | LevelAdditions,
    sentences: str,
) -> None:
    found = annotated(obj, annotations)
    assert (expected, ()) == (counting(found), found.additions.errors)
    assert sentences == "\n".join(describe(found.additions))


DURATION = "write a duration such as 500ms, 5s or 1m, longer than 0s and at most 10m"
RATE = "write requests per second, such as 20 or 0.5, from 0.001 to 1000000"
COUNT = "write a whole number from 1 to 1000000"
PRIORITY = "write a whole number from 1 to 1000; the greatest goes first"
HOW = (
    "write group, path-prefix, user-agent, or header:NAME such as header:X-Tenant, of letters,"
    " digits and hyphens"
)
OF_SECRETS = "flows are named in logs and dumps, which must not hold secrets: take another"
OF_CONNECTIONS = "it is about a connection, and tells no requests apart: take another"
OF_USERS = "it names the user: write group, or take distinguisherMethod ByUser"
HEADERS = {
    **dict.fromkeys(
        ("Cookie", "authorization", "Proxy-Authorization", "Sec-WebSocket-Protocol"), OF_SECRETS
    ),
    **dict.fromkeys(("Connection", "te"), OF_CONNECTIONS),
    **dict.fromkeys(("X-Remote-User", "x-remote-extra-team"), OF_USERS),
}
COST = "write tokens, or header:NAME such as header:X-Cost, of letters, digits and hyphens"
NO_TIME = (
    "'{}' is no time like 2006-01-02T15:04:05Z; as it is, the object stays in force without an end"
)
NO_BAN = "only with limited.nominalConcurrencyShares 0 and limitResponse.type Reject"
ONLY_QUEUE = "only with limitResponse.type Queue"
OF_LEVELS = (
    'supported values: "apfproxy.io/ban", "apfproxy.io/cost", "apfproxy.io/priority",'
    ' "apfproxy.io/stream-seats", "apfproxy.io/until", "apfproxy.io/wait-limit"'
)
OF_SCHEMAS = (
    'supported values: "apfproxy.io/bytes-per-second", "apfproxy.io/distinguisher",'
    ' "apfproxy.io/flow-requests-limit",'
    ' "apfproxy.io/long-running-limit",'
    ' "apfproxy.io/match-header", "apfproxy.io/match-methods", "apfproxy.io/match-model",'
    ' "apfproxy.io/match-query",'
    ' "apfproxy.io/request-burst", "apfproxy.io/request-rate", "apfproxy.io/stream-seats",'
    ' "apfproxy.io/token-burst", "apfproxy.io/token-rate", "apfproxy.io/until",'
    ' "apfproxy.io/weight"'
)


@pytest.mark.parametrize(
    ("obj", "name", "value", "message"),
    [
        *((QUEUING, "wait-limit", value, DURATION) for value in ("5", "0s", "601s", "-1s")),
        (REJECTING, "wait-limit", "5s", f"Forbidden: nothing waits there: {ONLY_QUEUE}"),
        (EXEMPT, "ban", "yes", 'Unsupported value: "yes": supported values: "false", "true"'),
        *((level, "ban", "true", f"Forbidden: {NO_BAN}") for level in (QUEUING, REJECTING, EXEMPT)),
        (
            QUEUING,
            "wait-limt",
            "5s",
            'Unsupported value: "apfproxy.io/wait-limt": did you mean "apfproxy.io/wait-limit"?',
        ),
        (QUEUING, "limit", "5s", f'Unsupported value: "apfproxy.io/limit": {OF_LEVELS}'),
        (QUEUING, "request-rate", "5", "Forbidden: put it on a FlowSchema, or remove it"),
        *((QUEUING, "priority", bad, PRIORITY) for bad in ("0", "1001", "-1", "1.5", "high", "")),
        *((QUEUING, "cost", bad, COST) for bad in ("", "token", "tokens:a", "header:", "time")),
        (QUEUING, "cost", "header:Cookie", "an object must not hold secrets: take another header"),
        (QUEUING, "cost", "header:TE", OF_CONNECTIONS),
        *(
            (level, "cost", "tokens", f"Forbidden: nothing is shared there: {ONLY_QUEUE}")
            for level in (REJECTING, EXEMPT)
        ),
        *(
            (level, "priority", "5", f"Forbidden: nothing waits there for seats: {ONLY_QUEUE}")
            for level in (REJECTING, EXEMPT)
        ),
        *(
            (SCHEMA, "distinguisher", bad, HOW)
            for bad in ("user", "header", "header:", "header:a b", "group:a")
        ),
        *((SCHEMA, "distinguisher", f"header:{each}", why) for each, why in HEADERS.items()),
        *((SCHEMA, "request-rate", bad, RATE) for bad in ("0", "1e3", "1000001")),
        (
            SCHEMA,
            "request-burst",
            "5",
            "Forbidden: of no use without apfproxy.io/request-rate: add that, or remove this",
        ),
        *(
            (SCHEMA, "token-rate", bad, "write a whole number from 1 to 1000000000")
            for bad in ("0", "0.5", "1000000001", "many")
        ),
        (
            SCHEMA,
            "token-burst",
            "5",
            "Forbidden: of no use without apfproxy.io/token-rate: add that, or remove this",
        ),
        *((SCHEMA, "long-running-limit", bad, COUNT) for bad in ("0", "many")),
        *((SCHEMA, "flow-requests-limit", bad, COUNT) for bad in ("0", "1000001", "-1", "2.5")),
        *(
            (SCHEMA, "weight", bad, "write a whole number from 1 to 100")
            for bad in ("0", "101", "-1", "0.5", "three")
        ),
        *(
            (
                SCHEMA,
                "bytes-per-second",
                bad,
                "write bytes a second from 1000 to 100G, such as 500000, 500k, 10M or 10Mi",
            )
            for bad in ("", "0", "999", "101G", "1.5M", "10K", "10m", "10MB", "10 M", "-1k", "ki")
        ),
        *(
            (each, "until", bad, NO_TIME.format(bad))
            for each in (BANNED, SCHEMA)
            for bad in ("", "10m", "2026-11-28", "2026-11-28 12:30:00Z", "2026-11-28T25:00:00Z")
        ),
        *((each, "stream-seats", "Hold", "write hold, or release") for each in (QUEUING, SCHEMA)),
        (SCHEMA, "ban", "true", "Forbidden: put it on a PriorityLevelConfiguration, or remove it"),
        (SCHEMA, "rate", "5", f'Unsupported value: "apfproxy.io/rate": {OF_SCHEMAS}'),
    ],
)
def test_errors(obj: FlowControlObject, name: str, value: str, message: str) -> None:
    if not message.startswith(("Forbidden", "Unsupported")):
        message = f'Invalid value: "{value}": {message}'
    found = annotated(obj, {name: value})

    assert [f"metadata.annotations[apfproxy.io/{name}]: {message}"] == list(
        map(str, found.additions.errors)
    )
    assert counting(annotated(obj, {})) == counting(found)


def test_exempt_is_never_limited() -> None:
    """Administrators cannot be locked out; how flows are told apart does no harm."""
    limits = dict.fromkeys(
        ("request-rate", "long-running-limit", "token-rate", "flow-requests-limit"), "7"
    ) | {"bytes-per-second": "7k"}
    obj = schema({**limits, "distinguisher": "group"}, "exempt")

    assert [
        f"metadata.annotations[apfproxy.io/{name}]: Forbidden: the FlowSchema exempt is never"
        " limited: remove it"
        for name in limits
    ] == list(map(str, obj.additions.errors))
    assert FlowSchemaAdditions(distinguisher=Distinguisher(DistinguisherKind.GROUP)) == counting(
        obj
    )


NAMES = [name.removeprefix(PREFIX) for name in OF_LEVEL + OF_FLOW_SCHEMA]


@given(
    st.dictionaries(st.sampled_from(NAMES), st.text(alphabet="0123456789.smh:-atrue", max_size=9))
)
def test_any_value_is_read_or_refused(annotations: dict[str, str]) -> None:
    """No text makes reading fail, and refused ones are left out of the description."""
    for obj in (schema(annotations), annotated(QUEUING, annotations)):
        assert len(obj.additions.errors) + len(describe(obj.additions)) <= 2 * len(annotations)


@pytest.mark.parametrize(
    "annotations",
    [
        {"match-header": "X-Priority"},
        {"match-methods": "get", "match-header": "X-Priority: batch"},
        {"match-header": "Cookie: a", "match-methods": "GET"},
        {"match-model": "a,,b", "match-methods": "GET"},
        {"match-model": ", ".join("a" * (MOST_VALUES + 1))},
        {"match-model": "a" * (LONGEST_VALUE + 1)},
        {"match-query": "format", "match-methods": "GET"},
    ],
)
def test_conditions_that_cannot_be_read(annotations: dict[str, str]) -> None:
    """One such part makes the whole one that no request meets."""
    given = schema(annotations)

    assert Condition(is_broken=True) == given.additions.condition
    assert ("It matches no request, because a condition cannot be read.",) == describe(
        given.additions
    )
    (error,) = given.additions.errors
    assert str(error).endswith("; as it is, the FlowSchema matches no request")


def test_mandatory_schemas_have_no_conditions() -> None:
    for name in ("exempt", "catch-all"):
        given = schema({"match-header": "X: a", "match-model": "m", "match-query": "a=b"}, name)
        assert given.additions.condition is None
        assert 3 == len(given.additions.errors)
        assert all("is mandatory and matches all" in str(each) for each in given.additions.errors)


def of_query(*values: str, name: str = "format") -> Condition:
    return Condition(parameter=name, parameter_values=frozenset(values))


def of(*values: str) -> Condition:
    return Condition(None, "user-agent", frozenset(values))


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("X-Priority: batch", "x-priority", {"batch"}),
        ("  Accept : text/html ; q=1", "accept", {"text/html ; q=1"}),
        ("X-Team: a, *", "x-team", set()),
        ("User-Agent: a*, *b*", "user-agent", {"a*", "*b*"}),
        (f"X-Team: {'a' * LONGEST_VALUE}", "x-team", {"a" * LONGEST_VALUE}),
        (f"X-{'a' * (LONGEST_HEADER_NAME - 2)}: b", f"x-{'a' * (LONGEST_HEADER_NAME - 2)}", {"b"}),
        ("X-Remote-Users: a", "x-remote-users", {"a"}),
    ],
)
def test_header(text: str, name: str, values: set[str]) -> None:
    assert (name, frozenset(values)) == parse_header(text)


FORM, LETTERS = "write NAME: VALUE", "letters, digits and hyphens"
BAD_HEADERS = {
    **dict.fromkeys(("X-Priority", "X: a,,b", "X: \u00e4", "X: a\r\nX-B: c"), FORM),
    f"X-Priority: {'a' * (LONGEST_VALUE + 1)}": FORM,
    f"X-Priority: {', '.join(['a'] * (MOST_VALUES + 1))}": FORM,
    **dict.fromkeys(("X_Priority: batch", ": a", "-x: a"), LETTERS),
    f"{'x' * (LONGEST_HEADER_NAME + 1)}: a": LETTERS,
    "Authorization: Basic abc": "must not hold secrets",
    **dict.fromkeys(("Connection: close", "Upgrade: a"), "about a connection"),
    **dict.fromkeys(("X-Remote-Group: a", "X-Remote-Extra-Team: a"), "as subjects"),
}


@pytest.mark.parametrize("text", BAD_HEADERS)
def test_bad_header(text: str) -> None:
    with pytest.raises(ValueError, match=BAD_HEADERS[text]):
        parse_header(text)


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("format=csv, xlsx*", "format", {"csv", "xlsx*"}),
        (" $expand = * ", "$expand", set()),
        ("limit=!", "limit", {""}),
        ("fieldSelector=status.phase=Running", "fieldSelector", {"status.phase=Running"}),
        ("page[token]=!, 100%, a b", "page[token]", {"", "100%", "a b"}),
    ],
)
def test_parameter(text: str, name: str, values: set[str]) -> None:
    assert (name, frozenset(values)) == parse_parameter(text)


BAD_PARAMETERS = {
    **dict.fromkeys(("format", "format: csv", "=a", "a b=c", "a=", "a=b,,c", "a=*, !"), "NAME=VAL"),
    **dict.fromkeys(("a=\u00e4", f"{'a' * 65}=b", f"a={'b' * (LONGEST_VALUE + 1)}"), "NAME=VAL"),
    **dict.fromkeys(("q=a%20b", "a=%2c", "a=b&c=d"), "as they are decoded"),
    **dict.fromkeys(
        ("access_token=a", "API-Key=*", "apikey=a", "token=a", "sig=*"), "hold secrets"
    ),
    **dict.fromkeys(
        ("X-Amz-Signature=*", "client_secret=a", "Key=a", "sessionid=!"), "hold secrets"
    ),
}


@pytest.mark.parametrize("text", BAD_PARAMETERS)
def test_bad_parameter(text: str) -> None:
    with pytest.raises(ValueError, match=BAD_PARAMETERS[text]):
        parse_parameter(text)


def test_methods() -> None:
    assert {"get", "head"} == parse_methods("GET, HEAD")
    assert {"m-search", "view_1"} == parse_methods("M-SEARCH, VIEW_1")
    for text in ("", "get", "GET,", "GET HEAD", "G" * 65, ",".join(["A"] * 33)):
        with pytest.raises(ValueError, match="capital letters"):
            parse_methods(text)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Condition(), Condition(), True),
        (Condition(is_broken=True), Condition(), False),
        (Condition(), Condition(is_broken=True), False),
        (Condition(None, "a", frozenset("y")), Condition(None, "a", frozenset("x")), False),
        (Condition(None, "a", frozenset("xy")), Condition(None, "a", frozenset("x")), True),
        (Condition(None, "a", frozenset("y")), Condition(None, "b", frozenset("x")), True),
        (of("ab*"), of("abc", "d"), True),
        (of("abc"), of("ab*c"), True),
        (of("ab*"), of("bc"), False),
        (of("a*c"), of("*x*bc"), True),
        (of("a*c"), of("b*c"), False),
        (Condition(models=frozenset("a")), Condition(), True),
        (Condition(models=frozenset("a")), Condition(models=frozenset()), True),
        (Condition(models=frozenset("a")), Condition(models=frozenset("ab")), True),
        (Condition(models=frozenset("a")), Condition(models=frozenset("b")), False),
        (of_query("a"), of_query("b"), True),
    ],
)
def test_can_meet(one: Condition, other: Condition, *, expected: bool) -> None:
    """Two conditions exclude each other by different values of one header."""
    assert expected == one.can_meet(other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (of("a*"), None, False),
        (of("a*"), Condition(), False),
        (of("a*"), Condition(is_broken=True), False),
        (Condition(is_broken=True), of("a"), False),
        (of("a*"), of("ab", "a*b*"), True),
        (of("a*"), of("ab", "*b"), False),
        (of("a*", "*b"), of("ab", "*b"), True),
        (of(), of("a*"), True),
        (of("a*"), of(), False),
        (of("a"), Condition(None, "other", frozenset("a")), False),
        (Condition(frozenset({"get", "head"})), Condition(frozenset({"get"})), True),
        (Condition(frozenset({"get"})), Condition(frozenset({"get", "head"})), False),
        (Condition(frozenset({"get"})), of("a"), False),
        (Condition(models=frozenset("a")), Condition(), False),
        (Condition(models=frozenset()), Condition(models=frozenset("a")), True),
        (Condition(models=frozenset("a")), Condition(models=frozenset()), False),
        (Condition(models=frozenset(["a*"])), Condition(models=frozenset(["ab"])), True),
        (Condition(models=frozenset(["a*"])), Condition(models=frozenset(["b"])), False),
        (of_query("a*"), of_query("ab", "a"), True),
        (of_query("a*"), of_query("b"), False),
        (of_query("a", ""), of_query(""), True),
        (of_query(), of_query(""), False),
        (of_query("", "*b"), of_query(), False),
        (of_query("a"), of_query("a", name="q"), False),
    ],
)
def test_holds(one: Condition, other: Condition | None, *, expected: bool) -> None:
    """A condition holds another if every request that meets that meets it as well."""
    assert expected == one.holds(other)


@given(st.text("ab*", max_size=6), st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_patterns_agree_with_expressions(one: str, other: str, value: str) -> None:
    """Regular expressions match the same; what holds or cannot meet another says so of values."""
    is_one, is_other = matches(one, value), matches(other, value)
    assert is_one == bool(re.fullmatch(".*".join(map(re.escape, one.split("*"))), value))
    if matches(one, other):
        assert is_one >= is_other
    if not values_meet(one, other):
        assert not (is_one and is_other)
