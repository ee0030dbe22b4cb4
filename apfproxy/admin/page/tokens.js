// The tokens of completions, where a priority level counts them.

import { byId, element, Rows, setShown, setText } from "./dom.js";
import { count, duration, rate } from "./numbers.js";

const LABELS = ["Streams", "Tokens/s", "Prompts/s", "First token", "With a seat", "Between tokens"];

class Row {
  constructor(name) {
    this.numbers = LABELS.map(() => element("b"));
    this.notes = LABELS.map(() => element("small"));
    this.row = element("tr", { role: "row" },
      element("th", { role: "rowheader", scope: "row" }, element("span", { class: "name", title: name }, name)),
      ...LABELS.map((label, place) =>
        element("td", { role: "cell", class: "number", "data-label": label }, this.numbers[place], this.notes[place])));
  }

  show(tokens) {
    const p99 = (seconds) => (seconds === null ? "\u00a0" : `p99 ${duration(seconds)}`);
    const cells = [
      [count(tokens.openStreams), `${count(tokens.completions)} ended`],
      [rate(tokens.tokensPerSecond), `${count(tokens.completionTokens)} in all`],
      [rate(tokens.promptTokensPerSecond), `${count(tokens.promptTokens)} in all`],
      [duration(tokens.firstTokenP50), p99(tokens.firstTokenP99)],
      [duration(tokens.firstTokenExecutingP50), "\u00a0"],
      [duration(tokens.betweenTokensP50), p99(tokens.betweenTokensP99)],
    ];
    cells.forEach(([number, note], place) => {
      setText(this.numbers[place], number);
      setText(this.notes[place], note);
    });
  }
}

/** The table of levels with tokens; it is only there where there are some. */
export class Tokens {
  #rows = new Rows(byId("token-rows"));

  show(levels) {
    const counted = levels.filter(({ tokens }) => tokens);
    setShown(byId("tokens"), counted.length > 0);
    this.#rows.show(counted, counted.map(({ name }) => name), ({ name }) => new Row(name), (row, { tokens }) => row.show(tokens));
  }
}
