// Numbers as people read them.  By hand: Intl takes 30 ms to begin with, when the page loads.

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

const two = (number) => String(number).padStart(2, "0");

/** A large number in three digits or so. */
function short(value) {
  const [size, unit] = UNITS.find(([least]) => value >= least);
  const scaled = value / size;
  return `${scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)}${unit}`;
}

/** A count: exact below 100 000, then short. */
export function count(value) {
  if (value >= 100000) return short(value);
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A rate or another quantity in at most four digits. */
export function quantity(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) || value >= 100) return count(value);
  if (value >= 10) return value.toFixed(1);
  if (value >= 0.095) return value.toFixed(2);
  return value >= 0.0095 ? value.toFixed(3) : String(Number(value.toPrecision(1)));
}

/** Requests per second, and the like. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 9.95) return count(value);
  return String(Number(value >= 0.095 ? value.toFixed(1) : value.toPrecision(1)));
}

/** Hours and minutes, of seconds since 1970. */
export function minute(unixS) {
  const date = new Date(unixS * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** A time of day, of seconds since 1970; with the day, if it is not today. */
export function time(unixS) {
  const date = new Date(unixS * 1000);
  const text = `${minute(unixS)}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return text;
  return `${date.toDateString().slice(4, 10)} ${text}`;
}

/** The next of 1, 2, 5, 10, 20, 50, ... that is not less. */
export function roundUp(value) {
  let unit = 1;
  while (unit * 10 < value) unit *= 10;
  return [1, 2, 5, 10].map((times) => times * unit).find((bound) => bound >= value) ?? 1;
}

const SPANS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

/** A duration in seconds: 45 ms, 2.5 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.9995) return `${Number((seconds * 1000).toFixed(seconds < 0.0095 ? 1 : 0))} ms`;
  if (seconds < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  const [size, unit, part, partUnit] = SPANS.find(([least]) => seconds >= least);
  const rest = Math.floor((seconds % size) / part);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${partUnit}` : ""}`;
}
