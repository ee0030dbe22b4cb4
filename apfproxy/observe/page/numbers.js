// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A count: exact up to 99 999, then short. */
export const count = (value) => (value < 100000 ? whole : short).format(value);

/** A rate or another quantity in at most four digits. */
export function quantity(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) || value >= 100000) return count(value);
  if (value >= 100) return whole.format(value);
  if (value >= 10) return value.toFixed(1);
  return value >= 0.095 ? value.toFixed(2) : value.toFixed(3);
}

/** A time of day, of seconds since 1970; with the day, if it is not today. */
export function time(unixS) {
  const date = new Date(unixS * 1000);
  const text = clockWithSeconds.format(date);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? text : `${day.format(date)} ${text}`;
}

/** Hours and minutes, of seconds since 1970. */
export const minute = (unixS) => clock.format(new Date(unixS * 1000));

/** The next of 1, 2, 5, 10, 20, 50, ... that is not less. */
export function roundUp(value) {
  let unit = 1;
  while (unit * 10 < value) unit *= 10;
  return [1, 2, 5, 10].map((times) => times * unit).find((bound) => bound >= value) ?? 1;
}
