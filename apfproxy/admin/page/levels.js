// The priority levels: a row each, those in need first, idle ones folded.

import { byId, element, setShown, setSpan, setText } from "./dom.js";
import { count, duration, rate } from "./numbers.js";

const SPANS = ["range", "lent", "borrowed", "used", "over"];
const MARKS = ["nominal", "current"];
const HEADROOM = 1.02;
const LARGEST_BOUND_S = 30; // of a wait, in the metrics
const RANKS = { rejects: 0, waits: 1, works: 2, idle: 3 };
const HOLD_S = 10; // a level stays in its place for so long after it got better: else rows would jump
const IDLE_AFTER_S = 60;
const LEAST_FOLDED = 2;

const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0);

/** How long what waits has waited, or what nearly all requests of a second waited at most. */
function waitText(level, second) {
  if (level.waiting && level.oldestWaitSeconds) return `up to ${duration(level.oldestWaitSeconds)}`;
  if (!second?.waitSeconds || second.waitP99Seconds === 0) return "\u00a0";
  const bound = second.waitP99Seconds;
  if (bound === null) return `99 % beyond ${LARGEST_BOUND_S} s`; // which JSON cannot say otherwise
  return `99 % in ${duration(bound)}`;
}

/** What the level has of its own, and of others. */
function seatsText(level) {
  if (level.type === "Exempt") return "no limit, never waits";
  const own = `${count(level.nominal)} own`;
  const moved = level.lent ? ` − ${count(level.lent)} lent` : level.borrowed ? ` + ${count(level.borrowed)} borrowed` : "";
  const range = level.min === level.max ? "always" : `${count(level.min)} to ${count(level.max)}`;
  return `${own}${moved}; ${range}`;
}

class Row {
  constructor(name, onLevel) {
    this.parts = Object.fromEntries([...SPANS, ...MARKS].map((part) => [part, element("span", { class: part })]));
    this.bar = element("div", { class: "bar", "aria-hidden": "true" });
    this.bar.append(...Object.values(this.parts));
    this.tag = element("span", { class: "tag", hidden: true });
    this.has = element("small");
    this.seats = element("b");
    this.limit = element("span");
    this.executing = element("small");
    this.waiting = element("b");
    this.wait = element("small");
    this.served = element("b");
    this.total = element("small");
    this.rejected = element("b");
    this.rejectedTotal = element("small");
    const cell = (label, ...children) =>
      element("td", { role: "cell", class: "number", "data-label": label }, ...children);
    this.button = element("button", { type: "button", class: "name", title: `${name}: show its requests and queues` }, name);
    this.button.addEventListener("click", () => onLevel(name));
    this.row = element("tr", { role: "row", "data-level": name },
      element("th", { role: "rowheader", scope: "row" }, this.button, this.tag),
      element("td", { role: "cell", class: "bar-cell" }, this.bar, this.has),
      cell("In use", this.seats, this.limit, this.executing),
      cell("Waiting", this.waiting, this.wait),
      cell("Served/s", this.served, this.total),
      cell("Rejected/s", this.rejected, this.rejectedTotal));
  }

  show(level, second, scale) {
    const isExempt = level.type === "Exempt";
    setShown(this.bar, !isExempt);
    if (!isExempt) this.#showBar(level, scale);
    const tag = level.isQuiescing ? "drains" : isExempt ? "exempt" : "";
    setText(this.tag, tag);
    setShown(this.tag, tag !== "");
    setText(this.has, seatsText(level));
    this.has.title = isExempt ? "" : "Its own seats, those it lends or borrows now, and between what the limit moves";
    setText(this.seats, count(level.seatsInUse));
    setText(this.limit, isExempt ? "" : ` of ${count(level.current)}`);
    setText(this.executing, level.executing === 1 ? "1 request" : `${count(level.executing)} requests`);
    setText(this.waiting, count(level.waiting));
    setText(this.wait, waitText(level, second));
    setText(this.served, rate(level.servedPerSecond));
    const isFailing = level.failedPerSecond > 0;
    setText(this.total, isFailing ? `${rate(level.failedPerSecond)}/s failed` : `${count(level.dispatched - level.failed)} in all`);
    const rejected = sum(level.rejectedPerSecond);
    setText(this.rejected, rate(rejected));
    const { rejected: all, cancelled: left } = level;
    setText(this.rejectedTotal, [all && `${count(all)} in all`, left && `${count(left)} left`].filter(Boolean).join(", ") || "\u00a0");
    this.rejectedTotal.title = left ? "left: clients that gave up as they waited, which are not rejected" : "";
    this.row.classList.toggle("busy", level.waiting > 0);
    this.row.classList.toggle("rejects", rejected > 0);
    this.row.classList.toggle("fails", isFailing);
  }

  #showBar(level, scale) {
    const inside = Math.min(level.seatsInUse, level.nominal);
    const spans = {
      range: [level.min, Math.min(level.max, scale)],
      lent: [level.current, level.nominal],
      borrowed: [level.nominal, level.current],
      used: [0, inside],
      over: [level.nominal, level.seatsInUse],
    };
    for (const part of SPANS) {
      const [from, to] = spans[part];
      const left = Math.min(1, from / scale);
      const width = Math.max(0, Math.min(1, to / scale) - left);
      setSpan(this.parts[part], left, width);
    }
    setSpan(this.parts.nominal, Math.min(1, level.nominal / scale), 1);
    setSpan(this.parts.current, Math.min(1, level.current / scale), 1);
  }
}

/** The table of levels; calls back with the name of a level that somebody wants to look into. */
export class Levels {
  #rows = new Map();
  #body = byId("level-rows");
  #ownScale = byId("own-scale");
  #fold = byId("idle-levels");
  #held = new Map(); // name to its worst rank lately and until when it has it
  #order = "";

  constructor(onLevel) {
    this.onLevel = onLevel;
    this.#fold.addEventListener("click", () => {
      const isOpen = this.#fold.getAttribute("aria-expanded") !== "true";
      this.#fold.setAttribute("aria-expanded", String(isOpen));
      this.#order = "";
      this.#arrange();
    });
  }

  /** The name of the level that is worst off. */
  get worst() {
    return this.sorted?.[0]?.name;
  }

  show(levels, secondOf, isIdleFor, nowS) {
    const limited = levels.filter((level) => level.type !== "Exempt");
    const wanted = (level) => Math.max(level.nominal, level.current, level.seatsInUse, 1);
    const common = Math.max(1, ...limited.map(wanted));
    const names = new Set(levels.map((level) => level.name));
    for (const [name, row] of this.#rows) {
      if (names.has(name)) continue;
      row.row.remove();
      this.#rows.delete(name);
      this.#held.delete(name);
    }
    const ranks = new Map(levels.map((level) => [level.name, this.#rank(level, isIdleFor, nowS)]));
    this.sorted = [...levels].sort((one, two) =>
      ranks.get(one.name) - ranks.get(two.name) || two.nominal - one.nominal);
    this.idle = new Set(levels.filter((level) => ranks.get(level.name) === RANKS.idle).map((level) => level.name));
    for (const level of levels) {
      if (!this.#rows.has(level.name)) this.#rows.set(level.name, new Row(level.name, this.onLevel));
      this.#rows.get(level.name).show(level, secondOf(level.name),
        (this.#ownScale.checked ? wanted(level) : common) * HEADROOM);
    }
    this.#arrange();
  }

  #rank(level, isIdleFor, nowS) {
    let now = RANKS[level.condition] ?? RANKS.works;
    if (now === RANKS.idle && !isIdleFor(level.name, IDLE_AFTER_S)) now = RANKS.works;
    const held = this.#held.get(level.name);
    if (held !== undefined && held.rank < now && held.untilS > nowS) return held.rank;
    this.#held.set(level.name, { rank: now, untilS: nowS + HOLD_S });
    return now;
  }

  /** Puts the rows in order, if it is another one, and folds those of idle levels. */
  #arrange() {
    if (this.sorted === undefined) return;
    const isFolding = this.idle.size >= LEAST_FOLDED && this.idle.size < this.sorted.length;
    const isOpen = this.#fold.getAttribute("aria-expanded") === "true";
    const order = this.sorted.map(({ name }) => `${name} ${isFolding && !isOpen && this.idle.has(name)}`).join("\n");
    setShown(this.#fold, isFolding);
    setText(this.#fold, isOpen ? "Hide idle levels" : `Show ${this.idle.size} idle levels`);
    if (order === this.#order) return;
    this.#order = order;
    const focused = document.activeElement;
    let before = null;
    for (const { name } of this.sorted) {
      const { row } = this.#rows.get(name);
      setShown(row, !(isFolding && !isOpen && this.idle.has(name)));
      const place = before === null ? this.#body.firstChild : before.nextSibling;
      if (place !== row) this.#body.insertBefore(row, place);
      before = row;
    }
    if (focused !== document.activeElement && this.#body.contains(focused)) focused.focus();
  }
}
