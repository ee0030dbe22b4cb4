// What is wrong, in words; the sentences are the server's.

import { byId, element, setText } from "./dom.js";

const ICONS = { error: "✕", warning: "!", note: "i", ok: "✓", unknown: "…" };
const KINDS = { error: "Error: ", warning: "Warning: ", note: "Note: ", ok: "", unknown: "" };
const MOST_LINES = 5;
const HOLD_MS = 15_000; // lines that are gone keep their room for so long: else the page would jump

const place = byId("verdict");
const icon = place.querySelector(".icon");
const list = byId("verdict-more");
let key = "";
let heldLines = 0;
let heldSince = 0;

/** A sentence with a capital letter, unless a name begins it. */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Sentences begin with a name where a level or a user does something. */
function sentence(text) {
  return /^(all|the|flow|health|nothing) /.test(text) ? capital(text) : text;
}

function showFirst(severity, text) {
  setText(icon, ICONS[severity]);
  setText(byId("verdict-kind"), KINDS[severity]);
  setText(byId("verdict-text"), sentence(text));
  if (place.dataset.severity === severity) return;
  place.dataset.severity = severity;
  setText(byId("verdict-said"), KINDS[severity] + sentence(text)); // aloud only when it gets better or worse
}

/** Keeps room for as many lines as there were lately. */
function hold(lines) {
  const now = performance.now();
  if (lines < heldLines && now - heldSince < HOLD_MS) return;
  heldSince = now;
  if (lines === heldLines) return;
  heldLines = lines;
  list.style.setProperty("--lines", String(lines));
}

/** Shows the sentences of the state, the first one large. */
export function showVerdict([first, ...others]) {
  showFirst(first.severity, first.text);
  showMore(others);
}

/** Says that what is shown is of a while ago; then come the sentences of that time. */
export function showStale(text, findings) {
  showFirst("unknown", text);
  showMore(findings);
}

function showMore(others) {
  hold(Math.min(others.length, MOST_LINES + 1));
  const shown = JSON.stringify(others);
  if (shown === key) return;
  key = shown;
  const more = others.length - MOST_LINES;
  list.replaceChildren(
    ...others.slice(0, MOST_LINES).map(({ severity, text }) => element("li", { class: severity },
      element("span", { class: "icon", "aria-hidden": "true" }, ICONS[severity]),
      element("span", { class: "hidden" }, KINDS[severity]),
      element("span", {}, sentence(text)))),
    ...(more > 0 ? [element("li", {}, `and ${more} more`)] : []));
}
