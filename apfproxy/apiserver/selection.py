"""Which objects of a collection a list or a watch is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.api.selectors.fields import FieldSelector
    from apfproxy.api.selectors.labels import LabelSelector
    from apfproxy.apiserver.store.entries import Entry


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected; "" and None are for all."""

    namespace: str = ""
    name: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all objects of the namespace, or of all, are selected."""
        return not self.name and self.labels is None and self.fields is None

    def matches(self, entry: Entry) -> bool:
        """Whether an object is selected."""
        return (
            (not self.namespace or entry.namespace == self.namespace)
            and (not self.name or entry.name == self.name)
            and (self.labels is None or self.labels.matches(entry.labels))
            and (self.fields is None or self.fields.matches(entry.fields))
        )
