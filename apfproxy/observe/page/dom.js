// Building and changing the page.  All text goes in as text: names come from clients.

/** The element of an id, which the page has. */
export const byId = (id) => document.getElementById(id);

/** Makes an element with attributes and children, which are elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Sets a text, if it is another one: what does not change is not laid out again. */
export function setText(node, text) {
  const value = String(text);
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
  matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener("change", callback);
}
