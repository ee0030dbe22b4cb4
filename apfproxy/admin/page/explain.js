// The form that explains what would become of a request.

import { ask } from "./ask.js";
import { byId, element, setText } from "./dom.js";
import { count, quantity } from "./numbers.js";

/** One fact: its name and its value. */
const fact = (name, ...value) => [element("dt", {}, name), element("dd", {}, ...value)];

/** Why a FlowSchema does not match, as a list. */
function reasons(schema) {
  if (schema.mismatches.length === 0) return [];
  return [element("ul", {}, ...schema.mismatches.map((mismatch) =>
    element("li", {}, `${mismatch.field}: ${mismatch.reason}`)))];
}

/** The FlowSchemas in order; those that do not match say why. */
function schemaList(explanation) {
  const chosen = explanation.flowSchemas.findIndex((schema) => schema.isChosen);
  const items = explanation.flowSchemas.map((schema, place) => {
    const verdict = schema.isChosen ? "chosen" : schema.matches ? "would match, too" : "does not match";
    return element("li", { class: schema.isChosen ? "chosen" : false },
      element("b", {}, schema.name),
      element("small", {}, ` precedence ${schema.matchingPrecedence} → ${schema.priorityLevel}, `),
      element("span", { class: "verdict" }, verdict),
      ...(place <= chosen || chosen < 0 ? reasons(schema) : []));
  });
  return element("details", {},
    element("summary", {}, `FlowSchemas in order (${count(explanation.flowSchemas.length)})`),
    element("ol", { class: "schemas" }, ...items));
}

/** Where the request belongs and what it needs, in order of interest. */
function answer(explanation) {
  const { flow, estimate, request } = explanation;
  const level = explanation.priorityLevel;
  const what = request.isResourceRequest
    ? [request.resource, request.subresource].filter(Boolean).join("/") : request.path;
  const where = request.namespace ? ` in ${request.namespace}` : "";
  const seats = estimate.takesSeats ? `${estimate.initialSeats}${estimate.finalSeats
    ? `, then ${estimate.finalSeats} for ${quantity(estimate.additionalLatencySeconds)} s` : ""}` : "none";
  const hand = flow.hand.map((queue) => `${queue.index} (${queue.requestsWaiting} waiting)`).join(", ");
  const list = element("dl", { class: "explained" },
    ...fact("Request", `${request.verb} ${what}${where}`),
    ...fact("FlowSchema", explanation.flowSchema),
    ...fact("Level", `${level.name}, ${count(level.seatsInUse)} of ${count(level.currentLimit)} seats in use, ${count(level.requestsWaiting)} waiting`),
    ...fact("Flow", flow.distinguishedBy ? `${flow.distinguisher || "–"} (${flow.distinguishedBy})` : "all requests of the FlowSchema"),
    ...(hand ? fact("Hand", hand) : []),
    ...fact("Seats", seats, element("small", {}, ` ${estimate.source}`)),
    ...(explanation.additions.length ? fact("Additions", explanation.additions.join("; ")) : []),
    ...(explanation.notes.length ? fact("Notes", explanation.notes.join("; ")) : []));
  return [list, schemaList(explanation)];
}

const ANONYMOUS = "system:anonymous";

/** The group that each user has: who is known another than who is not. */
const groupOf = (user) => (user && user !== ANONYMOUS ? "system:authenticated" : "system:unauthenticated");

/** The form; calls back with the hand that the explained request's flow has. */
export class Explain {
  #form = byId("explain");
  #outcome = byId("outcome");
  #answer = byId("explanation");
  #asked = 0;
  #user = this.#form.elements.user;
  #groups = this.#form.elements.groups;

  constructor(onHand) {
    this.onHand = onHand;
    this.#user.addEventListener("input", () => {
      this.#groups.placeholder = groupOf(this.#user.value.trim());
    });
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
  }

  async #ask() {
    const asked = (this.#asked += 1);
    const data = new FormData(this.#form);
    const user = data.get("user").trim() || ANONYMOUS;
    const query = new URLSearchParams({ method: data.get("method"), target: data.get("path").trim(), user });
    for (const group of (data.get("groups").trim() || groupOf(user)).split(",").map((name) => name.trim())) {
      if (group) query.append("group", group);
    }
    try {
      const explanation = await ask("debug/explain", query);
      if (asked === this.#asked) this.#show(explanation);
    } catch (error) {
      if (asked === this.#asked) this.#say("error", error.message);
    }
  }

  /** Says in one sentence, aloud too, what would happen; the facts follow. */
  #say(kind, sentence, ...facts) {
    this.#outcome.className = `outcome ${kind}`;
    setText(this.#outcome, sentence.charAt(0).toUpperCase() + sentence.slice(1));
    this.#answer.replaceChildren(...facts);
  }

  #show(explanation) {
    const { flow, outcome } = explanation;
    this.#say(outcome.decision, outcome.text, ...answer(explanation));
    const of = { priorityLevel: explanation.priorityLevel.name, flowSchema: flow.flowSchema, flow: flow.distinguisher };
    this.onHand({ of, queues: flow.hand.map((queue) => queue.index) });
  }
}
