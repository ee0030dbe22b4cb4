// The servers behind, where there are several.

import { byId, element, Rows, setShown, setText, visible } from "./dom.js";
import { count, duration, rate, time } from "./numbers.js";

const STATES = { up: "✓ up", ejected: "✕ ejected", failing: "✕ failing", draining: "drained", unknown: "not asked yet" };
const MARKS = { up: "up", ejected: "failing", failing: "failing" };

const percent = (part) => `${Math.round(part * 100)} %`;

class Row {
  constructor(url) {
    this.state = element("span", { class: "mark" });
    this.why = element("small");
    this.numbers = ["Share", "Seats", "In flight", "Answers/s", "Failures/s", "p99"].map((label) => [label, element("b")]);
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" }, element("span", { class: "name", title: visible(url) }, url)),
      element("td", { role: "cell", class: "how" }, this.state, this.why),
      ...this.numbers.map(([label, number]) =>
        element("td", { role: "cell", class: "number", "data-label": label }, number)));
  }

  show(each) {
    this.state.dataset.state = MARKS[each.state] ?? "unknown";
    const starting = each.state === "up" && each.ramp < 1 ? `, starting (${percent(each.ramp)})` : "";
    setText(this.state, (STATES[each.state] ?? each.state) + starting);
    const since = each.since === null || each.state === "up" ? "" : `since ${time(each.since)}`;
    const why = [since, each.problem].filter(Boolean).join(": ");
    setText(this.why, why);
    this.why.title = visible(why);
    const answers = Object.values(each.answersPerSecond).reduce((total, value) => total + value, 0);
    const failures = each.failuresPerSecond + (each.answersPerSecond["5xx"] ?? 0);
    const p99 = each.p99 === null ? "–" : duration(each.p99);
    [percent(each.share), count(each.seats), count(each.inFlight), rate(answers), rate(failures), p99]
      .forEach((text, place) => setText(this.numbers[place][1], text));
    this.numbers[4][1].classList.toggle("bad", failures > 0);
  }
}

/** The table of endpoints; it is only there where there are several. */
export class Endpoints {
  #rows = new Rows(byId("endpoint-rows"));

  show(upstream) {
    const endpoints = upstream?.endpoints ?? [];
    setShown(byId("endpoints"), endpoints.length > 1);
    if (endpoints.length < 2) return;
    const { endpointCount, healthyCount } = upstream;
    const more = endpoints.length < endpointCount ? `, the ${count(endpoints.length)} to look at first are shown` : "";
    setText(byId("endpoints-count"), `${count(healthyCount)} of ${count(endpointCount)} get requests${more}`);
    const keys = endpoints.map(({ url }, place) => `${endpoints.findIndex((each) => each.url === url) === place ? "" : "again "}${url}`);
    this.#rows.show(endpoints, keys, ({ url }) => new Row(url), (row, each) => row.show(each));
  }
}
