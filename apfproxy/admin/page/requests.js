// What waits and executes in the level that is looked at, oldest first.

import { ask } from "./ask.js";
import { byId, element, setShown, setText, visible } from "./dom.js";
import { count, duration } from "./numbers.js";

const PERIOD_MS = 2000;

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
      element("small", {}, `${request.flowSchema}${flow}`)),
    element("td", { role: "cell", class: "number" }, count(request.seats)),
    element("td", { role: "cell", class: "number" }, duration(request.seconds)));
}

/** "12 wait" or "1 waits", with how many of them are shown. */
function part(shown, total, verb) {
  const text = `${count(total)} ${verb}${total === 1 ? "s" : ""}`;
  return shown < total ? `${text} (the oldest ${count(shown)} are shown)` : text;
}

/** The table of requests; asks for them while it can be seen. */
export class Requests {
  #name = "";
  #isSeen = false;
  #isLive = false;
  #timer = 0;
  #asked = 0;

  constructor() {
    new IntersectionObserver(([entry]) => {
      this.#isSeen = entry.isIntersecting;
      this.#follow();
    }).observe(byId("level"));
  }

  /** Looks at a level. */
  set level(name) {
    if (name === this.#name) return;
    this.#name = name;
    this.#follow();
  }

  /** Whether there is a connection; without one the last requests stay. */
  set isLive(value) {
    if (value === this.#isLive) return;
    this.#isLive = value;
    this.#follow();
  }

  #follow() {
    clearTimeout(this.#timer);
    this.#asked += 1;
    if (this.#isSeen && this.#isLive && this.#name) this.#ask(this.#asked);
  }

  async #ask(asked) {
    try {
      const found = await ask("debug/live/requests", new URLSearchParams({ priorityLevel: this.#name }));
      if (asked === this.#asked) this.#show(found);
    } catch (error) {
      if (asked === this.#asked) this.#say(error.message);
    }
    if (asked === this.#asked) this.#timer = setTimeout(() => this.#follow(), PERIOD_MS);
  }

  #say(text) {
    setText(byId("requests-text"), text);
    setShown(byId("requests"), false);
  }

  #show({ waiting, executing, waitingCount, executingCount }) {
    if (waitingCount + executingCount === 0) return this.#say("Nothing waits or executes in this level.");
    setText(byId("requests-text"),
      `${part(waiting.length, waitingCount, "wait")}, ${part(executing.length, executingCount, "execute")}`);
    byId("request-rows").replaceChildren(
      ...waiting.map((request) => row(request, true)), ...executing.map((request) => row(request, false)));
    return setShown(byId("requests"), true);
  }
}
