// The overview of several clusters: a line each, those with problems first.

import { address, ask, showWorker } from "./ask.js";
import { byId, element, Rows, setText, visible } from "./dom.js";
import { count, duration, rate } from "./numbers.js";
import { showStale, showVerdict } from "./verdict.js";

const PERIOD_MS = 1000;
const STATES = { up: "✓ up", failing: "✕ fails", refused: "✕ cannot be used", unknown: "not asked yet" };
const LABELS = ["Servers", "Seats", "Waiting", "Served/s", "Failed/s", "Rejected/s", "p99"];

class Row {
  constructor(name) {
    this.state = element("span", { class: "mark" });
    this.why = element("small");
    this.where = element("small");
    this.numbers = LABELS.map(() => element("b"));
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" },
        element("a", { class: "name", href: address(`clusters/${encodeURIComponent(name)}/`) }, name), this.where),
      element("td", { role: "cell", class: "how" }, this.state, this.why),
      ...this.numbers.map((number, place) =>
        element("td", { role: "cell", class: "number", "data-label": LABELS[place] }, number)));
  }

  show(each) {
    this.row.dataset.severity = each.severity;
    this.state.dataset.state = each.state === "refused" ? "failing" : each.state;
    setText(this.state, STATES[each.state] ?? each.state);
    setText(this.where, each.where);
    this.where.title = visible(each.where);
    setText(this.why, each.problem);
    this.why.title = visible(each.problem);
    [`${count(each.healthyCount)} of ${count(each.endpointCount)}`,
      `${count(each.seatsInUse)} of ${count(each.serverConcurrencyLimit)}`,
      count(each.waiting), rate(each.servedPerSecond), rate(each.failedPerSecond), rate(each.rejectedPerSecond),
      each.p99 === null ? "–" : duration(each.p99),
    ].forEach((text, place) => setText(this.numbers[place], text));
    this.numbers[0].classList.toggle("bad", each.healthyCount < each.endpointCount);
    this.numbers[4].classList.toggle("bad", each.failedPerSecond > 0);
    this.numbers[5].classList.toggle("bad", each.rejectedPerSecond > 0 && !each.isObserving);
  }
}

const rows = new Rows(byId("cluster-rows"));
let state = null;

function show() {
  if (state === null) return;
  const part = byId("part").value.toLowerCase();
  const shown = state.clusters.filter(({ name, where }) => `${name} ${where}`.toLowerCase().includes(part));
  setText(byId("clusters-count"), shown.length < state.clusters.length
    ? `${count(shown.length)} of ${count(state.clusters.length)}` : count(shown.length));
  rows.show(shown, shown.map(({ name }) => name), ({ name }) => new Row(name), (row, each) => row.show(each));
}

function connection(now, text) {
  byId("connection").dataset.state = now;
  setText(byId("connection-text"), text);
}

async function look() {
  if (!document.hidden) {
    try {
      state = await ask("debug/clusters");
      connection("live", "live");
      showVerdict(state.verdict);
      show();
    } catch (error) {
      connection("lost", "no connection; trying again");
      if (state !== null) showStale(error.message, state.verdict);
    }
  }
  setTimeout(look, PERIOD_MS);
}

showWorker();
byId("part").addEventListener("input", show);
look();
