// Puts the parts of the page together, and draws at most once a frame.

import { ask } from "./ask.js";
import { byId, setShown, setText } from "./dom.js";
import { showEvents } from "./events.js";
import { Explain } from "./explain.js";
import { Feed } from "./feed.js";
import { Flows } from "./flows.js";
import { History } from "./history.js";
import { Levels } from "./levels.js";
import { count, quantity } from "./numbers.js";
import { Queues } from "./queues.js";

const CONNECTION = { connecting: "connecting", live: "live", paused: "paused", lost: "no connection; trying again" };

/** Ends the task: with parts made one by one the page answers in between while it loads. */
const breath = () => new Promise((resolve) => setTimeout(resolve));

const history = new History();
const levels = new Levels();
await breath();
const queues = new Queues();
await breath();
const flows = new Flows(showHandOf);
new Explain((hand) => queues.showHand(hand));
await breath();

let state = null;
let isDue = false;
let generation = null; // of the configuration that hands are of; null: of another proxy's, perhaps
let plots = null; // come later, in a task of their own

import("./plots.js").then(({ Plots }) => {
  plots = new Plots(history);
  plots.show();
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
  const sum = (field) => state.levels.reduce((total, level) => total + level[field], 0);
  setText(byId("fact-seats"), count(state.serverConcurrencyLimit));
  setText(byId("fact-used"), count(sum("seatsInUse")));
  setText(byId("fact-waiting"), count(sum("waiting")));
  setText(byId("fact-fair"), quantity(state.seatFairFrac));
  setText(byId("fact-generation"), count(state.configuration.generation));
  setShown(byId("enforcement"), state.enforcement === "observe");
  levels.show(state.levels, (name) => history.last(name));
  queues.show(state.levels);
  flows.show(state.topFlows);
  showEvents(state.configuration.events);
  if (generation === state.configuration.generation) return;
  generation = state.configuration.generation;
  if (queues.hand !== null) dealAgain(queues.hand.of);
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
  onConnection: (connection) => {
    byId("connection").dataset.state = connection;
    setText(byId("connection-text"), CONNECTION[connection]);
  },
});

const pause = byId("pause");
pause.addEventListener("click", () => {
  const isPaused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(isPaused));
  feed.isPaused = isPaused;
});
byId("same-scale").addEventListener("change", draw);
