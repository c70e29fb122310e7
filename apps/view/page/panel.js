// Cards of the streams, the table of stages, the facts of a scan: everything that is text.

import { CLASSES, classOf } from "./classes.js";
import { bytes, millis, quantile, whole } from "./figures.js";
import { LOCAL, STAGES } from "./message.js";
import { drawSpark } from "./spark.js";

const SPARK = 150; // samples of a line
const element = (id) => document.getElementById(id);
const write = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const STATES = { waiting: "waiting", running: "running", ended: "ended", failed: "failed" };

// The colours of the lines, as the style sheet has them now.
function inks() {
  const style = getComputedStyle(document.documentElement);
  const [line, mark, loss] = ["--accent", "--local", "--bad"].map((name) => style.getPropertyValue(name));
  return { line, mark, loss };
}

export class Panel {
  #cards = [];
  #rows = [];
  #choose;
  #inks = {};

  // `choose` is called with the place of the stream to look at.
  constructor(choose) {
    this.#choose = choose;
    for (const kind of CLASSES.values()) {
      const sign = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      sign.setAttribute("viewBox", "0 0 16 16");
      sign.setAttribute("aria-hidden", "true");
      const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
      shape.setAttribute("d", kind.sign);
      shape.setAttribute("fill", "none");
      shape.setAttribute("stroke-width", "2");
      sign.append(shape);
      const item = make("li", {}, sign, kind.name);
      item.kind = kind;
      item.shape = shape;
      element("legend").append(item);
    }
  }

  colour(appearance) {
    this.#inks = inks();
    for (const { kind, shape } of element("legend").children) shape.setAttribute("stroke", kind[appearance]);
  }

  clear() {
    element("streams").replaceChildren();
    element("stages").tHead.replaceChildren();
    element("stages").tBodies[0].replaceChildren();
    this.#cards = [];
    this.#rows = [];
  }

  // Texts and lines of all streams; `streams` have label, state, counts and window.
  update(streams, shown) {
    if (streams.length !== this.#cards.length) this.#build(streams);
    streams.forEach((stream, n) => this.#card(this.#cards[n], stream, n === shown));
    if (streams[shown]) this.#stages(streams, shown);
  }

  #build(streams) {
    this.clear();
    this.#cards = streams.map((stream, n) => {
      const input = make("input", { type: "radio", name: "stream", value: n });
      input.addEventListener("change", () => this.#choose(n));
      const parts = {
        input,
        name: make("strong"),
        state: make("span", { class: "state" }),
        spark: make("canvas", { class: "spark", "aria-hidden": "true" }),
        median: make("dd"), p95: make("dd"), p99: make("dd"),
        counts: make("p", { class: "counts" }),
        why: make("p", { class: "why" }),
      };
      const figure = (name, node) => make("div", {}, make("dt", {}, name), node);
      element("streams").append(make("label", { class: "card" }, input,
        make("div", { class: "head" }, parts.name, parts.state), parts.spark,
        make("dl", {}, figure("Median, ms", parts.median), figure("95 %, ms", parts.p95), figure("99 %, ms", parts.p99)),
        parts.counts, parts.why));
      return parts;
    });
    const head = make("tr", {}, make("th", { scope: "col" }, "Stage"), make("th", { scope: "col" }, "Last scans"));
    const names = streams.map(({ label }) => make("th", { scope: "col", class: "number" }, label));
    head.append(...names);
    element("stages").tHead.append(head);
    this.#rows = [...STAGES, "total, scan to list"].map((stage, n) => {
      const spark = make("canvas", { class: "spark", "aria-hidden": "true" });
      const cells = streams.map(() => {
        const [middle, high] = [make("span"), make("small")];
        return { middle, high, cell: make("td", { class: "number" }, middle, high) };
      });
      const row = make("tr", n === STAGES.length ? { class: "total" } : {},
        make("th", { scope: "row" }, stage), make("td", {}, spark), ...cells.map(({ cell }) => cell));
      element("stages").tBodies[0].append(row);
      return { spark, cells };
    });
    this.#rows.names = names;
  }

  #card(card, { label, state, counts, window }, shown) {
    card.input.checked = shown;
    write(card.name, label);
    write(card.state, state.is === "running" ? state.detail : STATES[state.is]);
    card.state.dataset.is = state.is;
    write(card.why, state.is === "failed" ? state.detail : "");
    const ages = window.values(({ age }) => age);
    write(card.median, millis(quantile(ages, 0.5)));
    write(card.p95, millis(quantile(ages, 0.95)));
    write(card.p99, millis(quantile(ages, 0.99)));
    drawSpark(card.spark, window.samples.slice(-SPARK).map(({ age, source }) => ({ value: age, marked: source === LOCAL })), this.#inks);
    const spans = [[counts.scans, "scans", ""], [counts.edge, "by edge", ""],
      [counts.unanswered, "without list", counts.unanswered ? "loss" : ""]];
    if (counts.local) spans.splice(2, 0, [counts.local, "local", "by-local"]);
    if (counts.skipped) spans.push([counts.skipped, "not seen here", ""]);
    if (!counts.scans) spans.length = 0;
    const key = JSON.stringify(spans);
    if (card.counts.dataset.key === key) return;
    card.counts.dataset.key = key;
    card.counts.replaceChildren(...spans.flatMap(([count, what, kind], n) => [
      n ? " · " : "", make("span", kind ? { class: kind } : {}, make("b", {}, whole(count)), ` ${what}`)]));
  }

  #stages(streams, shown) {
    write(element("stages-of"), streams[shown].label);
    this.#rows.names.forEach((name, n) => name.classList.toggle("shown", n === shown));
    this.#rows.forEach(({ spark, cells }, row) => {
      const value = (sample) => (row < STAGES.length ? sample.stages[row] : sample.total);
      streams.forEach(({ window }, n) => {
        const values = window.values(value);
        write(cells[n].middle, millis(quantile(values, 0.5)));
        write(cells[n].high, millis(quantile(values, 0.95)));
      });
      const samples = streams[shown].window.samples.slice(-SPARK).filter((sample) => value(sample) !== null);
      drawSpark(spark, samples.map((sample) => ({ value: value(sample), marked: false })), this.#inks);
    });
  }

  // `rates`: scans drawn here and scans of the vehicle, a second.
  facts(frame, points, age, [drawn, told]) {
    write(element("fact-scan"), frame ? `${frame.sequence}` : "–");
    write(element("fact-points"), frame ? whole(points) : "–");
    write(element("fact-bytes"), frame ? bytes(frame.bytes) : "–");
    write(element("fact-objects"), frame && frame.source ? whole(frame.objects.length + frame.more_objects) : "–");
    write(element("fact-source"), frame ? frame.source ?? "nobody" : "–");
    write(element("fact-age"), age === null ? "–" : `${millis(age)} ms`);
    write(element("fact-drawn"), frame ? `${drawn.toFixed(1)} of ${told.toFixed(1)} /s` : "–");
    const rows = (frame?.objects ?? []).map((object) => make("tr", {},
      make("td", {}, classOf(object.class).name),
      make("td", { class: "number" }, object.score.toFixed(2)),
      make("td", { class: "number" }, Math.hypot(object.center[0], object.center[1]).toFixed(1)),
      make("td", { class: "number" }, object.size.map((side) => side.toFixed(1)).join(" × "))));
    if (element("objects").closest("details").open) element("objects").tBodies[0].replaceChildren(...rows);
  }
}
