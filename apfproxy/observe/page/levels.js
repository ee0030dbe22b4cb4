// The priority levels: a row each, with a bar of seats.

import { byId, element, setShown, setSpan, setText } from "./dom.js";
import { count, quantity } from "./numbers.js";

const SPANS = ["range", "lent", "borrowed", "used", "over"];
const MARKS = ["nominal", "current"];
const HEADROOM = 1.02;
const LARGEST_BOUND_S = 30; // of a wait, in the metrics
const MOVED = { lent: "lent", borrowed: "borrowed" };

/** What nearly all requests of a second waited at most; blank if they did not wait. */
function longest(second) {
  if (!second?.waitSeconds || second.waitP99Seconds === 0) return "\u00a0";
  const bound = second.waitP99Seconds;
  if (bound === null) return `p99 > ${LARGEST_BOUND_S} s`; // which JSON cannot say otherwise
  return `p99 ≤ ${bound < 1 ? `${quantity(bound * 1000)} ms` : `${quantity(bound)} s`}`;
}

class Row {
  constructor(name) {
    this.parts = Object.fromEntries([...SPANS, ...MARKS].map((part) => [part, element("span", { class: part })]));
    this.beyond = element("span", { class: "beyond", "aria-hidden": "true" });
    const bar = element("div", { class: "bar", "aria-hidden": "true" });
    bar.append(...Object.values(this.parts));
    this.tag = element("span", { class: "tag", hidden: true });
    this.seats = element("b");
    this.executing = element("small");
    this.limit = element("b");
    this.bounds = element("small");
    this.moved = element("b");
    this.movedHow = element("small");
    this.waiting = element("b");
    this.wait = element("small");
    this.served = element("b");
    this.total = element("small");
    this.rejected = element("b");
    this.rejectedNow = element("small");
    const cell = (label, ...children) =>
      element("td", { role: "cell", class: "number", "data-label": label }, ...children);
    this.row = element("tr", { role: "row", "data-level": name },
      element("th", { role: "rowheader", scope: "row" },
        element("span", { class: "name", title: name }, name), this.tag),
      element("td", { role: "cell", class: "bar-cell" }, element("div", {}, bar, this.beyond)),
      cell("In use", this.seats, this.executing),
      cell("Limit", this.limit, this.bounds),
      cell("Lent/borrowed", this.moved, this.movedHow),
      cell("Waiting", this.waiting, this.wait),
      cell("Served/s", this.served, this.total),
      cell("Rejected", this.rejected, this.rejectedNow));
  }

  show(level, second, scale) {
    this.#showBar(level, scale);
    const tag = level.isQuiescing ? "drains" : level.type === "Exempt" ? "exempt" : "";
    setText(this.tag, tag);
    setShown(this.tag, tag !== "");
    setText(this.seats, count(level.seatsInUse));
    setText(this.executing, level.executing === 1 ? "1 request" : `${count(level.executing)} requests`);
    setText(this.limit, count(level.current));
    const max = level.max === null ? "∞" : count(level.max);
    setText(this.bounds, `${count(level.nominal)} in ${count(level.min)}–${max}`);
    const how = level.lent ? "lent" : level.borrowed ? "borrowed" : "";
    setText(this.moved, how ? `${how === "lent" ? "−" : "+"}${count(level[how])}` : "0");
    setText(this.movedHow, how ? MOVED[how] : "\u00a0");
    setText(this.waiting, count(level.waiting));
    setText(this.wait, longest(second));
    setText(this.served, quantity(second?.dispatched));
    setText(this.total, `of ${count(level.dispatched)}`);
    setText(this.rejected, count(level.rejected));
    setText(this.rejectedNow, second?.rejected ? `${quantity(second.rejected)}/s` : "\u00a0");
    this.row.classList.toggle("busy", level.waiting > 0);
    this.row.classList.toggle("rejects", Boolean(second?.rejected));
  }

  #showBar(level, scale) {
    const max = level.max ?? Infinity;
    const inside = Math.min(level.seatsInUse, level.nominal);
    const spans = {
      range: [level.min, Math.min(max, scale)],
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
    setText(this.beyond, max > scale ? `… max ${max === Infinity ? "∞" : count(max)}` : "");
  }
}

/** The table of levels. */
export class Levels {
  #rows = new Map();
  #body = byId("level-rows");
  #sameScale = byId("same-scale");

  show(levels, secondOf) {
    const wanted = levels.map((level) => Math.max(level.nominal, level.current, level.seatsInUse, 1));
    const common = Math.max(...wanted);
    const names = new Set(levels.map((level) => level.name));
    for (const [name, row] of this.#rows) {
      if (names.has(name)) continue;
      row.row.remove();
      this.#rows.delete(name);
    }
    let before = null;
    levels.forEach((level, index) => {
      let row = this.#rows.get(level.name);
      if (row === undefined) {
        this.#rows.set(level.name, (row = new Row(level.name)));
        if (before === null) this.#body.prepend(row.row);
        else before.after(row.row);
      }
      before = row.row;
      const scale = (this.#sameScale.checked ? common : wanted[index]) * HEADROOM;
      row.show(level, secondOf(level.name), scale);
    });
  }
}
