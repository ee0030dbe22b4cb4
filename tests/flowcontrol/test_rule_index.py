"""Tests of the index of rules, and of the URLs that it matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.mismatch import match_url
from apfproxy.objects.additions import MATCH_HEADER, MATCH_METHODS
from apfproxy.objects.types import FlowSchema, NonResourcePolicyRule
from apfproxy.request.attributes import ANONYMOUS, RequestAttributes, User, parse_attributes
from loadtest.objects import flow_schema, user_subject
from tests.flowcontrol.plain_walk import first_match
from tests.lint.configurations import REQUESTS, USERS, configurations

EVERYBODY = user_subject("*")
ROOT = parse_attributes("GET", b"/")

conditions = st.fixed_dictionaries(
    {},
    optional={
        MATCH_HEADER: st.sampled_from(
            ["X-A: 1", "X-A: 1, 2", "X-A: *", "X-A: 1*", "X-A: 3, *2", "X-B: 1", "X-B: *", "?"]
        ),
        MATCH_METHODS: st.sampled_from(["GET", "DELETE, PATCH", "POST", "get"]),
    },
)
headers = st.dictionaries(
    st.sampled_from(["x-a", "x-b"]), st.sampled_from(["1", " 2\t", "3", " ", "12", "32"])
)


def annotated(schema: FlowSchema, added: dict[str, str]) -> FlowSchema:
    """A FlowSchema with annotations."""
    return replace(schema, metadata=replace(schema.metadata, annotations=added))


@given(
    schemas=configurations,
    added=st.lists(conditions, min_size=6, max_size=6) | st.just([{}] * 6),
    user=st.sampled_from(USERS),
    fields=headers,
    most_lines=st.sampled_from([1, 2, 3, 4096]),
)
def test_as_a_plain_walk(
    schemas: list[FlowSchema],
    added: list[dict[str, str]],
    user: User,
    fields: dict[str, str],
    most_lines: int,
) -> None:
    """Whatever FlowSchemas there are, in one index or in several."""
    schemas = [annotated(*each) for each in zip(schemas, added, strict=False)]
    classifier = Classifier(schemas, most_lines)

    def header_of(name: str) -> str:
        return fields.get(name, "")

    for request in REQUESTS:
        assert first_match(schemas, user, request, header_of) is classifier.classify(
            user, request, header_of
        )


def header_schema(number: int, text: str) -> FlowSchema:
    """A FlowSchema of everybody with a condition; the number is its precedence too."""
    schema = flow_schema(str(number), "level", EVERYBODY, precedence=number)
    return annotated(schema, {MATCH_HEADER: text})


@pytest.mark.parametrize(
    ("fields", "expected", "asked"),
    [
        pytest.param({"x-a": "7"}, "7", ["x-a"], id="one-of-many-values"),
        pytest.param({"x-a": "70"}, "1000", ["x-a", "x-b"], id="other-value"),
        pytest.param({"x-b": "1"}, "999", ["x-a", "x-b"], id="other-header"),
        pytest.param({"x-c": "1"}, "1000", ["x-a", "x-b"], id="none"),
    ],
)
def test_each_header_is_asked_for_once(
    fields: dict[str, str], expected: str, asked: list[str]
) -> None:
    """Only while the first FlowSchema that is left asks for it, however many do."""
    schemas = [header_schema(number, f"X-A: {number}") for number in range(1, 64)]
    schemas.append(header_schema(999, "X-B: *"))
    schemas.append(flow_schema("1000", "level", EVERYBODY, precedence=1000))
    schemas.append(header_schema(2000, "X-C: *"))
    names: list[str] = []

    def header_of(name: str) -> str:
        names.append(name)
        return fields.get(name, "")

    chosen = Classifier(schemas).classify(ANONYMOUS, ROOT, header_of)

    assert chosen is not None
    assert expected == chosen.metadata.name
    assert asked == names


def test_several_indexes() -> None:
    """The first index that has a match decides."""
    schemas = [
        flow_schema(f"{number:02}", "level", user_subject(f"u{number % 4}"), precedence=number)
        for number in range(1, 13)
    ]
    classifier = Classifier(schemas, 5)

    for number in range(4):
        chosen = classifier.classify(User(f"u{number}", ()), ROOT)
        assert chosen is schemas[number - 1 if number else 3]


@pytest.mark.parametrize("verbs", [("*",), ("get", "delete"), ("*", "get")])
@pytest.mark.parametrize("request_", [parse_attributes(method, b"/a") for method in ("GET", "PUT")])
def test_methods_narrow_verbs(verbs: tuple[str, ...], request_: RequestAttributes) -> None:
    """A condition on methods holds beside the verbs of a rule."""
    rule = NonResourcePolicyRule(verbs=verbs, non_resource_urls=("*",))
    schema = flow_schema("s", "level", EVERYBODY, non_resource_rule=rule)
    schemas = [annotated(schema, {MATCH_METHODS: "GET, PUT"})]

    assert first_match(schemas, ANONYMOUS, request_) is Classifier(schemas).classify(
        ANONYMOUS, request_
    )


def matches(urls: tuple[str, ...], path: str) -> bool:
    """Whether any of the URLs matches a path; an index says the same."""
    found = match_url(urls, path)
    rule = NonResourcePolicyRule(verbs=("get",), non_resource_urls=urls)
    schema = flow_schema("s", "level", user_subject("*"), non_resource_rule=rule)
    request = RequestAttributes(is_resource_request=False, path=path, verb="get")
    chosen = Classifier([schema]).classify(ANONYMOUS, request)

    assert found == (chosen is not None)
    return found


@pytest.mark.parametrize(
    ("url", "path", "is_match"),
    [
        ("*", b"/a/../b", True),
        ("/*", b"/a", True),
        ("/*", b"/a/../b", True),
        ("/a", b"/a", True),
        ("/a", b"/ab", False),
        ("/a", b"/a/b", True),
        ("/a/", b"/a", False),
        ("/a/*", b"/a/b", True),
        ("/a/*", b"/a", False),
        ("/a", b"/a/.well-known/b", True),
        ("/a", b"/a/../b", False),
        ("/a", b"/a/%2e%2e/b", False),
        ("/a", b"/a/.", False),
        ("/a", b"/a/...", False),
        ("/a/..", b"/a/..", True),
        ("/a", b"/a/..;/b", False),
        ("/a", b"/a/..;x=y/b", False),
        ("/a", b"/a/;/../b", False),
        ("/a", b"/a/..%5cb", False),
        ("/a", b"/a/..\\b", False),
        ("/a", b"/a/%252e%252e/b", False),
        ("/a", b"/a/%25252e./b", False),
        ("/a", b"/a/..%252fb", False),
        ("/a", b"/a/%2e%2e%2fb", False),
        ("/a", b"/a%2f..%2fb", False),
        ("/a", b"/a/%c0%ae%c0%ae/b", False),
        ("/a", b"/a/%ef%bc%8e%ef%bc%8e/b", False),
        ("/a", b"/a/..%20/b", False),
        ("/a", b"/a/..%09/b", False),
        ("/a", b"/a/..%00/b", False),
        ("/a", b"/a/%3f/b", False),
        ("/a", b"/a/%23/b", False),
        ("/a/*", b"/a/..;/b", False),
        ("*", b"/a/..;/b", True),
        ("/*", b"/a/..;/b", True),
        ("/a", b"/a//b", True),
        ("/a", b"/a/b.c/..d/e..", True),
        ("/a", b"/a/b-c_d~e!$&'()*+,=:@f", True),
    ],
)
def test_a_url(url: str, path: bytes, is_match: bool) -> None:
    """A URL matches itself and what is below it, unless a server might take that for another."""
    assert is_match == matches((url,), parse_attributes("GET", path).path)


@pytest.mark.parametrize(
    ("path", "is_match"),
    [
        ("*x", True),
        ("*", False),
        ("", False),
        ("/a/b/c", True),
        ("/a", False),
        ("//b", True),
        ("/bc/d", True),
        ("/bc" + 9999 * "/", True),
        ("/c" + 9999 * "/", False),
    ],
)
def test_several(path: str, is_match: bool) -> None:
    """One of them is enough; what is no path has to be named."""
    assert is_match == matches(("/a/b/*", "/bc", "//b", "*x"), path)


def test_all_beside_others() -> None:
    """A wildcard counts in any place."""
    assert matches(("/a", "*"), "*")
