// The form that explains what would become of a request.

import { byId, element } from "./dom.js";
import { count, quantity } from "./numbers.js";

const DECISIONS = { execute: "Executes", wait: "Waits", reject: "Is rejected" };

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

/** What would become of the request, in order of interest. */
function answer(explanation) {
  const { flow, estimate, outcome, request } = explanation;
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
  const verdict = element("p", { class: `outcome ${outcome.decision}` },
    element("b", {}, DECISIONS[outcome.decision] ?? outcome.decision), ` – ${outcome.text}`);
  return [verdict, list, schemaList(explanation)];
}

/** The form; calls back with the hand that the explained request's flow has. */
export class Explain {
  #form = byId("explain");
  #answer = byId("explanation");
  #asked = 0;

  constructor(onHand) {
    this.onHand = onHand;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
  }

  async #ask() {
    const asked = (this.#asked += 1);
    const data = new FormData(this.#form);
    const query = new URLSearchParams({
      method: data.get("method"), target: data.get("path").trim(), user: data.get("user").trim(),
    });
    for (const group of data.get("groups").split(",").map((name) => name.trim())) {
      if (group) query.append("group", group);
    }
    try {
      const got = await fetch(`debug/explain?${query}`, { headers: { Accept: "application/json" } });
      if (!got.ok) throw new Error((await got.text()).trim());
      const explanation = await got.json();
      if (asked === this.#asked) this.#show(explanation);
    } catch (error) {
      if (asked === this.#asked) this.#answer.replaceChildren(element("p", { class: "error" }, error.message));
    }
  }

  #show(explanation) {
    this.#answer.replaceChildren(...answer(explanation));
    const { flow } = explanation;
    this.onHand({
      level: explanation.priorityLevel.name,
      flow: flow.distinguisher || flow.flowSchema,
      queues: flow.hand.map((queue) => queue.index),
    });
  }
}
