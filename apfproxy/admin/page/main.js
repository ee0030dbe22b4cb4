// Puts the parts of the page together, and draws at most once a frame.

import { ask, showWorker } from "./ask.js";
import { showCards } from "./cards.js";
import { byId, setShown, setText } from "./dom.js";
import { Endpoints } from "./endpoints.js";
import { showEvents } from "./events.js";
import { Explain } from "./explain.js";
import { Feed } from "./feed.js";
import { Fleet } from "./fleet.js";
import { Flows } from "./flows.js";
import { History } from "./history.js";
import { Levels } from "./levels.js";
import { duration, time } from "./numbers.js";
import { Queues } from "./queues.js";
import { Requests } from "./requests.js";
import { Schemas } from "./schemas.js";
import { Tokens } from "./tokens.js";
import { showStale, showVerdict } from "./verdict.js";

const CONNECTION = { connecting: "connecting", live: "live", paused: "paused", lost: "no connection; trying again" };

/** Ends the task: with parts made one by one the page answers in between while it loads. */
const breath = () => new Promise((resolve) => setTimeout(resolve));

const history = new History();
const requests = new Requests();
const levels = new Levels(showLevel);
await breath();
const queues = new Queues((level) => { requests.level = level; });
const schemas = new Schemas();
const endpoints = new Endpoints();
const fleet = new Fleet();
const tokens = new Tokens();
await breath();
const flows = new Flows(showHandOf);
new Explain((hand) => queues.showHand(hand));
await breath();

showWorker();

let state = null;
let isDue = false;
let connection = "connecting";
let generation = null; // of the configuration that hands are of; null: of another proxy's, perhaps
let plots = null; // come later, in a task of their own
let limit = null; // likewise

import("./plots.js").then(({ Plots }) => {
  plots = new Plots(history);
  plots.show();
  return import("./limit.js");
}).then(({ Limit }) => {
  limit = new Limit(history);
  draw();
});

/** Asks for a frame in which the newest state is drawn. */
function draw() {
  if (isDue || state === null) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    drawNow();
  });
}

function drawNow() {
  const { version, startTime } = state.proxy;
  const nowS = Math.max(state.time, history.times.at(-1) ?? 0); // a state that stays is not sent again
  setText(byId("version"), version);
  setText(byId("cluster"), state.cluster ?? "");
  setShown(byId("of-cluster"), Boolean(state.cluster));
  setText(byId("uptime"), `up ${duration(Math.max(1, Math.floor(nowS - startTime)))}`);
  setShown(byId("uptime"), startTime > 0);
  showEnforcement(state.enforcement === "observe");
  if (connection === "live") showVerdict(state.verdict);
  else showStale(`${connection === "paused" ? "Paused" : "No connection to the proxy"}: all below is of ${time(nowS)}.`, state.verdict);
  showCards(state);
  endpoints.show(state.upstream);
  limit?.show(state.foundLimit);
  fleet.show(state.fleet, Boolean(state.workers));
  levels.show(state.levels, (name) => history.last(name), (name, s) => history.isIdleFor(name, s), nowS);
  tokens.show(state.levels);
  queues.show(state.levels, levels.worst);
  flows.show(state.topFlows, state.banCommand);
  schemas.show(state.flowSchemas, state.flowSchemaCount);
  showEvents(state.configuration.events);
  if (generation === state.configuration.generation) return;
  generation = state.configuration.generation;
  if (queues.hand !== null) dealAgain(queues.hand.of);
}

/** Says whether what is shown happens, or would happen. */
function showEnforcement(isObserving) {
  setShown(byId("enforcement"), isObserving);
  for (const label of document.querySelectorAll("[data-would]")) {
    label.dataset.does ??= label.textContent;
    setText(label, isObserving ? label.dataset.would : label.dataset.does);
  }
}

/** Looks into a level, on its name's button. */
function showLevel(name) {
  queues.choose(name);
  byId("level").scrollIntoView({ block: "nearest" });
}

async function handOf({ priorityLevel, flowSchema, flow }) {
  const isThere = state.levels.some((level) => level.name === priorityLevel);
  if (!isThere) throw new Error(`There is no level ${priorityLevel} any more.`);
  const { hand } = await ask("debug/live/hand", new URLSearchParams({ priorityLevel, flowSchema, flow }));
  return hand;
}

async function showHandOf(flow) {
  try {
    queues.showHand({ of: flow, queues: await handOf(flow) });
  } catch (error) {
    queues.showNoHand(error.message);
  }
}

/** Asks for the hand that is shown once more: there may be other queues, or another seed. */
async function dealAgain(flow) {
  const isShown = () => queues.hand?.of === flow;
  try {
    const hand = { of: flow, queues: await handOf(flow) };
    if (isShown()) queues.replaceHand(hand);
  } catch (error) {
    if (isShown()) queues.showNoHand(error.message);
  }
}

const feed = new Feed({
  onState: (received) => {
    state = received;
    draw();
  },
  onHistory: (columns) => {
    generation = null; // it may be another proxy than before
    history.replace(columns);
    plots?.show();
    draw();
  },
  onSeconds: (columns) => {
    history.add(columns);
    plots?.show();
    draw();
  },
  onConnection: (now) => {
    connection = now;
    byId("connection").dataset.state = now;
    setText(byId("connection-text"), CONNECTION[now]);
    requests.isLive = now === "live";
    if (now === "lost" || now === "paused") draw();
  },
});

const pause = byId("pause");
pause.addEventListener("click", () => {
  const isPaused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(isPaused));
  feed.isPaused = isPaused;
});
byId("own-scale").addEventListener("change", draw);
