"""Tests of strategic merge patches."""

from __future__ import annotations

import copy
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.patch.strategic import strategic_merge
from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, Struct
from tests.apiserver.ownership.schemas import rows

PORT = Struct("Port", (Field("port", Scalar.INT32), Field("name", Scalar.STRING)))
ITEM = Struct(
    "Item",
    (
        Field("name", Scalar.STRING),
        Field("value", Scalar.INT32),
        Field("args", List(Scalar.STRING)),
        Field("ports", List(PORT, ListType.MAP, ("port",), "port", is_merged=True)),
    ),
)
SCHEMA = Struct(
    "Thing",
    (
        Field("name", Scalar.STRING),
        Field("size", Scalar.INT32),
        Field("labels", Map(Scalar.STRING)),
        Field("inner", ITEM),
        Field("whole", ITEM, is_replaced=True),
        Field("by_name", Map(ITEM)),
        Field("items", List(ITEM, ListType.MAP, ("name",), "name", is_merged=True)),
        Field("plain", List(ITEM)),
        Field("keyless", List(ITEM, is_merged=True)),
        Field("words", List(Scalar.STRING, ListType.SET, is_merged=True)),
        Field("any", Scalar.ANY),
        Field("open", Struct("Open", (), keeps_unknown=True)),
    ),
)
INSTRUCTIONS = {
    "$order/": "$setElementOrder/",
    "$delete/": "$deleteFromPrimitiveList/",
    "DELETE": "$patch: delete",
    "REPLACE": "$patch: replace",
}


def read(cell: str) -> Any:  # noqa: ANN401  JSON
    """The value of a cell in YAML, in which `<ab>` stands for the items of these names."""
    for short, long in INSTRUCTIONS.items():
        cell = cell.replace(short, long)
    found = re.sub("<(.*?)>", lambda text: str([{"name": name} for name in text[1]]), cell)
    return msgspec.yaml.decode(found)


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    rows("""
value                | {size: 1}               | {size: 2}                  | {size: 2}
null                 | {size: 1}               | {size: null, name: null}   | {}
another type         | {size: 1}               | {size: a}                  | {size: a}
unknown field        | {}                      | {bogus: {a: 1}}            | {bogus: {a: 1}}
map                  | {labels: {a: 1, b: 2}}  | {labels: {b: null, c: 3}}  | {labels: {a: 1, c: 3}}
null in nothing      | {}                      | {labels: {b: null}}        | {labels: {}}
no map               | {labels: null}          | {labels: {a: 1}}           | {labels: {a: 1}}
no type | {any: {a: {b: 1}}} | {any: {a: {b: null, d: [1]}}} | {any: {a: {d: [1]}}}
list without type    | {any: {a: [1]}}         | {any: {a: [2]}}            | {any: {a: [2]}}
kept field | {open: {a: {b: 1}}} | {open: {a: {c: 1}}} | {open: {a: {b: 1, c: 1}}}
map of objects | {by_name: {a: {value: 1}}} | {by_name: {a: {name: b}}}
| {by_name: {a: {value: 1, name: b}}}
replaced struct      | {whole: {name: a}}      | {whole: {value: 1}}        | {whole: {value: 1}}
items | {items: [{name: a, value: 1}]} | {items: [{name: a, args: [x]}]}
| {items: [{name: a, value: 1, args: [x]}]}
new item twice | {items: <a>} | {items: [{name: b, value: null}, {name: b, value: 2}]}
| {items: [{name: b, value: 2}, {name: a}]}
items by number | {inner: {ports: [{port: 1, name: a}, {port: 2}]}}
| {inner: {ports: [{port: 1, DELETE}, {port: 3}]}} | {inner: {ports: [{port: 3}, {port: 2}]}}
no items             | {items: <a>}            | {items: []}                | {items: <a>}
no items at all      | {items: []}             | {items: []}                | {items: []}
atomic               | {plain: <a>}            | {plain: <b>}               | {plain: <b>}
set                  | {words: [b, a]}         | {words: [c, a]}            | {words: [c, b, a]}
delete from set      | {words: [a, b, c]}      | {$delete/words: [a, c, d]} | {words: [b]}
delete from nothing  | {}                      | {$delete/words: [a]}       | {}
delete no list       | {words: [a]}            | {$delete/words: a}         | {words: [a]}
replace object       | {inner: {name: a}}      | {inner: {REPLACE, value: 2}} | {inner: {value: 2}}
delete object        | {inner: {name: a}}      | {inner: {DELETE}}          | {inner: {}}
delete nothing       | {}                      | {inner: {DELETE}}          | {}
delete another type  | {inner: 1}              | {inner: {DELETE}}          | {}
delete new item | {} | {items: [{name: a, DELETE}, {name: b}]} | {items: <b>}
delete item | {items: <ab>} | {items: [{name: a, DELETE}, {name: c, DELETE}]} | {items: <b>}
replace list         | {items: <ab>}           | {items: [{REPLACE}, {name: c}]} | {items: <c>}
empty list           | {items: <ab>}           | {items: [{REPLACE}]}       | {items: []}
retain keys | {inner: {name: a, value: 1, args: [x]}}
| {inner: {$retainKeys: [name, value], value: 2, args: null}} | {inner: {name: a, value: 2}}
order alone          | {items: <ab>}           | {$order/items: <ba>}       | {items: <ba>}
order of some        | {items: <abcd>}         | {$order/items: <db>}       | {items: <acdb>}
order with others    | {items: <xab>}          | {$order/items: <ba>}       | {items: <xba>}
order of new item    | {items: <axb>}          | {$order/items: <acb>, items: <c>} | {items: <acxb>}
order of new list    | {}                      | {$order/items: <ba>, items: <ba>} | {items: <ba>}
order of nothing     | {}                      | {$order/items: <a>}        | {}
order of set | {words: [a, b, c]} | {$order/words: [c, d, a], words: [d]} | {words: [b, c, d, a]}
order of null | {words: null} | {$order/words: [], plain: <b>} | {words: null, plain: <b>}
order with deletion | {items: <ab>} | {$order/items: <cb>, items: [{name: a, DELETE}, {name: c}]}
| {items: <cb>}
order of unknown     | {open: {x: <ab>}}       | {open: {$order/x: <c>, x: <c>}} | {open: {x: <c>}}
order of unknown kept | {open: {x: <ab>}}      | {open: {$order/x: <ba>}}   | {open: {x: <ab>}}
"""),
)
def test_strategic_merge(obj: str, patch: str, expected: str) -> None:
    """Members, items and instructions are merged; neither object nor patch is changed."""
    given_ = read(obj), read(patch)
    before = copy.deepcopy(given_)

    assert read(expected) == strategic_merge(SCHEMA, *given_)
    assert before == given_


def to_become(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A plain patch that makes one object of another, as clients make it."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = to_become(before, value)
        elif isinstance(value, list) and before and name != "args":
            items = {item["name"]: item for item in before}
            names = [item["name"] for item in value]
            patch[name] = [
                *({"name": each, "$patch": "delete"} for each in items if each not in names),
                *(to_become(items.get(item["name"], {}), item) | item for item in value),
            ]
            patch[f"$setElementOrder/{name}"] = [{"name": each} for each in names]
        else:
            patch[name] = value
    return patch


texts = st.sampled_from("abcd")
item = st.fixed_dictionaries(
    {"name": texts},
    optional={"value": st.integers(0, 2), "args": st.lists(texts, max_size=2)},
)
things = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "labels": st.dictionaries(texts, texts),
        "inner": item,
        "by_name": st.dictionaries(texts, item, max_size=2),
        "items": st.lists(item, unique_by=lambda each: each["name"]),
        "any": st.dictionaries(texts, texts | st.dictionaries(texts, texts)),
    },
)


@given(things, things)
def test_patches_make_what_they_are_made_from(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A patch made of a difference makes the other object, however often it is applied."""
    patch = to_become(old, new)
    patched = strategic_merge(SCHEMA, old, patch)

    assert new == patched
    assert new == strategic_merge(SCHEMA, patched, patch)


names = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(live=names, patch=names)
def test_order_of_patch(live: list[str], patch: list[str]) -> None:
    """The patch's items have its order, all others theirs, and none is lost."""
    old, change = ([{"name": name} for name in each] for each in (live, patch))
    merged = [
        each["name"] for each in strategic_merge(SCHEMA, {"items": old}, {"items": change})["items"]
    ]

    assert set(merged) == {*live, *patch}
    assert patch == [name for name in merged if name in patch]
    assert [name for name in live if name not in patch] == [
        name for name in merged if name not in patch
    ]


@pytest.mark.parametrize(
    ("obj", "patch", "code", "message"),
    rows("""
directive | {} | {$patch: merge} | 500 | unknown patch type: merge in map
retain | {} | {$retainKeys: a} | 400 | invalid patch format of retainKeys
not retained | {} | {$retainKeys: [a], size: 1} | 400 | invalid patch format of retainKeys
no order     | {}            | {$setElementOrderX/a: []}     | 400 | format of setElementOrder list
order | {} | {$order/items: 1} | 500 | expected a []interface {}, but received a 1
order's list | {items: []} | {$order/items: [], items: {}} | 500
| expected a []interface {}, but received a {}
not in order | {}            | {$order/items: <a>, items: <b>} | 500 | The order in patch list
other order  | {}            | {$order/items: <ab>, items: <ba>} | 500 | The order in patch list
order of any | {} | {$order/bogus: [], bogus: [1]} | 500 | unable to find api field in struct
no map       | {items: <a>}  | {$order/items: [a], items: <a>} | 500 | but received a "a"
deletion | {} | {$deleteFromPrimitiveList: []} | 400 | invalid patch format of primitive list
no key | {items: <a>} | {items: [{value: 1}]} | 500 | map: {"value": 1} does not contain declared
bad key      | {items: <a>}  | {items: [{name: {}}]}         | 500 | no value to compare items by
other type | {items: <a>} | {items: [a]} | 500 | list element types are not identical
merging      | {items: <a>}  | {items: [{$patch: merge}]}    | 500 | merging lists cannot yet
unknown      | {items: <a>}  | {items: [{$patch: null}]}     | 500 | unknown patch type: null
list of list | {words: [a]} | {words: [[a]]} | 422 | lists of lists are not supported
keyless | {keyless: <a>} | {keyless: <a>} | 500 | cannot merge lists without merge
no field | {bogus: {}} | {bogus: {}} | 500 | in struct Thing for the json field "bogus"
"""),
)
def test_refused(obj: str, patch: str, code: str, message: str) -> None:
    """What cannot be followed is refused, with Kubernetes' status."""
    with pytest.raises(StatusError, match=re.escape(message)) as caught:
        strategic_merge(SCHEMA, read(obj), read(patch))

    assert int(code) == caught.value.code
