// The queues of a level as a heat map, and a flow's hand on it.

import { heatColours, HEAT_STEPS, styled } from "./colours.js";
import { byId, element, onAppearance, onWidth, setShown, setText } from "./dom.js";
import { count, roundUp } from "./numbers.js";

const MAX_QUEUES = 4096;
const LEAST_CELL = 4;
const USUAL_CELL = 20;
const MOST_CELL = 38;
const GAP = 2;
const MOST_LETTERS = 100;
const NO_HAND = "Choose a flow, among the top flows or by explaining a request, to see its hand.";

/** A name that leaves room for a sentence. */
const short = (name) => (name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name);

/** The heat map with its choice of a level. */
export class Queues {
  #select = byId("queue-level");
  #canvas = byId("heat");
  #cell = byId("heat-cell");
  #levels = [];
  #isChosen = false; // by somebody, so that it stays
  #isConnected = false; // until the first state nobody knows which levels there are
  #level = null;
  #width = 0;
  #grid = null;
  #colours;
  #own; // the style sheet's colours, which cost a layout to ask for
  #looked = null; // the queue that is looked at
  #hand = null; // { of: { priorityLevel, flowSchema, flow }, queues }
  #most = 1;

  /** Calls back with the level that is looked at, or null, with each state. */
  constructor(onLevel) {
    this.onLevel = onLevel;
    this.#select.addEventListener("change", () => {
      this.#isChosen = true;
      this.#choose(this.#select.value);
    });
    this.#canvas.addEventListener("keydown", (event) => this.#onKey(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#onPointer(event));
    this.#canvas.addEventListener("pointerleave", () => this.#look(null));
    this.#canvas.addEventListener("blur", () => this.#look(null));
    byId("hand-clear").addEventListener("click", () => this.showHand(null));
    onWidth(this.#canvas.parentElement, (width) => {
      this.#width = width;
      this.#draw();
    });
    onAppearance(() => {
      this.#readColours();
      this.#draw();
    });
    this.#readColours();
  }

  /** Shows the levels; that which is worst off is looked at until another one is chosen. */
  show(levels, worst) {
    this.#isConnected = true;
    this.#levels = levels;
    const names = this.#levels.map((level) => level.name);
    const shown = [...this.#select.options].map((option) => option.value);
    if (names.join("\n") !== shown.join("\n")) {
      const chosen = this.#select.value;
      this.#select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
      this.#isChosen &&= names.includes(chosen);
      this.#select.value = names.includes(chosen) ? chosen : (worst ?? "");
    }
    if (!this.#isChosen && worst !== undefined) this.#select.value = worst;
    if (this.#level !== null && this.#level.name !== this.#select.value) this.#choose(this.#select.value);
    else this.#follow(this.#select.value);
  }

  /** Looks at a level. */
  choose(name) {
    this.#isChosen = true;
    this.#select.value = name;
    this.#choose(name);
  }

  /** The hand that is shown: { of: { priorityLevel, flowSchema, flow }, queues }; or null. */
  get hand() {
    return this.#hand;
  }

  /** Shows a hand and the level that it is of, or none. */
  showHand(hand) {
    if (hand !== null && this.#levels.some((level) => level.name === hand.of.priorityLevel)) {
      this.choose(hand.of.priorityLevel);
    }
    this.replaceHand(hand);
  }

  /** Shows a hand, in whatever level is looked at. */
  replaceHand(hand) {
    this.#hand = hand;
    setShown(byId("hand-clear"), hand !== null);
    this.#handText();
    this.#draw();
  }

  /** Shows none, and why. */
  showNoHand(reason) {
    this.replaceHand(null);
    setText(byId("hand-text"), reason);
  }

  #choose(name) {
    this.#looked = null;
    this.#most = 1;
    this.#follow(name);
  }

  #follow(name) {
    this.#level = this.#levels.find((level) => level.name === name) ?? null;
    this.onLevel(this.#level);
    setText(byId("level-uid"), this.#level?.uid ? `UID ${this.#level.uid}` : "");
    this.#draw();
  }

  #handText() {
    const text = byId("hand-text");
    if (this.#hand === null) return setText(text, NO_HAND);
    const { of: { priorityLevel, flowSchema, flow }, queues } = this.#hand;
    const name = short(flow || flowSchema);
    const level = short(priorityLevel);
    return setText(text, queues.length === 0 ? `${name}: level ${level} deals no hands.`
      : `${name} is dealt the queues ${queues.join(", ")} of level ${level}.`);
  }

  #onKey(event) {
    if (this.#level === null || this.#grid === null) return;
    const last = this.#level.queues.length - 1;
    const now = this.#looked ?? -1;
    const columns = this.#grid.columns;
    const next = {
      ArrowLeft: now - 1, ArrowRight: now + 1, ArrowUp: now - columns, ArrowDown: now + columns,
      Home: 0, End: last, Escape: null,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#look(next === null ? null : Math.max(0, Math.min(last, next)));
    setText(byId("heat-said"), this.#cell.textContent); // aloud only what was asked for by key
  }

  #onPointer(event) {
    if (this.#level === null || this.#grid === null) return;
    const { columns, cell } = this.#grid;
    const column = Math.floor(event.offsetX / cell);
    const queue = Math.floor(event.offsetY / cell) * columns + column;
    const isInside = column < columns && queue < this.#level.queues.length;
    this.#look(isInside ? queue : null);
  }

  #look(queue) {
    if (queue === this.#looked) return;
    this.#looked = queue;
    this.#draw();
  }

  #describe() {
    const level = this.#level;
    const queue = this.#looked;
    if (!this.#isConnected) return;
    if (level === null) return setText(this.#cell, "There is no level.");
    if (level.queues.length === 0) return setText(this.#cell, "This level has no queues.");
    if (queue !== null && queue < level.queues.length) {
      const place = this.#handQueues().indexOf(queue);
      const inHand = place < 0 ? "" : `, card ${place + 1} of the hand`;
      return setText(this.#cell,
        `Queue ${queue}: ${level.queues[queue]} waiting, ${level.queueSeats[queue]} seats in use${inHand}`);
    }
    const used = level.queues.filter((waiting) => waiting > 0).length;
    const first = level.queues.length < level.queueCount ? ` of the first ${count(level.queues.length)}` : "";
    return setText(this.#cell,
      `${count(level.queueCount)} queues, ${count(used)}${first} with something waiting, ${count(level.waiting)} requests in all`);
  }

  #handQueues() {
    return this.#hand !== null && this.#hand.of.priorityLevel === this.#level?.name ? this.#hand.queues : [];
  }

  #layOut(queues) {
    let columns = Math.max(1, Math.floor(this.#width / USUAL_CELL));
    for (const tidy of [64, 32, 16, 8]) {
      if (columns >= tidy) { columns = tidy; break; }
    }
    while (Math.ceil(queues / columns) > columns && this.#width / (columns * 2) >= LEAST_CELL) columns *= 2;
    columns = Math.min(columns, queues);
    const cell = Math.min(MOST_CELL, Math.floor(this.#width / columns));
    const rows = Math.ceil(queues / columns);
    const grid = this.#grid;
    const sharpness = devicePixelRatio;
    if (grid?.columns === columns && grid.cell === cell && grid.rows === rows && grid.sharpness === sharpness) return;
    this.#grid = { columns, cell, rows, sharpness };
    this.#canvas.width = columns * cell * sharpness;
    this.#canvas.height = rows * cell * sharpness;
    this.#canvas.style.width = `${columns * cell}px`;
    this.#canvas.style.height = `${rows * cell}px`;
  }

  #draw() {
    this.#describe();
    const level = this.#level;
    const hasQueues = level !== null && level.queues.length > 0;
    setShown(this.#canvas, hasQueues);
    setShown(byId("heat-scale"), hasQueues);
    setShown(byId("heat-help"), hasQueues);
    if (!hasQueues || this.#width === 0) return;
    const queues = Math.min(level.queues.length, MAX_QUEUES);
    this.#layOut(queues);
    let most = 1;
    let mostSeats = 1;
    for (let queue = 0; queue < queues; queue += 1) {
      most = Math.max(most, level.queues[queue]);
      mostSeats = Math.max(mostSeats, level.queueSeats[queue]);
    }
    // Follows at once what grows, and slowly what shrinks: else the colours would flicker.
    this.#most = Math.max(roundUp(most), most < this.#most / 4 ? roundUp(this.#most / 4) : this.#most);
    setText(byId("heat-most"), count(this.#most));

    const context = this.#canvas.getContext("2d");
    const { columns, cell, sharpness } = this.#grid;
    const gap = cell > 8 ? GAP : 1;
    const size = cell - gap;
    context.setTransform(sharpness, 0, 0, sharpness, 0, 0);
    context.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    const { cell: empty, seat: seatColour } = this.#own;
    for (let queue = 0; queue < queues; queue += 1) {
      const x = (queue % columns) * cell;
      const y = Math.floor(queue / columns) * cell;
      const waiting = level.queues[queue];
      context.fillStyle = waiting === 0
        ? empty : this.#colours[Math.round((waiting / this.#most) * (HEAT_STEPS - 1))];
      context.fillRect(x, y, size, size);
      const seats = level.queueSeats[queue];
      if (seats > 0 && cell > 8) {
        context.fillStyle = seatColour;
        const width = Math.max(3, (size - 4) * (seats / mostSeats));
        context.fillRect(x + 2, y + size - 5, width, 3);
      }
    }
    this.#drawHand(context, queues);
    if (this.#looked !== null && this.#looked < queues) this.#outline(context, this.#looked, this.#own.ink, 2);
  }

  #drawHand(context, queues) {
    const { columns, cell } = this.#grid;
    this.#handQueues().forEach((queue, place) => {
      if (queue >= queues) return;
      this.#outline(context, queue, this.#own.panel, 4);
      this.#outline(context, queue, this.#own.hand, 2);
      if (cell < 14) return;
      const x = (queue % columns) * cell;
      const y = Math.floor(queue / columns) * cell;
      context.fillStyle = this.#own.hand;
      context.fillRect(x, y, 10, 11);
      context.fillStyle = this.#own.panel;
      context.font = "bold 9px system-ui, sans-serif";
      context.textAlign = "center";
      context.fillText(String(place + 1), x + 5, y + 8.5);
    });
  }

  #outline(context, queue, colour, width) {
    const { columns, cell } = this.#grid;
    const size = cell - (cell > 8 ? GAP : 1);
    const x = (queue % columns) * cell;
    const y = Math.floor(queue / columns) * cell;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
  }

  #readColours() {
    this.#own = Object.fromEntries(["cell", "seat", "hand", "ink", "panel"].map((name) => [name, styled(name)]));
    this.#colours = heatColours();
    const ramp = byId("heat-ramp");
    const context = ramp.getContext("2d");
    const step = ramp.width / HEAT_STEPS;
    this.#colours.forEach((colour, place) => {
      context.fillStyle = colour;
      context.fillRect(place * step, 0, step + 1, ramp.height);
    });
  }
}
