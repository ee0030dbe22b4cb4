// Rates, waits and rejections of the last minutes.

import { line, styled } from "./colours.js";
import { byId, element, onAppearance, onWidth, setShown } from "./dom.js";
import { minute, quantity, time } from "./numbers.js";
import uPlot from "./vendor/uPlot.esm.js";

const FIELDS = ["served", "waitSeconds", "rejected", "failed", "tokens"];
export const HEIGHT = 120;
const MOST_LINES = 12;
const FONT = "12px system-ui, sans-serif";

/** Values with nothing on either side, which no line would show. */
function alone(plot, number) {
  const values = plot.data[number];
  const found = [];
  for (let at = 0; at < values.length; at += 1) {
    const isAlone = values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
    if (isAlone) found.push(at);
  }
  return found;
}

/** What all axes have. */
export const axis = () => ({ stroke: styled("quiet"), font: FONT, grid: { stroke: styled("line"), width: 1 }, ticks: { show: false } });

/** How wide an axis is for its texts. */
export const sized = (_plot, texts) => 12 + 7 * Math.max(5, ...(texts ?? []).map((each) => each.length));

/** Times on an axis. */
export const seconds = (splits, step) => splits.map(step < 60 ? time : minute);

/** What the cursor points at, in words. */
function reading(names) {
  const box = element("div", { class: "reading", hidden: true });
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left } = plot.cursor;
        const at = plot.data[0][idx];
        box.hidden = idx === null || idx === undefined || left < 0 || at === undefined;
        if (box.hidden) return;
        const values = names.map((name, number) => [name, plot.data[number + 1][idx], number])
          .filter(([, value, number]) => value !== null && value !== undefined && plot.series[number + 1].show)
          .sort((one, two) => two[1] - one[1]).slice(0, 6);
        box.replaceChildren(element("b", {}, time(at)), ...values.map(([name, value, number]) => {
          const swatch = element("i");
          swatch.style.background = plot.series[number + 1].stroke();
          return element("div", {}, swatch, element("span", {}, name), element("span", {}, quantity(value)));
        }));
        box.classList.toggle("left", left > plot.over.clientWidth / 2);
      },
    },
  };
}

/** The plots and the buttons that choose what they show. */
export class Plots {
  #history;
  #plots = new Map();
  #names = [];
  #hidden = new Set();
  #chips = byId("plot-levels");
  #range = byId("range");
  #widths = new Map();
  #due = new Map(); // field to whether its plot is to be made anew

  constructor(history) {
    this.#history = history;
    for (const field of FIELDS) {
      const place = byId(`plot-${field}`);
      place.tabIndex = 0;
      place.setAttribute("role", "img");
      place.addEventListener("keydown", (event) => this.#onKey(event, field));
      place.addEventListener("blur", () => this.#plots.get(field)?.setCursor({ left: -10, top: -10 }));
      onWidth(place, (width) => {
        this.#widths.set(field, width);
        const plot = this.#plots.get(field);
        if (plot) plot.setSize({ width, height: HEIGHT });
        else this.#ask(field, true);
      });
    }
    this.#range.addEventListener("change", () => this.#drawAll(true));
    onAppearance(() => this.#drawAll(true));
  }

  /** Draws what is new. */
  show() {
    const names = this.#history.busiest().slice(0, MOST_LINES);
    const isSame = names.length === this.#names.length && names.every((name) => this.#names.includes(name));
    if (!isSame) this.#names = names.sort();
    const hasTokens = [...this.#history.levels.values()].some(({ tokens }) => tokens?.some((value) => value !== null));
    setShown(byId("tokens-plot"), hasTokens);
    this.#drawAll(!isSame);
  }

  /** The time that is drawn, however little of it has been. */
  #span() {
    const times = this.#history.times;
    const last = times[times.length - 1] ?? Date.now() / 1000;
    return [last - Number(this.#range.value), last];
  }

  #drawAll(isAnew) {
    if (isAnew) this.#drawChips();
    for (const field of FIELDS) this.#ask(field, isAnew);
  }

  /** Has a plot drawn after one of the next frames, one plot a frame: each takes some ms. */
  #ask(field, isAnew) {
    if (this.#due.size === 0) this.#nextLater();
    this.#due.set(field, isAnew || this.#due.get(field) === true);
  }

  #next() {
    const [[field, isAnew]] = this.#due;
    this.#due.delete(field);
    const plot = this.#plots.get(field);
    if (plot === undefined || isAnew) {
      plot?.destroy();
      this.#plots.delete(field);
      if (this.#widths.has(field)) this.#make(field);
    } else {
      plot.setData(this.#data(field));
      this.#describe(field);
    }
    if (this.#due.size > 0) this.#nextLater();
  }

  /** In a task of its own: the frame's has levels and queues to draw. */
  #nextLater() {
    requestAnimationFrame(() => setTimeout(() => this.#next()));
  }

  #data(field) {
    const levels = this.#history.levels;
    return [this.#history.times, ...this.#names.map((name) => levels.get(name)?.[field] ?? [])];
  }

  #make(field) {
    const plot = new uPlot({
      width: this.#widths.get(field),
      height: HEIGHT,
      padding: [8, 28, 0, 0], // for half of the last time,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "plots" }, points: { size: 6 } },
      scales: {
        x: { time: true, range: () => this.#span() },
        y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] },
      },
      axes: [
        { ...axis(), space: 54, values: (_plot, splits, _axis, _space, step) => seconds(splits, step), gap: 6, size: 28 },
        { ...axis(), space: 34, size: sized, gap: 4, values: (_plot, splits) => splits.map(quantity) },
      ],
      series: [{}, ...this.#names.map((name, number) => {
        const { colour, dash } = line(number);
        return {
          label: name, stroke: colour, dash, width: 1.5, show: !this.#hidden.has(name),
          points: { show: true, size: 3, fill: colour, filter: alone },
        };
      })],
      plugins: [reading(this.#names)],
    }, this.#data(field), byId(`plot-${field}`));
    this.#plots.set(field, plot);
    this.#describe(field);
  }

  #describe(field) {
    const place = byId(`plot-${field}`);
    const title = place.parentElement.querySelector("figcaption").firstChild.data.trim();
    const values = this.#names.map((name) => `${name} ${quantity(this.#history.last(name)?.[field])}`);
    place.setAttribute("aria-label", `${title}, now: ${values.join(", ")}`);
  }

  #onKey(event, field) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key];
    const plot = this.#plots.get(field);
    if (step === undefined || plot === undefined) return;
    event.preventDefault();
    const last = this.#history.times.length - 1;
    const now = plot.cursor.idx ?? last + 1;
    const at = Math.max(0, Math.min(last, now + step));
    plot.setCursor({ left: plot.valToPos(this.#history.times[at], "x"), top: 0 });
  }

  #drawChips() {
    const focused = [...this.#chips.children].indexOf(document.activeElement);
    const name = this.#chips.children[focused]?.textContent;
    this.#chips.replaceChildren(...this.#names.map((name, number) => {
      const { colour, dash } = line(number);
      const swatch = element("span", { class: dash.length ? "swatch dashed" : "swatch", "aria-hidden": "true" });
      swatch.style.setProperty("--colour", colour);
      const isShown = !this.#hidden.has(name);
      const chip = element("button", { type: "button", "aria-pressed": String(isShown), title: name },
        swatch, element("span", { class: "name" }, name));
      chip.addEventListener("click", () => this.#toggle(name, chip));
      return chip;
    }));
    if (name !== undefined) this.#chips.children[Math.max(0, this.#names.indexOf(name))]?.focus();
  }

  #toggle(name, chip) {
    if (!this.#hidden.delete(name)) this.#hidden.add(name);
    const show = !this.#hidden.has(name);
    chip.setAttribute("aria-pressed", String(show));
    const number = this.#names.indexOf(name) + 1;
    for (const plot of this.#plots.values()) plot.setSeries(number, { show });
  }
}
