// What happened to the configuration, newest first.

import { byId, element, setShown, setText } from "./dom.js";
import { time } from "./numbers.js";

let shown = "";

/** Shows the events of the state. */
export function showEvents(events) {
  const key = JSON.stringify(events);
  if (key === shown) return;
  shown = key;
  setText(byId("events-none"), "Nothing has happened yet.");
  setShown(byId("events-none"), events.length === 0);
  byId("events").replaceChildren(...[...events].reverse().map((event) =>
    element("li", { class: event.isError ? "error" : false },
      element("time", { datetime: new Date(event.time * 1000).toISOString() }, time(event.time)),
      element("span", { class: "mark" }, event.isError ? "✕ error" : "change"),
      element("span", { class: "message" }, event.message))));
}
