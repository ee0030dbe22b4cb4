"""Measure what the live page costs a browser: its longest task, and whether anything jumps.

Serves the page over 8 levels of 128 queues that change with every update, each second, with
15 minutes of history from the start, and looks at it with headless Chromium.  Fails if a task of
the page takes more than 50 ms of a processor once it has loaded.  The browser's own long tasks are
told too; they are by the clock, so a machine with other work to do has some.

    python -m loadtest.live_page --seconds 20

Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from apfproxy.admin.admin import AdminPages
from apfproxy.admin.history import SAMPLES
from apfproxy.admin.state import Moment
from apfproxy.app.process import ProxyProcess
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket
from apfproxy.objects.types import FlowControlObject, QueuingConfiguration
from apfproxy.request.attributes import RequestAttributes, User, parse_attributes
from apfproxy.settings import Address, DownstreamSettings, FlowControlSettings, Settings
from loadtest.arguments import Parser, count_up_to
from loadtest.browser import Tab, chromium
from loadtest.objects import flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller


NAMES = ("batch", "controllers", "jobs", "leader-election", "nodes", "system", "tenants", "users")
QUEUES = 128
SEATS = 600
USERS = 40
TURN_S = 0.05
NS_PER_S = 1_000_000_000
MOST_MS = 50
TASK = "ThreadControllerImpl::RunTask"
ATTRIBUTES = parse_attributes("GET", b"/api/v1/namespaces/default/pods/p")

WATCH = """
window.measured = { tasks: [], shift: 0, frames: 0, updates: 0 };
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) measured.tasks.push([task.startTime, task.duration]);
}).observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) measured.shift += shift.value;
}).observe({ type: "layout-shift", buffered: true });
const frame = () => { measured.frames += 1; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
const Source = window.EventSource;
window.EventSource = class extends Source {
  constructor(url) {
    super(url);
    this.addEventListener("state", () => { measured.updates += 1; });
  }
};
"""
"""Runs before the page's own scripts; the browser reports tasks of 50 ms and more."""

RESET = "(measured.tasks = [], measured.shift = 0, measured.frames = 0, measured.updates = 0, true)"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the page shows of a request."""

    user_name: str
    attributes: RequestAttributes


class Crowd:
    """Users of every level, whose requests come and go by chance.

    Args:
        controller: Decides on them.
        rng: Chance.
    """

    def __init__(self, controller: Controller, rng: random.Random) -> None:
        self._controller = controller
        self._rng = rng
        self._under_way: dict[str, list[Ticket]] = {name: [] for name in NAMES}

    def __repr__(self) -> str:
        return f"<Crowd: {sum(map(len, self._under_way.values()))} requests>"

    def turn(self) -> None:
        """Let some requests end and others come."""
        rng = self._rng
        for name, tickets in self._under_way.items():
            queue_set = self._controller.levels[name].queue_set
            rng.shuffle(tickets)
            for _ in range(len(tickets) // 4):
                queue_set.finish(tickets.pop())
            for _ in range(rng.randrange(60)):
                user = User(f"user-{rng.randrange(USERS)}", (name,))
                flow = self._controller.classify(user, ATTRIBUTES).flow
                details = Asked(user.name, ATTRIBUTES)
                found = queue_set.admit(flow, ONE_SEAT, tickets.append, details)
                if isinstance(found, Ticket) and found.is_executing:
                    tickets.append(found)


def objects() -> list[FlowControlObject]:
    """Levels that borrow from one another, with a FlowSchema each."""
    queuing = QueuingConfiguration(queues=QUEUES, hand_size=6, queue_length_limit=50)
    made: list[FlowControlObject] = []
    for number, name in enumerate(NAMES):
        made.append(
            priority_level(
                name,
                shares=10 + 15 * number,
                queuing=queuing,
                lendable_percent=50,
                borrowing_limit_percent=None,
            )
        )
        made.append(flow_schema(name, name, group_subject(name)))
    return made


async def measure(profile: Path, seconds: int) -> dict[str, Any]:
    """Serve the page, look at it, and say what the browser saw.

    Args:
        profile: An empty folder for the browser.
        seconds: How long, once it has loaded.
    """
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(listen=Address(host="127.0.0.1", port=0)),
            flow_control=FlowControlSettings(server_concurrency_limit=SEATS),
            admin=None,
        )
    )
    await process.start()
    controller = process.cluster.controller
    controller.commit(controller.digest(objects()))
    crowd = Crowd(controller, random.Random(1))  # noqa: S311 - no secret
    pages, now_ns, now_s = AdminPages(process.states), time.monotonic_ns(), time.time()
    for second in range(-SAMPLES, 1):
        crowd.turn()
        state = await process.states.state()
        shown = Moment.of(state), state.clusters[0]
        pages.view("", *shown).history.take(*shown, now_ns + second * NS_PER_S, now_s + second)
    runner = web.AppRunner(pages.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        with chromium(profile, trace="toplevel") as driver:
            tab = Tab(driver)
            command = "Page.addScriptToEvaluateOnNewDocument"
            await asyncio.to_thread(driver.execute_cdp_cmd, command, {"source": WATCH})
            await tab.open(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            return await look(tab, crowd, controller, seconds)
    finally:
        await runner.cleanup()
        await process.stop()


async def look(tab: Tab, crowd: Crowd, controller: Controller, seconds: int) -> dict[str, Any]:
    """Keep the crowd moving while the page is looked at: what loading and showing it took."""

    async def move() -> None:
        while True:
            crowd.turn()
            controller.adjust_limits()
            await asyncio.sleep(TURN_S)

    task = asyncio.create_task(move())
    try:
        await tab.until("measured.updates > 5 && document.querySelector('.chips button')")
        loading = await tab.run("measured.tasks")
        await tab.run(RESET)
        begun_s = time.monotonic()
        await asyncio.sleep(seconds)
        seen: dict[str, Any] = await tab.run("measured")
        elapsed_s = time.monotonic() - begun_s
        before_ms, after_ms = busiest_ms(await tab.trace(), begun_s)
        return {
            **seen,
            "loading": loading,
            "loading_ms": before_ms,
            "showing_ms": after_ms,
            "errors": await tab.errors(),
            "elapsed_s": elapsed_s,
        }
    finally:
        task.cancel()


def busiest_ms(events: list[dict[str, Any]], begun_s: float) -> tuple[float, float]:
    """The milliseconds of a processor that the greatest task of the page took.

    Args:
        events: Of the trace; its clock is the system's monotonic one.
        begun_s: When the page had loaded.

    Returns:
        Before that, and after.
    """
    threads = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    before: dict[tuple[int, int], list[float]] = {thread: [0.0] for thread in threads}
    after: dict[tuple[int, int], list[float]] = {thread: [0.0] for thread in threads}
    for each in events:
        thread = each["pid"], each["tid"]
        if each["name"] == TASK and thread in threads and "tdur" in each:
            tasks = before if each["ts"] < begun_s * 1e6 else after
            tasks[thread].append(each["tdur"] / 1000)
    # The browser has pages of its own, which are idle by now.
    page = max(threads, key=lambda thread: sum(after[thread]))
    return max(before[page]), max(after[page])


def longest(tasks: list[list[float]]) -> str:
    """The longest of the long tasks, in words."""
    if not tasks:
        return f"none over {MOST_MS} ms"
    return f"{len(tasks)} over {MOST_MS} ms, the longest {max(each[1] for each in tasks):.0f} ms"


def main() -> int:
    """Measure and print; 1 if a task took too long or the page had errors."""
    parser = Parser(__doc__)
    parser.add_argument("--seconds", type=count_up_to(3600), default=20, metavar="N")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        seen = asyncio.run(measure(Path(profile), seconds))
    elapsed_s = seen["elapsed_s"]
    print(f"{len(NAMES)} levels of {QUEUES} queues, {elapsed_s:.0f} s")
    print(f"updates        {seen['updates'] / elapsed_s:.1f} a second")
    print(f"frames         {seen['frames'] / elapsed_s:.0f} a second")
    print(f"loading        {seen['loading_ms']:.0f} ms of a processor for the greatest task")
    print(f"showing        {seen['showing_ms']:.0f} ms of a processor for the greatest task")
    print(f"by the clock   loading {longest(seen['loading'])}; showing {longest(seen['tasks'])}")
    print(f"layout shift   {seen['shift']:.4f}")
    for error in seen["errors"]:
        print(f"console        {error}")
    return 1 if seen["showing_ms"] > MOST_MS or seen["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
