// The flows that take most.

import { byId, element, setShown, setText, visible } from "./dom.js";
import { rate } from "./numbers.js";

const MOST_ROWS = 12;
const COLUMNS = ["seatSeconds", "waitSeconds", "rejected", "tokens"];
const LEAST = 0.005; // below, it is nothing to speak of
/** A text as one word of a shell. */
const quoted = (text) => (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);

const CUT = "The name is cut, so nobody can tell the hand; explain a request of the flow.";

class Row {
  constructor(onHand) {
    this.name = element("span", { class: "name" });
    this.from = element("small");
    this.numbers = COLUMNS.map(() => element("b"));
    this.button = element("button", { type: "button", class: "small" }, "Hand");
    this.button.addEventListener("click", () => onHand(this.flow));
    this.command = element("code", { hidden: true });
    this.ban = element("button", { type: "button", class: "small", title: "Show the command that stops this user" }, "Ban");
    this.ban.addEventListener("click", () => setShown(this.command, this.command.hidden));
    const labels = ["Seats × s", "Waited, s", "Rejected", "Tokens"];
    const cells = this.numbers.map((number, place) =>
      element("td", { role: "cell", class: "number", "data-label": labels[place] }, number));
    this.tokens = cells.at(-1);
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" }, this.name, this.from, this.command),
      ...cells,
      element("td", { role: "cell", class: "act" }, this.button, this.ban));
  }

  show(flow, hasTokens, [before, after]) {
    this.flow = flow;
    setShown(this.tokens, hasTokens);
    const kind = flow.flow ? flow.kind || "flow" : "all";
    const from = `${kind} in ${flow.priorityLevel}`;
    const name = flow.flow || "(all together)";
    const key = `${name}\n${from}\n${flow.flowSchema}`;
    if (this.key !== key) {
      this.key = key;
      setText(this.name, name);
      setText(this.from, from);
      this.from.title = `${visible(from)}, by FlowSchema ${visible(flow.flowSchema)}`;
      this.name.title = visible(flow.flow);
      this.button.setAttribute("aria-label", `Show the hand of ${visible(flow.flow || flow.flowSchema)}`);
      setShown(this.command, false);
      setShown(this.ban, flow.kind === "user" && flow.flow !== "" && flow.isWhole && visible(flow.flow) === flow.flow);
      this.button.disabled = !flow.isWhole;
      this.button.title = flow.isWhole ? "" : CUT;
    }
    setText(this.command, `${before}${flow.flow.startsWith("-") ? "-- " : ""}${quoted(flow.flow)}${after}`);
    COLUMNS.forEach((column, place) => setText(this.numbers[place], flow[column] < LEAST ? "0" : rate(flow[column])));
  }
}

/** The table of flows; calls back with a flow whose hand is wanted. */
export class Flows {
  #rows = [];
  #flows = [];
  #key = "";
  #sort = "seatSeconds";

  constructor(onHand) {
    this.onHand = onHand;
    this.buttons = [...document.querySelectorAll("button.sort")];
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        this.#sort = button.dataset.sort;
        this.#draw();
      });
    }
  }

  show(flows, banCommand) {
    this.banCommand = banCommand;
    const key = JSON.stringify([flows, banCommand]);
    if (key === this.#key) return;
    this.#key = key;
    this.#flows = flows;
    setText(byId("flows-none"), "No flow has been seen yet; the proxy counts them unless topFlows.enabled is false.");
    this.#draw();
  }

  #draw() {
    const flows = [...this.#flows]
      .sort((one, two) => two[this.#sort] - one[this.#sort]).slice(0, MOST_ROWS);
    setShown(byId("flows"), flows.length > 0);
    setShown(byId("flows-none"), flows.length === 0);
    for (const button of this.buttons) {
      const isSorted = button.dataset.sort === this.#sort;
      button.parentElement.setAttribute("aria-sort", isSorted ? "descending" : "none");
    }
    const hasTokens = this.#flows.some(({ tokens }) => tokens >= LEAST);
    setShown(byId("flow-tokens"), hasTokens);
    const body = byId("flow-rows");
    while (this.#rows.length > flows.length) this.#rows.pop().row.remove();
    while (this.#rows.length < flows.length) {
      const row = new Row((flow) => this.onHand(flow));
      this.#rows.push(row);
      body.append(row.row);
    }
    flows.forEach((flow, place) => this.#rows[place].show(flow, hasTokens, this.banCommand));
  }
}
