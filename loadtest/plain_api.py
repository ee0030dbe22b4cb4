"""Show that the preset http isolates clients of a plain API as well as HAProxy, and at once.

An origin needs 20 ms for a request and serves 20 at once.  Before it stand, in turn, HAProxy with
`maxconn 20` and a better priority class for the modest client; apfproxy with `--preset http` and 20
seats, which treats both clients alike; and the same with a FlowSchema that gives the modest client
the level `interactive`, as HAProxy's configuration names it, too.  As soon as the proxy listens, a
greedy client keeps 150 requests in flight and a modest one 2.  The throughput of each is counted in
the first second, which begins with the first request, and in the seconds after.  The proxies take
turns, several rounds, and medians are compared with HAProxy's: of the modest client all of it, or
95 % where it is treated like the other; of the greedy one 90 %.

    python -m loadtest.plain_api --rounds 5 --seconds 5 --json plain_api.json
"""

from __future__ import annotations

import statistics
import sys
from time import monotonic
from typing import TYPE_CHECKING

import uvloop

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.driver import Flow, drive
from loadtest.processes import Process, free_ports, start_apfproxy, start_origin
from loadtest.program import measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

SEATS = 20
DELAY_MS = 20
JITTER_PERCENT = 20
GREEDY, MODEST = ("greedy", 150), ("modest", 2)
"""Names, and requests in flight."""
HAPROXY, ALIKE, LEVELS = "haproxy", "alike", "levels"
PROXIES = (HAPROXY, ALIKE, LEVELS)
FIRST, AFTER = "first second", "after"
LEAST = {
    ALIKE: {MODEST[0]: 0.95, GREEDY[0]: 0.9},
    LEVELS: {MODEST[0]: 1.0, GREEDY[0]: 0.9},
}
"""Of HAProxy's throughput.  A client that is treated like others waits for its turn, which is the
next; a proxy in Python adds some tenths of a millisecond to 20."""

INTERACTIVE = f"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: people}}
spec:
  matchingPrecedence: 500
  priorityLevelConfiguration: {{name: interactive}}
  distinguisherMethod: {{type: ByUser}}
  rules:
  - subjects: [{{kind: User, user: {{name: {MODEST[0]}}}}}]
    nonResourceRules: [{{verbs: ["*"], nonResourceURLs: ["*"]}}]
"""

HAPROXY_CONFIG = """
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout queue 60s
    http-reuse always
frontend clients
    bind 127.0.0.1:{port} backlog 4096
    http-request set-priority-class int(-100) if {{ hdr(X-Remote-User) -m str modest }}
    default_backend origin
backend origin
    server origin 127.0.0.1:{upstream_port} maxconn {seats}
"""


def start(name: str, directory: Path, upstream_port: int) -> Process:
    """Start one of the proxies; LoadTestError if it does not start."""
    if name != HAPROXY:
        arguments = ["--preset", "http", "--server-concurrency-limit", str(SEATS)]
        if name == LEVELS:
            objects = directory / "people.yaml"
            objects.write_text(INTERACTIVE)
            arguments += ["--objects", str(objects)]
        process, _ = start_apfproxy(
            upstream_port=upstream_port, directory=directory, arguments=arguments
        )
        return process
    (port,) = free_ports(1)
    config = directory / "haproxy.cfg"
    config.write_text(HAPROXY_CONFIG.format(port=port, upstream_port=upstream_port, seats=SEATS))
    argv = ["haproxy", "-db", "-f", str(config)]
    return Process(HAPROXY, argv, port=port, directory=directory)


def loaded(port: int, seconds: float) -> dict[str, dict[str, float]]:
    """Load a proxy: client to part of the time to answers a second."""
    flows = [Flow(*GREEDY), Flow(*MODEST)]
    begun_s = monotonic()
    uvloop.run(drive(flows, port=port, lead_in_s=0, seconds=1 + seconds))
    return {
        flow.user: {
            FIRST: float(sum(each < begun_s + 1 for each in flow.answered_s)),
            AFTER: sum(0 <= each - begun_s - 1 < seconds for each in flow.answered_s) / seconds,
        }
        for flow in flows
    }


def measure(
    options: argparse.Namespace, directory: Path
) -> tuple[dict[str, dict[str, dict[str, float]]], list[str]]:
    """Medians by proxy, client and part of the time, and what is below its limit."""
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in PROXIES}
    arguments = ["--delay-ms", str(DELAY_MS), "--jitter-percent", str(JITTER_PERCENT)]
    arguments += ["--slots", str(SEATS)]
    with start_origin(directory=directory, arguments=arguments) as origin:
        for number in range(options.rounds):
            for name in PROXIES if number % 2 else reversed(PROXIES):
                with start(name, directory, origin.port) as process:
                    rounds[name].append(loaded(process.port, options.seconds))
    medians = {
        name: {
            user: {
                part: statistics.median(each[user][part] for each in found)
                for part in (FIRST, AFTER)
            }
            for user, _ in (MODEST, GREEDY)
        }
        for name, found in rounds.items()
    }
    print(f"{'':14}{'':14}{HAPROXY:>9}{ALIKE:>9}{LEVELS:>9}   answers a second, medians")
    wrong = []
    for user, _ in (MODEST, GREEDY):
        for part in (FIRST, AFTER):
            numbers = [medians[name][user][part] for name in PROXIES]
            cells = "".join(f"{number:>9.1f}" for number in numbers)
            ratios = [number / numbers[0] for number in numbers[1:]]
            print(f"{user:14}{part:14}{cells}   {ratios[0]:.3f}, {ratios[1]:.3f} of HAProxy's")
            wrong += [
                f"{user}, {part}, {name}: {ratio:.3f} of HAProxy's, below {LEAST[name][user]}"
                for name, ratio in zip(PROXIES[1:], ratios, strict=True)
                if ratio < LEAST[name][user]
            ]
    return medians, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit status, 2 if a limit is not met."""
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count_up_to(100), default=5, help="of each proxy")
    parser.add_argument("--seconds", type=count_up_to(3600), default=5, help="after the first")
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the medians there"
    )
    options = parser.parse_args(arguments)
    return measured(
        "plain_api",
        lambda directory: measure(options, directory),
        descriptors=2000,
        json_file=options.json,
    )


if __name__ == "__main__":
    sys.exit(main())
