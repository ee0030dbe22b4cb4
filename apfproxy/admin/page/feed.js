// What comes from the server: the connection, and what to do without it.

import { address } from "./ask.js";

const RETRY_MS = 5000;

/**
 * Listens while the page is visible and not paused.
 *
 * The handlers are onState, onHistory, onSeconds, and onConnection with one of
 * connecting, live, paused, lost.
 */
export class Feed {
  #source = null;
  #retry = 0;
  #isPaused = false;

  constructor(handlers) {
    this.handlers = handlers;
    document.addEventListener("visibilitychange", () => this.#follow());
    this.#follow();
  }

  set isPaused(value) {
    this.#isPaused = value;
    this.#follow();
  }

  #follow() {
    if (document.hidden || this.#isPaused) {
      this.#close();
      this.handlers.onConnection("paused");
    } else if (this.#source === null) {
      this.#open();
    }
  }

  #open() {
    this.handlers.onConnection("connecting");
    const source = (this.#source = new EventSource(address("events")));
    const on = (name, handler) =>
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    source.addEventListener("open", () => this.handlers.onConnection("live"));
    on("state", this.handlers.onState);
    on("history", this.handlers.onHistory);
    on("seconds", this.handlers.onSeconds);
    source.addEventListener("error", () => {
      this.handlers.onConnection("lost");
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      this.#close();
      this.#retry = setTimeout(() => this.#follow(), RETRY_MS);
    });
  }

  #close() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
  }
}
