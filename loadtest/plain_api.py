"""Show that priorities of the preset http go first, beside HAProxy with priority classes.

An origin needs 50 ms for a request and serves 20 at once.  Before it stand, in turn,
HAProxy with a priority class for each level and `maxconn`, apfproxy with `--preset http` and as
many seats, which treats all users alike, and the same with FlowSchemas that give each user a level.
The scenes: `interactive` with 25 requests in flight beside 250 of `batch`; all four levels with 250
each; and a greedy customer of `interactive` with 250 beside five with 2.  `interactive` has to get
85 % of what HAProxy gives it, each level 5 % of all, and modest customers 3 times what HAProxy
gives them.

    python -m loadtest.plain_api --rounds 5 --seconds 5 --json plain_api.json
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

import uvloop

from loadtest.clients import Flow, drive
from loadtest.contenders import start_haproxy
from loadtest.processes import Proxy, start_origin
from loadtest.program import Parser, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from loadtest.processes import Process

JITTER_PERCENT = 20
HAPROXY, ALIKE, LEVELS = "haproxy", "alike", "levels"
PROXIES = (HAPROXY, ALIKE, LEVELS)
SEATS = 20
DELAY_MS = 50
"""So that all seats are fewer responses a second: what is shown does not depend on CPU time."""
LEAD_IN_S = 2.0
NAMES = ("interactive", "default", "batch", "background")
CUSTOMERS = tuple(f"interactive-{number}" for number in range(1, 6))
SCENES: dict[str, dict[str, int]] = {
    "beside batch": {"interactive": 25, "batch": 250},
    "all at once": dict.fromkeys(NAMES, 250),
    "customers": {"interactive-greedy": 250} | dict.fromkeys(CUSTOMERS, 2),
}
"""Name to users, who have the level that theirs begins with, and their requests in flight."""
FIRST_OF_HAPROXY = 0.85
LEAST_OF_ALL = 0.05
MODEST_OF_HAPROXY = 3
TABLE = Table("scene <18 | requests/s of <20 | haproxy >10.1f | alike >10.1f | levels >10.1f")

LEVEL_OF_USERS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: users-of-{level}}}
spec:
  matchingPrecedence: 500
  priorityLevelConfiguration: {{name: {level}}}
  distinguisherMethod: {{type: ByUser}}
  rules:
  - subjects: [{subjects}]
    nonResourceRules: [{{verbs: ["*"], nonResourceURLs: ["*"]}}]
---
"""
CLASSES = "\n".join(
    f"    http-request set-priority-class int({100 * place - 400})"
    f" if {{ hdr(X-Remote-User) -m beg {name} }}"
    for place, name in enumerate(NAMES)
)


def start(name: str, directory: Path, upstream_port: int, *, objects: str) -> Process:
    if name != HAPROXY:
        arguments = ["--preset", "http", "--server-concurrency-limit", str(SEATS)]
        if name == LEVELS:
            file = directory / "people.yaml"
            file.write_text(objects)
            arguments += ["--objects", str(file)]
        return Proxy(directory, [upstream_port], arguments=arguments)
    return start_haproxy(directory, upstream_port, rules=CLASSES, server=f" maxconn {SEATS}")


def measure(
    options: argparse.Namespace, directory: Path
) -> tuple[dict[str, dict[str, dict[str, float]]], list[str]]:
    objects = "".join(
        LEVEL_OF_USERS.format(
            level=level,
            subjects=", ".join(
                f"{{kind: User, user: {{name: {user}}}}}"
                for user in sorted({user for users in SCENES.values() for user in users})
                if user.startswith(level)
            ),
        )
        for level in NAMES
    )
    results: dict[str, dict[str, dict[str, float]]] = {}
    wrong: list[str] = []
    TABLE.head()
    arguments = ["--delay-ms", str(DELAY_MS), "--jitter-percent", str(JITTER_PERCENT)]
    arguments += ["--slots", str(SEATS)]
    with start_origin(directory=directory, arguments=arguments) as origin:
        for scene, users in SCENES.items():
            rates: dict[str, dict[str, list[float]]] = {user: {} for user in users}
            for _ in range(options.rounds):
                for proxy in PROXIES:
                    with start(proxy, directory, origin.port, objects=objects) as process:
                        found = rates_of(users, process.port, options.seconds)
                    for user, rate in found.items():
                        rates[user].setdefault(proxy, []).append(rate)
            medians = {
                user: {proxy: statistics.median(each) for proxy, each in by_proxy.items()}
                for user, by_proxy in rates.items()
            }
            results[scene] = medians
            for user, rate_of in medians.items():
                TABLE.row(scene, user, *(rate_of[proxy] for proxy in PROXIES))
            wrong += [f"{scene}: {each}" for each in judged(scene, medians)]
    return results, wrong


def rates_of(users: dict[str, int], port: int, seconds: float) -> dict[str, float]:
    flows = [Flow(user, count) for user, count in users.items()]
    uvloop.run(drive(flows, port=port, lead_in_s=LEAD_IN_S, seconds=seconds, may_starve=True))
    return {flow.user: flow.per_s(seconds) for flow in flows}


def judged(scene: str, rates: dict[str, dict[str, float]]) -> list[str]:
    total = sum(rate[LEVELS] for rate in rates.values())
    wrong = []
    for user, rate in rates.items():
        least = 0.0
        if user in NAMES:
            least = LEAST_OF_ALL * total
        if user == "interactive" and len(rates) == 2:
            least = FIRST_OF_HAPROXY * rate[HAPROXY]
        if user in CUSTOMERS:
            least = MODEST_OF_HAPROXY * rate[HAPROXY]
        if rate[LEVELS] < least:
            wrong.append(f"{user}: {rate[LEVELS]:.1f} responses a second, below {least:.1f}")
    order = [rates[name][LEVELS] for name in NAMES if name in rates]
    if scene == "all at once" and order != sorted(order, reverse=True):
        wrong.append("the levels are not in the order of their priorities")
    return wrong


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count_up_to(100), default=5, help="of each proxy")
    parser.add_argument("--seconds", type=count_up_to(3600), default=5, help="measured")
    options = parser.parse_args()
    return measured(options, measure, descriptors=2000)


if __name__ == "__main__":
    sys.exit(main())
