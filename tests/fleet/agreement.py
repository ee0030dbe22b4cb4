"""Holds what every store has to do, as one test each kind runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored
from tests.support.clocks import until

if TYPE_CHECKING:
    from apfproxy.fleet.store import LedgerStore


async def agrees(one: LedgerStore, other: LedgerStore) -> None:
    nothing = await one.read()
    assert Stored(None, "") == nothing

    first = await one.swap(b"1", nothing)
    assert first.is_done
    assert b"1" == first.stored.data
    assert first.stored == await other.read()

    # Anyone who has not seen it gets it instead.
    late = await other.swap(b"2", nothing)
    assert not late.is_done
    assert first.stored == late.stored

    second = await other.swap(b"2", late.stored)
    assert second.is_done
    assert second.stored.version not in {"", first.stored.version}
    assert not (await one.swap(b"3", first.stored)).is_done

    # The same bytes again are another write.
    again = await one.swap(b"2", second.stored)
    assert again.is_done
    assert not (await other.swap(b"4", second.stored)).is_done

    longest = b"x" * (MAX_RECORD_BYTES // 2)
    assert (await one.swap(longest, again.stored)).is_done
    assert longest == (await other.read()).data


async def count_up(store: LedgerStore, times: int) -> None:
    seen = await store.read()
    done = 0
    while done < times:
        swapped = await store.swap(b"%d" % (int(seen.data or b"0") + 1), seen)
        seen = swapped.stored
        done += swapped.is_done


async def loses_no_write(stores: list[LedgerStore], times: int = 20) -> None:
    await asyncio.gather(*(count_up(each, times) for each in stores))
    assert b"%d" % (times * len(stores)) == (await stores[0].read()).data


class Told:
    def __init__(self, store: LedgerStore) -> None:
        self.count = 0
        store.listen(self._on_urgent)

    def _on_urgent(self) -> None:
        self.count += 1

    async def reaches(self, count: int) -> None:
        await until(lambda: self.count >= count)
