// What waits and executes in the level that is looked at, oldest first.

import { ask } from "./ask.js";
import { byId, element, setShown, setText, visible } from "./dom.js";
import { count, duration } from "./numbers.js";

/** A request as a row. */
function row(request, isWaiting) {
  const flow = request.flow && request.flow !== request.user ? `, flow ${request.flow}` : "";
  const queue = request.queue === null ? "" : `, queue ${request.queue}`;
  const worker = request.worker ? `, worker ${request.worker}` : "";
  const asked = `${request.verb} ${request.path}`;
  return element("tr", { role: "row", class: isWaiting ? "waits" : false },
    element("th", { role: "rowheader", scope: "row" },
      element("span", { class: "name", title: visible(request.user) }, request.user || "–"),
      element("small", {}, `${isWaiting ? "waits" : "executes"}${queue}${worker}`)),
    element("td", { role: "cell" },
      element("span", { class: "name mono", title: visible(asked) }, asked),
      element("small", { title: visible(`${request.flowSchema}${flow}`) }, `${request.flowSchema}${flow}`)),
    element("td", { role: "cell", class: "number" }, count(request.seats)),
    element("td", { role: "cell", class: "number" }, duration(request.seconds)));
}

/** "12 wait" or "1 waits", with how many of them are shown. */
function part(shown, total, verb) {
  const text = `${count(total)} ${verb}${total === 1 ? "s" : ""}`;
  return shown < total ? `${text} (the oldest ${count(shown)} are shown)` : text;
}

/** How many wait and execute. */
function counts(waiting, executing, shownWaiting = waiting, shownExecuting = executing) {
  if (waiting + executing === 0) return "Nothing waits or executes in this level.";
  return `${part(shownWaiting, waiting, "wait")}, ${part(shownExecuting, executing, "execute")}`;
}

/** The table of requests; asks for them with each state while it can be seen. */
export class Requests {
  #level = null;
  #isSeen = false;
  #isLive = false;
  #asked = 0;
  #isAsking = false;

  constructor() {
    new IntersectionObserver(([entry]) => {
      this.#isSeen = entry.isIntersecting;
      this.#follow();
    }).observe(byId("level"));
  }

  /** Looks at a level, as the newest state has it. */
  set level(level) {
    const isSame = level?.name === this.#level?.name;
    this.#level = level;
    if (!isSame || !this.#isAsking) this.#follow();
  }

  /** Whether there is a connection; without one the last requests stay. */
  set isLive(value) {
    if (value === this.#isLive) return;
    this.#isLive = value;
    this.#follow();
  }

  #follow() {
    this.#asked += 1;
    this.#isAsking = false;
    if (!this.#isLive || this.#level === null) return;
    if (this.#isSeen) this.#ask(this.#asked);
    else this.#say(counts(this.#level.waiting, this.#level.executing));
  }

  async #ask(asked) {
    this.#isAsking = true;
    try {
      const found = await ask("debug/live/requests", new URLSearchParams({ priorityLevel: this.#level.name }));
      if (asked === this.#asked) this.#show(found);
    } catch (error) {
      if (asked === this.#asked) this.#say(error.message);
    }
    if (asked === this.#asked) this.#isAsking = false;
  }

  #say(text) {
    setText(byId("requests-text"), text);
    setShown(byId("requests"), false);
  }

  #show({ waiting, executing, waitingCount, executingCount }) {
    this.#say(counts(waitingCount, executingCount, waiting.length, executing.length));
    byId("request-rows").replaceChildren(
      ...waiting.map((request) => row(request, true)), ...executing.map((request) => row(request, false)));
    setShown(byId("requests"), waitingCount + executingCount > 0);
  }
}
