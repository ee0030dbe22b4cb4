// Building and changing the page.  All text goes in as text: names come from clients.

/** The element of an id, which the page has. */
export const byId = (id) => document.getElementById(id);

/** What cannot be seen: it could hide or turn round the text beside it. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const LARGEST_SHORT = 0xffff;

/** A text with escapes for what cannot be seen. */
export function visible(text) {
  return String(text).replace(UNSEEN, (letter) => {
    const code = letter.codePointAt(0);
    const digits = code.toString(16);
    return code <= LARGEST_SHORT ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

/** Makes an element with attributes and children, which are elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return made;
}

/** The rows of a table's body by their keys, in order; each is made once, and has its element as `row`. */
export class Rows {
  #rows = new Map();
  #order = "";

  constructor(body) {
    this.body = body;
  }

  /** Shows a row for each item: `make` makes one that is new, `show` has each show its item. */
  show(items, keys, make, show) {
    for (const key of this.#rows.keys()) if (!keys.includes(key)) this.#rows.delete(key);
    items.forEach((item, place) => {
      if (!this.#rows.has(keys[place])) this.#rows.set(keys[place], make(item));
      show(this.#rows.get(keys[place]), item);
    });
    const order = JSON.stringify(keys);
    if (order === this.#order) return;
    this.#order = order;
    this.body.replaceChildren(...keys.map((key) => this.#rows.get(key).row));
  }
}

/** Sets a text, if it is another one: what does not change is not laid out again. */
export function setText(node, text) {
  const value = visible(text);
  const child = node.firstChild;
  if (child === null) node.textContent = value;
  else if (child.data !== value) child.data = value; // cheaper than another text node
}

/** Shows or hides an element. */
export function setShown(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Puts a part of a bar in its place, in parts of the bar's width, without a new layout. */
export function setSpan(node, left, width) {
  const transform = `translateX(${(left * 100).toFixed(2)}%) scaleX(${width.toFixed(4)})`;
  if (node.transform !== transform) node.style.transform = node.transform = transform;
}

/** Calls back with the width of an element, now and whenever it changes. */
export function onWidth(node, callback) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== last) callback((last = width));
  }).observe(node);
}

/** Calls back when the colours or the sharpness of the screen change. */
export function onAppearance(callback) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
  const onSharpness = () => matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener("change", () => {
    callback();
    onSharpness();
  }, { once: true });
  onSharpness();
}
