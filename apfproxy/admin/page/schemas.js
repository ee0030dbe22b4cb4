// The FlowSchemas, in the order in which they are tried, with what they match.

import { byId, element, Rows, setText, visible } from "./dom.js";
import { count, rate } from "./numbers.js";

class Row {
  constructor(schema) {
    this.matched = element("b");
    this.rejected = element("b");
    this.name = element("span", { class: "name", title: schema.name }, schema.name);
    const cell = (...children) => element("td", { role: "cell" }, ...children);
    const number = (label, ...children) =>
      element("td", { role: "cell", class: "number", "data-label": label }, ...children);
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" }, this.name,
        element("small", { class: "uid", title: "UID, as answers carry it" }, `UID ${schema.uid}`)),
      cell(element("span", { class: "name", title: schema.priorityLevel }, schema.priorityLevel),
        element("small", {}, (schema.kind ? `a flow for each ${visible(schema.kind)}` : "one flow")
          + (schema.weight > 1 ? `, weight ${schema.weight}` : "")),
        schema.untilS === null ? "" : element("small", {}, `until ${new Date(schema.untilS * 1000).toLocaleString()}`)),
      number("Precedence", String(schema.matchingPrecedence)),
      number("Matches/s", this.matched),
      number("Rejected/s", this.rejected));
  }

  show(schema) {
    setText(this.matched, rate(schema.matchedPerSecond));
    setText(this.rejected, rate(schema.rejectedPerSecond));
    this.row.classList.toggle("idle", schema.matchedPerSecond === 0);
    this.row.classList.toggle("rejects", schema.rejectedPerSecond > 0);
  }
}

/** What makes a row another one. */
const identity = ({ name, uid, priorityLevel, matchingPrecedence, kind, untilS, weight }) =>
  JSON.stringify([name, uid, priorityLevel, matchingPrecedence, kind, untilS, weight]);

/** The table of FlowSchemas. */
export class Schemas {
  #rows = new Rows(byId("schema-rows"));
  #last = null;

  show(schemas, total) {
    const key = JSON.stringify(schemas);
    if (key === this.#last) return;
    this.#last = key;
    const shown = schemas.length < total ? `the ${count(schemas.length)} that match most, of ${count(total)}` : `${count(total)}`;
    setText(byId("schemas-count"), shown);
    this.#rows.show(schemas, schemas.map(identity), (schema) => new Row(schema), (row, schema) => row.show(schema));
  }
}
