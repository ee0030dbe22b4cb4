// The last 15 minutes, as the server has them and as they grow.

const SECONDS = 900;

/** Columns of numbers by level: { times, levels: { name: { field: [...] } }, limits }. */
export class History {
  times = [];
  levels = new Map();
  limits = []; // of the server, where they are found

  /** Starts anew with what the server has. */
  replace(columns) {
    this.times = columns.times;
    this.limits = columns.limits ?? [];
    this.levels = new Map(Object.entries(columns.levels));
  }

  /** Adds the newest seconds, and forgets what is older than 15 minutes. */
  add(columns) {
    const before = this.times.length;
    const added = columns.times.length;
    const back = this.times[before - 1] - columns.times[0];
    // The clock was put back: what was before follows it, so that the times go on growing.
    if (back >= 0) this.times = this.times.map((time) => time - back - 1);
    this.times.push(...columns.times);
    for (const [name, fields] of Object.entries(columns.levels)) {
      if (!this.levels.has(name)) {
        this.levels.set(name, Object.fromEntries(
          Object.keys(fields).map((field) => [field, Array(before).fill(null)])));
      }
    }
    const first = Math.max(0, this.times.length - SECONDS);
    this.times.splice(0, first);
    this.limits.push(...(columns.limits ?? []));
    this.limits.splice(0, first);
    for (const [name, fields] of this.levels) {
      for (const [field, values] of Object.entries(fields)) {
        values.push(...(columns.levels[name]?.[field] ?? Array(added).fill(null)));
        values.splice(0, first);
      }
      if (fields.waiting.every((value) => value === null)) this.levels.delete(name);
    }
  }

  /** The newest second of a level: { served, rejected, ... }; undefined without any. */
  last(name) {
    const fields = this.levels.get(name);
    if (fields === undefined || this.times.length === 0) return undefined;
    return Object.fromEntries(
      Object.entries(fields).map(([field, values]) => [field, values[values.length - 1]]));
  }

  /** Whether a level did nothing in the last seconds, as far as is known. */
  isIdleFor(name, seconds) {
    const fields = this.levels.get(name);
    if (fields === undefined) return true;
    const isNothing = (value) => !value;
    return ["served", "failed", "rejected", "waiting", "seatsInUse"].every((field) =>
      fields[field].slice(-seconds).every(isNothing));
  }

  /** The levels with those first that served or rejected most. */
  busiest() {
    const work = (fields) => {
      let sum = 0;
      for (const field of ["served", "failed", "rejected"]) {
        for (const value of fields[field]) sum += value ?? 0;
      }
      return sum;
    };
    return [...this.levels].map(([name, fields]) => [name, work(fields)])
      .sort((one, two) => two[1] - one[1] || (one[0] < two[0] ? -1 : 1)).map(([name]) => name);
  }
}
