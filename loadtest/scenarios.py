"""The settings in which isolation is measured, and users whose flows are told apart in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from apfproxy.flowcontrol.classifier import flow_hash
from apfproxy.flowcontrol.dealer import Dealer
from loadtest.processes import LoadTestError

OBJECTS = Path(__file__).with_name("manifests") / "one_level.yaml"
HASH_SEED = 1
"""Set for the proxy, so that this module knows which queues a user is dealt."""

CANDIDATES = 10_000


class Scenario(NamedTuple):
    """One setting of the proxy; `slots` is also how many requests the origin serves at once."""

    name: str
    title: str
    slots: int
    user_prefix: str
    flow_schema: str
    priority_level: str
    queues: int
    hand_size: int
    objects: Path | None

    def settings(self) -> str:
        """Give the settings file of the proxy."""
        suggested = "false" if self.objects else "true"
        return f"flowControl:\n  hashSeed: {HASH_SEED}\n  suggestedObjects: {suggested}\n"

    def arguments(self, settings: Path) -> list[str]:
        """Give the arguments of `apfproxy serve`, once `settings` is written to that path."""
        objects = ["--objects", str(self.objects)] if self.objects else []
        limit = ["--server-concurrency-limit", str(self.slots)]
        return [*limit, "--settings", str(settings), *objects]

    def users(self, count: int) -> list[str]:
        """Pick users whose flows share no queue, so that the queues divide the seats evenly.

        The seats are divided among the queues that wait, not among the flows: two flows that share
        a queue share its part too.  That is shuffle sharding's price, and not what is measured.

        Args:
            count: How many.

        Returns:
            Their names.

        Raises:
            LoadTestError: There are not so many.
        """
        dealer = Dealer(self.queues, self.hand_size)
        taken: set[int] = set()
        found: list[str] = []
        for number in range(CANDIDATES):
            user = f"{self.user_prefix}equal-{number}"
            hand = dealer.deal(flow_hash(HASH_SEED, self.flow_schema, user))
            if taken.isdisjoint(hand):
                taken.update(hand)
                found.append(user)
                if len(found) == count:
                    return found
        raise LoadTestError(
            f"{count} hands of {self.hand_size} among {self.queues} queues overlap; ask for fewer"
        )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="one-level",
            title="one priority level with all of 20 seats",
            slots=20,
            user_prefix="",
            flow_schema="everyone",
            priority_level="shared",
            queues=64,
            hand_size=8,
            objects=OBJECTS,
        ),
        Scenario(
            name="users",
            title="default objects, limit 100, users of global-default",
            slots=100,
            user_prefix="",
            flow_schema="global-default",
            priority_level="global-default",
            queues=128,
            hand_size=6,
            objects=None,
        ),
        Scenario(
            name="service-accounts",
            title="default objects, limit 100, service accounts of workload-low",
            slots=100,
            user_prefix="system:serviceaccount:default:",
            flow_schema="service-accounts",
            priority_level="workload-low",
            queues=128,
            hand_size=6,
            objects=None,
        ),
    )
}
