"""Tests of `apfproxy.apiserver.lists`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.lists import Selection, page
from apfproxy.apiserver.options import ListOptions
from apfproxy.apiserver.selectors import parse_field_selector, parse_label_selector
from apfproxy.apiserver.store.entries import Entry
from apfproxy.apiserver.store.store import Store
from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site


async def test_pages(site: Site) -> None:
    """A list in pages gives every object once, and says how many are left."""
    for name in "abc":
        await site.send("POST", SCHEMAS, flow_schema(name))
    first = (await site.get(f"{SCHEMAS}?limit=2")).body
    token = first["metadata"]["continue"]
    second = (await site.get(f"{SCHEMAS}?limit=2&continue={token}")).body

    assert ["a", "b"] == [item["metadata"]["name"] for item in first["items"]]
    assert ["c"] == [item["metadata"]["name"] for item in second["items"]]
    assert 1 == first["metadata"]["remainingItemCount"]
    assert "continue" not in second["metadata"]


async def test_any_state_comes_whole(site: Site) -> None:
    """Who takes any state of a list gets all of it, whatever the limit."""
    for name in "abc":
        await site.send("POST", SCHEMAS, flow_schema(name))
    found = (await site.get(f"{SCHEMAS}?limit=2&resourceVersion=0")).body

    assert ["a", "b", "c"] == [item["metadata"]["name"] for item in found["items"]]
    assert "continue" not in found["metadata"]


async def test_shards(site: Site) -> None:
    """The selector of parts of a collection is ignored, as its feature is off."""
    await site.send("POST", SCHEMAS, flow_schema("a"))

    answer = (await site.get(f"{SCHEMAS}?shardSelector=nonsense")).body

    assert ["a"] == names(answer)
    assert "shardInfo" not in answer["metadata"]


def names(document: Any) -> list[str]:  # noqa: ANN401  JSON
    """Of the objects of a list."""
    return [item["metadata"]["name"] for item in document["items"]]


async def fill(site: Site, letters: str) -> int:
    """Create FlowSchemas; the version after them."""
    for name in letters:
        await site.send("POST", SCHEMAS, flow_schema(name, labels={"vowel": str(name in "ae")}))
    return site.store.resource_version


async def test_selectors(site: Site) -> None:
    """Labels and fields select, and pages of what is selected say not how much is left."""
    await fill(site, "abcde")
    vowels = (await site.get(f"{SCHEMAS}?labelSelector=vowel%3DTrue")).body
    begun = (await site.get(f"{SCHEMAS}?labelSelector=vowel%3DFalse&limit=2")).body
    token = begun["metadata"]["continue"]
    rest = (await site.get(f"{SCHEMAS}?labelSelector=vowel%3DFalse&limit=2&continue={token}")).body
    named = (await site.get(f"{SCHEMAS}?fieldSelector=metadata.name%3Db")).body
    exact = (await site.get(f"{SCHEMAS}?labelSelector=vowel%3DTrue&limit=2")).body

    assert ["a", "e"] == names(vowels) == names(exact)
    assert (["b", "c"], ["d"]) == (names(begun), names(rest))
    assert "remainingItemCount" not in begun["metadata"]
    assert "continue" not in exact["metadata"]
    assert ["b"] == names(named)


async def test_pages_are_of_one_state(site: Site) -> None:
    """What happens between two pages shows in neither, nor in the number of what is left."""
    version = await fill(site, "bcd")
    first = (await site.get(f"{SCHEMAS}?limit=1")).body
    await site.send("DELETE", f"{SCHEMAS}/c")
    await fill(site, "ae")
    token = first["metadata"]["continue"]
    second = (await site.get(f"{SCHEMAS}?limit=1&continue={token}")).body
    token = second["metadata"]["continue"]
    third = (await site.get(f"{SCHEMAS}?continue={token}")).body

    assert ["b", "c", "d"] == names(first) + names(second) + names(third)
    assert [2, 1] == [each["metadata"]["remainingItemCount"] for each in (first, second)]
    assert {str(version)} == {
        each["metadata"]["resourceVersion"] for each in (first, second, third)
    }


async def test_versions(site: Site) -> None:
    """A state that is exact, one at least as new, and one that pages are made of."""
    version = await fill(site, "a")
    await fill(site, "b")
    base = f"{SCHEMAS}?resourceVersion={version}"
    exact = (await site.get(f"{base}&resourceVersionMatch=Exact")).body
    newer = (await site.get(f"{base}&resourceVersionMatch=NotOlderThan")).body
    unsaid = (await site.get(base)).body
    paged = (await site.get(f"{base}&limit=5")).body
    newer_page = (await site.get(f"{base}&limit=1&resourceVersionMatch=NotOlderThan")).body

    assert ["a"] == names(exact) == names(paged)
    assert ["a", "b"] == names(newer) == names(unsaid)
    assert ["a"] == names(newer_page)
    assert 1 == newer_page["metadata"]["remainingItemCount"]
    assert str(version) == exact["metadata"]["resourceVersion"]
    assert str(version + 1) == newer["metadata"]["resourceVersion"]


@pytest.mark.parametrize("match", ["", "&resourceVersionMatch=Exact", "&limit=1"])
async def test_versions_that_are_yet_to_come(site: Site, match: str) -> None:
    """They are waited for, for three seconds."""
    began = asyncio.get_running_loop().time()
    answer = await site.get(f"{SCHEMAS}?resourceVersion=999{match}")

    assert (504, "Timeout") == answer.summary
    assert [("", "ResourceVersionTooLarge")] == answer.causes
    assert 1 == answer.body["details"]["retryAfterSeconds"]
    assert 3 == round(asyncio.get_running_loop().time() - began)


async def test_versions_that_come(site: Site) -> None:
    """A list of a state that comes in time is answered with it."""
    version = site.store.resource_version + 1
    listing = asyncio.create_task(site.get(f"{SCHEMAS}?resourceVersion={version}"))
    await asyncio.sleep(0)
    await fill(site, "a")

    assert ["a"] == names((await listing).body)


def entry(number: int) -> dict[str, Any]:
    """What to store of an object."""
    name = f"f{number}"
    return {"metadata": {"name": name, "uid": name}}


async def test_states_that_are_gone() -> None:
    """410; a page gets a token with which to go on, of whatever state there is then."""
    store = Store(window=8)
    collection = store.collection("things")

    def put(number: int) -> None:
        store.put("things", entry(number), {})

    for number in range(3):
        put(number)
    token = (await page(store, collection, Selection(), ListOptions(limit=1))).metadata["continue"]
    for number in range(1, 40):
        put(number % 5)
    exact = ListOptions(resource_version="2", resource_version_match="Exact")
    with pytest.raises(StatusError) as gone:
        await page(store, collection, Selection(), exact)
    with pytest.raises(StatusError) as expired:
        await page(store, collection, Selection(), ListOptions(continue_token=token))
    status = expired.value.status()
    again = await page(
        store,
        collection,
        Selection(),
        ListOptions(limit=2, continue_token=status["metadata"]["continue"]),
    )

    assert (410, "Expired") == (gone.value.code, gone.value.reason)
    assert {} == gone.value.status()["metadata"]
    assert (410, "Expired") == (status["code"], status["reason"])
    assert ["f1", "f2"] == [each.name for each in again.entries]
    assert str(store.resource_version) == again.metadata["resourceVersion"]
    assert 2 == again.metadata["remainingItemCount"]


async def test_empty_lists(site: Site) -> None:
    """A list of nothing has a version all the same, and may be gone on with by nobody."""
    empty = (await site.get(f"{SCHEMAS}?limit=5")).body
    bad = await site.get(f"{SCHEMAS}?continue=x")

    assert [] == empty["items"]
    assert {"resourceVersion": str(site.store.resource_version)} == empty["metadata"]
    assert (400, "BadRequest") == bad.summary


ENTRY = Entry("pods", "n", "p", 7, "u-1", {"app": "web"}, {"metadata.name": "p"}, b"{}")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(Selection(), True, id="all"),
        pytest.param(Selection(namespace="n"), True, id="namespace"),
        pytest.param(Selection(namespace="m"), False, id="other-namespace"),
        pytest.param(Selection(name="p"), True, id="name"),
        pytest.param(Selection(name="q"), False, id="other-name"),
        pytest.param(Selection(labels=parse_label_selector("app=web")), True, id="labels"),
        pytest.param(Selection(labels=parse_label_selector("app!=web")), False, id="other-labels"),
        pytest.param(Selection(fields=parse_field_selector("metadata.name=p")), True, id="fields"),
        pytest.param(
            Selection(fields=parse_field_selector("metadata.name!=p")), False, id="other-fields"
        ),
    ],
)
def test_matches(selection: Selection, expected: bool) -> None:
    """An object is selected if it is what every part asks for."""
    assert expected == selection.matches(ENTRY)


def test_is_whole() -> None:
    """Only a namespace leaves nothing out of it."""
    assert Selection(namespace="n").is_whole
    assert not Selection(name="p").is_whole
    assert not Selection(labels=parse_label_selector("a")).is_whole
