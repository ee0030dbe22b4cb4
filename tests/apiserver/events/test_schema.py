"""Tests of `apfproxy.apiserver.events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.events import EVENT_V1, shown_form, stored_form
from apfproxy.apiserver.schema.reading import canonical
from tests.apiserver.schema.protobuf_writer import some_object

if TYPE_CHECKING:
    import random


@given(chance=st.randoms(use_true_random=False))
def test_both_forms(chance: random.Random) -> None:
    """An event says the same in both forms, and is itself again after the way back."""
    event = canonical(EVENT_V1, some_object(EVENT_V1, chance, 0.5))
    stored = stored_form(event)

    assert event == shown_form(stored)
    assert event["regarding"] == stored["involvedObject"]
    assert event.get("note") == stored.get("message")
