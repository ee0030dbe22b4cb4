// The replicas or workers that share the server's seats, where there are any.

import { byId, element, Rows, setShown, setSpan, setText, visible } from "./dom.js";
import { count, duration } from "./numbers.js";

const STATES = { held: "✓ holds its claim", joining: "joins", expired: "✕ without the record", partitioned: "✕ without the record" };
const MARKS = { held: "up", expired: "failing", partitioned: "failing" };
const LABELS = ["Claim", "In use", "Wanted"];

const percent = (part) => `${part > 0 && part < 0.095 ? Number((part * 100).toFixed(1)) : Math.round(part * 100)} %`;

/** How one is: a mark, and words. */
function stateOf(each, fleet, isKnown) {
  const unlike = each.limit === fleet.limit ? "other levels or limit" : `has a limit of ${count(each.limit)}`;
  if (each.isSelf) {
    const state = each.state ?? fleet.state; // of several workers each has its own
    return [MARKS[state] ?? "unknown", STATES[state] ?? state];
  }
  if (!isKnown) return ["unknown", "not known now"];
  if (each.isSilent) return ["failing", `✕ silent for ${duration(each.age)}`];
  if (!each.isAlike) return ["warn", `! ${unlike}`];
  return ["up", "✓ seen"];
}

class Row {
  constructor(name) {
    this.here = element("span", { class: "tag" }, "this one");
    this.state = element("span", { class: "mark" });
    this.claim = element("span", { class: "claim" });
    this.used = element("span", { class: "used" });
    this.numbers = LABELS.map((label) => [label, element("b")]);
    this.share = element("small");
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" }, element("span", { class: "name", title: visible(name) }, name)),
      element("td", { role: "cell", class: "how" }, this.state, " ", this.here),
      element("td", { role: "cell", class: "bar-cell" }, element("div", { class: "bar", "aria-hidden": "true" }, this.claim, this.used)),
      ...this.numbers.map(([label, number], place) =>
        element("td", { role: "cell", class: "number", "data-label": label }, number, ...(place === 0 ? [this.share] : []))));
  }

  show(each, fleet, scale, { isKnown, isOfAll }) {
    setShown(this.here, each.isSelf && !isOfAll);
    const [mark, text] = stateOf(each, fleet, isKnown);
    this.state.dataset.state = mark;
    setText(this.state, text);
    setSpan(this.claim, 0, each.claim / scale);
    setSpan(this.used, 0, each.used / scale);
    [each.claim, each.used, each.demand].forEach((value, place) => setText(this.numbers[place][1], count(value)));
    setText(this.share, fleet.limit > 0 ? percent(each.claim / fleet.limit) : "");
    this.numbers[2][1].classList.toggle("wants", each.demand > each.claim);
  }
}

/** The line above the table: all seats, and how many of them are whose. */
function summary(fleet) {
  const noun = fleet.isOfWorkers ? "worker" : "member";
  const members = `${count(fleet.memberCount)} ${noun}${fleet.memberCount === 1 ? "" : "s"}`;
  return `${members}: ${count(fleet.used)} of ${count(fleet.limit)} seats in use, ${count(fleet.claims)} claimed`;
}

/** The table of members; it is only there where seats are shared. */
export class Fleet {
  #rows = new Rows(byId("fleet-rows"));

  /** `isOfAll`: the page is not of one member, but of all workers of a machine. */
  show(fleet, isOfAll) {
    setShown(byId("fleet"), Boolean(fleet));
    setShown(byId("fleet-link"), Boolean(fleet));
    if (!fleet) return;
    setText(byId("fleet-title"), fleet.isOfWorkers ? "Workers" : `Fleet ${fleet.name}`);
    setText(byId("fleet-count"), summary(fleet));
    byId("fleet-count").classList.toggle("bad", fleet.claims > fleet.limit);
    setText(byId("fleet-store"), fleet.isOfWorkers ? "" : fleet.store);
    byId("fleet-store").title = visible(fleet.isOfWorkers ? "" : fleet.store);
    const isKnown = fleet.state === "held" && fleet.problem === "";
    setText(byId("fleet-problem"), fleet.problem === "" ? "" : `not written${fleet.age === null ? "" : ` for ${duration(fleet.age)}`}: ${fleet.problem}`);
    setShown(byId("fleet-problem"), fleet.problem !== "");
    const { members, memberCount } = fleet;
    const keys = members.map(({ name }, place) => `${place}\n${name}`);
    const scale = Math.max(1, ...members.map((each) => Math.max(each.claim, each.used)));
    this.#rows.show(members, keys, ({ name }) => new Row(name),
      (row, each) => row.show(each, fleet, scale, { isKnown, isOfAll }));
    const more = memberCount - members.length;
    setText(byId("fleet-more"), more > 0 ? `and ${count(more)} more` : "");
    setShown(byId("fleet-more"), more > 0);
  }
}
