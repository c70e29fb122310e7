// Statistics and texts. Pure.

export const KEPT = 600;

// The last samples of a stream.
export class Window {
  #samples = [];
  push(samples) {
    this.#samples.push(...samples);
    if (this.#samples.length > KEPT) this.#samples = this.#samples.slice(-KEPT);
  }
  get samples() {
    return this.#samples;
  }
  // Known values of `what`, the oldest first.
  values(what) {
    return this.#samples.map(what).filter((value) => value !== null);
  }
}

// The smallest value that a share q of the values does not exceed (nearest rank); null without values.
export function quantile(values, q) {
  if (values.length === 0) return null;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

// Microseconds as milliseconds with what digits mean something.
export function millis(micros) {
  if (micros === null || micros === undefined) return "–";
  const ms = micros / 1000;
  const digits = Math.abs(ms) >= 100 ? 0 : Math.abs(ms) >= 10 ? 1 : 2;
  return ms.toFixed(digits);
}

export function bytes(count) {
  if (count >= 1e6) return `${(count / 1e6).toFixed(2)} MB`;
  if (count >= 1e3) return `${(count / 1e3).toFixed(0)} kB`;
  return `${count} B`;
}

export function whole(count) {
  return count.toLocaleString("en");
}

// Counts events of the last few seconds.
export class Rate {
  #times = [];
  #span;
  constructor(span) {
    this.#span = span;
  }
  add(now, count) {
    for (let n = 0; n < count; n++) this.#times.push(now);
  }
  // A second.
  at(now) {
    this.#times = this.#times.filter((time) => now - time < this.#span);
    return (this.#times.length * 1000) / this.#span;
  }
}
