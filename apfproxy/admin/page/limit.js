// The server limit that is found: the curve and its knee, the limit over time, the last decisions.

import { styled } from "./colours.js";
import { byId, element, onAppearance, onWidth, setShown, setText } from "./dom.js";
import { count, quantity, time } from "./numbers.js";
import { axis, HEIGHT, seconds, sized } from "./plots.js";
import uPlot from "./vendor/uPlot.esm.js";

const STATES = { searching: "searching for a better one", holding: "found", probing: "tried for a moment" };
const PLOTS = ["curve", "limit"];

/** The next power of two below, or above. */
const power = (round, value) => 2 ** Math[round](Math.log2(value));

/** The errors of points as strokes, the goodput that is aimed for, and the knee. */
function marks(plot, found) {
  const { ctx, bbox } = plot;
  const at = (value, scale) => Math.round(plot.valToPos(value, scale, true));
  const stroke = (colour, dash, x1, y1, x2, y2) => {
    ctx.strokeStyle = styled(colour);
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
  };
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const { concurrency, goodput, error } of found.curve) {
    const x = at(concurrency, "x");
    stroke("used", [], x, at(100 * goodput * (1 - Math.min(error, 1)), "y"), x, at(100 * goodput * (1 + Math.min(error, 1)), "y"));
  }
  stroke("quiet", [2, 4], bbox.left, at(100 * found.target, "y"), bbox.left + bbox.width, at(100 * found.target, "y"));
  if (found.knee !== null) stroke("over", [6, 3], at(found.knee, "x"), bbox.top, at(found.knee, "x"), bbox.top + bbox.height);
  ctx.restore();
}

export class Limit {
  #history;
  #found = null;
  #plots = new Map();
  #widths = new Map();
  #decisions = "";

  constructor(history) {
    this.#history = history;
    for (const name of PLOTS) {
      onWidth(byId(`plot-${name}`), (width) => {
        this.#widths.set(name, width);
        this.#draw(name, true);
      });
    }
    onAppearance(() => PLOTS.forEach((name) => this.#draw(name, true)));
  }

  /** Shows the limit; null where the settings say it. */
  show(found) {
    setShown(byId("limit"), Boolean(found));
    this.#found = found;
    if (!found) return;
    const seats = `${count(found.limit)} seats`;
    const state = found.isLeading ? STATES[found.state] ?? found.state : "found by another proxy that shares it";
    const known = found.found === null || found.found === found.limit ? "" : `; ${count(found.found)} best so far`;
    const chosen = found.found ?? (found.decisions.length > 0 ? found.limit : null);
    const would = chosen === null ? "nothing to choose by yet" : `${count(chosen)} seats would have been chosen`;
    setText(byId("limit-text"), found.isObserving ? would : `${seats}, ${state}${known}`);
    setText(byId("limit-settings"), `${count(found.min)} to ${count(found.max)} seats, for ${Math.round(100 * found.target)} % of the highest goodput`);
    setText(byId("limit-knee"), found.knee === null ? "" : `, the knee at ${quantity(found.knee)}`);
    for (const name of PLOTS) this.#draw(name, false);
    const key = JSON.stringify(found.decisions);
    if (key === this.#decisions) return;
    this.#decisions = key;
    setShown(byId("limit-none"), found.decisions.length === 0);
    byId("limit-decisions").replaceChildren(...found.decisions.toReversed().map((each) =>
      element("li", { class: each.kind === "distress" ? "error" : false },
        element("time", { datetime: new Date(each.time * 1000).toISOString() }, time(each.time)),
        element("span", { class: "mark" }, `${count(each.limit)} seats`),
        element("span", { class: "message" }, each.reason))));
  }

  #data(name) {
    if (name === "limit") return [this.#history.times, this.#history.limits];
    return [this.#found.curve.map((each) => each.concurrency), this.#found.curve.map((each) => 100 * each.goodput)];
  }

  #draw(name, isAnew) {
    const width = this.#widths.get(name);
    if (!this.#found || width === undefined) return;
    if (!isAnew && this.#plots.has(name)) {
      this.#plots.get(name).setData(this.#data(name));
      return;
    }
    this.#plots.get(name)?.destroy();
    const isCurve = name === "curve";
    const colour = styled("used");
    this.#plots.set(name, new uPlot({
      width,
      height: HEIGHT,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: isCurve ? { time: false, distr: 3, log: 2, range: (_plot, least, most) => [power("floor", (least || 1) / 1.05), power("ceil", (most || 1) * 1.05)] } : { range: () => this.#span() },
        y: { range: (_plot, _least, most) => [0, isCurve ? 115 : (most || 1) * 1.1] },
      },
      axes: [
        { ...axis(), space: 40, size: 28, gap: 6, values: (_plot, splits, _axis, _space, step) => (isCurve ? splits.map((value) => (value === null ? "" : quantity(value))) : seconds(splits, step)) },
        { ...axis(), space: 34, size: sized, gap: 4, values: (_plot, splits) => splits.map(quantity) },
      ],
      series: [{}, { stroke: colour, width: 1.5, paths: isCurve ? undefined : uPlot.paths.stepped({ align: 1 }), points: { show: isCurve, size: 5, fill: colour } }],
      hooks: { draw: isCurve ? [(plot) => marks(plot, this.#found)] : [] },
    }, this.#data(name), byId(`plot-${name}`)));
  }

  #span() {
    const last = this.#history.times.at(-1) ?? Date.now() / 1000;
    return [last - Number(byId("range").value), last];
  }
}
