// The cards: seats, the server behind, and the configuration.

import { byId, element, setShown, setText, visible } from "./dom.js";
import { count, duration, quantity, rate, time } from "./numbers.js";

const SERVER = { up: "✓ answers", failing: "✕ fails", unknown: "not asked yet" };
const CONFIGURATION = ["configuration", "settings"];

const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0);
const perSecond = (value) => `${rate(value)}/s`;

/** Marks a number as one that somebody should look at. */
const setBad = (node, isBad) => node.classList.toggle("bad", isBad);

/** How much of what levels want beyond their least they were given; 0 before the first division. */
function fairText(part) {
  if (!part) return "–";
  return part >= 1 ? "all given" : `${quantity(part * 100)} % given`;
}

function showSeats(state) {
  const total = (field) => state.levels.reduce((sum, level) => sum + level[field], 0);
  const { fleet } = state;
  setText(byId("fact-seats"), count(fleet ? fleet.inForce : state.serverConcurrencyLimit));
  setShown(byId("seats-shared"), Boolean(fleet));
  if (fleet) {
    setText(byId("seats-shared-of"), fleet.isOfWorkers ? "of all workers'" : "of the fleet's");
    setText(byId("fact-shared"), count(fleet.limit));
  }
  setText(byId("fact-used"), count(total("seatsInUse")));
  setText(byId("fact-waiting"), count(total("waiting")));
  const rejected = state.levels.reduce((all, level) => all + sum(level.rejectedPerSecond), 0);
  setText(byId("fact-served"), perSecond(total("servedPerSecond")));
  setText(byId("fact-rejected"), perSecond(rejected));
  setBad(byId("fact-rejected"), rejected > 0);
  setText(byId("fact-left"), perSecond(total("leftPerSecond")));
  setShown(byId("fact-left").parentElement, total("leftPerSecond") > 0);
  setText(byId("fact-fair"), fairText(state.seatFairFrac));
}

/** Rates by class of status code; without those that are 0. */
function showAnswers(answers, lost) {
  const parts = [...Object.entries(answers), ["no answer", lost]].filter(([, value]) => value > 0);
  const key = parts.map(([code, value]) => `${code} ${perSecond(value)}`).join();
  const place = byId("server-answers");
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...(parts.length === 0 ? ["none"] : parts.map(([code, value]) =>
    element("span", { class: code === "5xx" || code === "no answer" ? "bad" : false }, `${code} ${perSecond(value)} `))));
}

function showServer(upstream) {
  setShown(byId("server-title").parentElement, Boolean(upstream));
  if (!upstream) return;
  const mark = byId("server-state");
  mark.dataset.state = upstream.state;
  setText(mark, SERVER[upstream.state] ?? upstream.state);
  const isOne = (upstream.endpointCount ?? 1) === 1;
  const where = isOne ? upstream.address : `${count(upstream.healthyCount)} of ${count(upstream.endpointCount)} get requests`;
  setText(byId("server-title"), isOne ? "Server behind" : "Servers behind");
  setText(byId("server-address"), where);
  byId("server-address").title = visible(isOne ? where : upstream.address);
  const since = upstream.since === null ? "" : ` (since ${time(upstream.since)})`;
  setText(byId("server-problem"), upstream.problem === null ? "" : `${upstream.problem}${since}`);
  setShown(byId("server-problem"), upstream.problem !== null);
  showAnswers(upstream.answersPerSecond, upstream.failuresPerSecond);
  setText(byId("server-latency"), upstream.p50 === null ? "–" : `${duration(upstream.p50)}, ${duration(upstream.p99)}`);
  setText(byId("server-connections"), `${count(upstream.connections.open)}, ${count(upstream.connections.idle)} idle`);
}

function showConfiguration(state) {
  const { generation, source, events } = state.configuration;
  const refused = state.problems.filter((each) => CONFIGURATION.includes(each.check));
  const mark = byId("configuration-state");
  mark.dataset.state = refused.length > 0 ? "failing" : "up";
  setText(mark, refused.length > 0 ? "✕ last change refused" : "✓ in force");
  setText(byId("configuration-generation"), `generation ${count(generation)}`);
  setText(byId("configuration-problem"), refused.map((each) => each.problem).join("; "));
  byId("configuration-problem").title = byId("configuration-problem").textContent;
  setShown(byId("configuration-problem"), refused.length > 0);
  setShown(byId("refused"), refused.length > 0);
  setText(byId("configuration-source"), source || "–");
  byId("configuration-source").title = visible(source);
  const last = events.findLast((event) => !event.isError);
  setText(byId("configuration-changed"), last === undefined ? "–" : time(last.time));
}

/** Shows what the state says of all three. */
export function showCards(state) {
  showSeats(state);
  showServer(state.upstream);
  showConfiguration(state);
}
