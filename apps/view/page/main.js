// The page: asks for what is new, and shows it.

import * as cameras from "./camera.js";
import { control } from "./controls.js";
import { Rate, Window } from "./figures.js";
import { decode, POINT, sample } from "./message.js";
import { drawOverlay } from "./overlay.js";
import { Panel } from "./panel.js";
import { RAMPS, rangeOf, rgb, Scene } from "./scene.js";
import { theme } from "./theme.js";

const STALE = 3000; // ms without a frame
const PANEL = 250; // ms between changes of figures, which nobody reads faster
const PATIENCE = 5000; // ms for an answer that comes within 1 s
const SPAN = 3000; // ms that rates are of
const RETRY = 1500; // ms between attempts to reach the program

const element = (id) => document.getElementById(id);
const canvas = element("cloud");
const overlay = element("overlay");
const panel = new Panel((stream) => look(stream));

const state = {
  run: null,
  version: 0,
  ended: false,
  lost: false,
  streams: [],
  shown: null, // the stream that is looked at
  chosen: false, // by the user; else the one that runs
  frame: null,
  points: new Uint8Array(0),
  age: null,
  came: null, // when the last frame came
  drawn: new Rate(SPAN),
  told: new Rate(SPAN),
  appearance: "light",
  by: "height",
  range: [0, 1],
  camera: cameras.start(false),
  dirty: true,
  panelDirty: true,
};

let scene = null;
try {
  scene = new Scene(canvas);
} catch (error) {
  say(`${error.message}: boxes and figures only`);
}

theme(element("theme"), (appearance) => {
  state.appearance = appearance;
  panel.colour(appearance);
  element("ramp").style.background = `linear-gradient(to right, ${RAMPS[appearance].join(", ")})`;
  state.dirty = state.panelDirty = true;
});
const project = (above) => {
  state.camera = cameras.start(above);
  document.querySelector(`#projection input[value=${above ? "above" : "perspective"}]`).checked = true;
  state.dirty = true;
};
element("projection").addEventListener("change", ({ target }) => project(target.value === "above"));
element("reset").addEventListener("click", () => project(state.camera.above));
element("colour").addEventListener("change", ({ target }) => {
  state.by = target.value;
  measure();
});
element("labels").addEventListener("change", () => (state.dirty = true));
control(canvas, () => state.camera, {
  changed: () => (state.dirty = true),
  reset: () => project(state.camera.above),
  toggle: () => project(!state.camera.above),
});
new ResizeObserver(() => (state.dirty = state.panelDirty = true)).observe(element("canvas-frame"));

function look(stream) {
  state.chosen = true;
  show(stream);
}

function show(stream) {
  if (stream === state.shown) return;
  state.shown = stream;
  state.came = null;
  state.drawn = new Rate(SPAN);
  state.told = new Rate(SPAN);
  state.asking?.abort();
  place(null, new Uint8Array(0));
  // Everything is asked for again: the newest frame of this stream may be old.
  state.version = 0;
}

// What the ramp spans, and its ends in words.
function measure() {
  const rings = state.frame?.rings ?? 0;
  const ring = document.querySelector("#colour input[value=ring]");
  ring.disabled = state.frame !== null && rings === 0;
  if (ring.disabled && state.by === "ring") {
    state.by = "height";
    document.querySelector("#colour input[value=height]").checked = true;
  }
  const range = rangeOf(state.by, state.points, state.frame?.unit ?? 1, rings);
  // Heights settle, so that colours do not flicker from scan to scan.
  const settles = state.by === "height" && state.ranged === "height";
  state.range = range.map((value, n) => (settles ? state.range[n] * 0.9 + value * 0.1 : value));
  state.ranged = state.frame ? state.by : null;
  const [low, high] = state.range;
  const ends = {
    height: [`${low.toFixed(1)} m`, `${high.toFixed(1)} m`],
    intensity: ["0", `${high} and more`],
    ring: ["ring 0", `${high}`],
  }[state.by];
  element("scale-low").textContent = ends[0];
  element("scale-high").textContent = ends[1];
  element("scale").hidden = state.points.byteLength === 0;
  state.dirty = true;
}

function place(frame, points) {
  state.frame = frame;
  state.points = points;
  scene?.show(points, frame?.unit ?? 1);
  measure();
}

function take({ head, points }) {
  if (head.run !== state.run) {
    // Another program run, or the first: nothing of the one before belongs to it.
    const [known, version] = [state.run !== null, state.version];
    Object.assign(state, { run: head.run, version: 0, streams: [], shown: null, chosen: false, ended: false, came: null });
    panel.clear();
    if (known) place(null, new Uint8Array(0));
    if (version !== 0) return;
  }
  const again = state.version === 0;
  state.version = head.version;
  state.ended = head.ended;
  head.streams.forEach((stream, n) => {
    const { samples, ...rest } = stream;
    const window = again ? new Window() : (state.streams[n]?.window ?? new Window());
    window.push(samples.map(sample));
    if (n === state.shown && !again) state.told.add(performance.now(), samples.length);
    state.streams[n] = { ...rest, window };
  });
  if (head.frame) {
    place(head.frame, points);
    state.came = performance.now();
    state.drawn.add(state.came, 1);
    state.age = state.streams[state.shown]?.window.samples.findLast(({ sequence }) => sequence === head.frame.sequence)?.age ?? null;
    canvas.dataset.frames = Number(canvas.dataset.frames) + 1;
    canvas.dataset.points = points.byteLength / POINT;
  }
  state.panelDirty = true;
  const running = state.streams.findLastIndex(({ state: { is } }) => is === "running");
  if (!state.chosen && running >= 0) show(running);
  else if (state.shown === null && state.streams.length > 0) show(0);
}

const pause = (time) => new Promise((done) => setTimeout(done, time));
const drawn = () => new Promise((done) => requestAnimationFrame(done));
const visible = () => new Promise((done) => {
  if (!document.hidden) return done();
  document.addEventListener("visibilitychange", () => done(), { once: true });
});

async function follow() {
  for (;;) {
    // A page that nobody sees asks for nothing, and one that draws slowly asks slowly.
    await visible();
    await drawn();
    state.asking = new AbortController();
    const late = setTimeout(() => state.asking.abort(), PATIENCE);
    const [asked, chosen] = [state.asking, state.shown];
    try {
      const answer = await fetch(`/live?stream=${chosen ?? 0}&after=${state.version}`, { signal: asked.signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const news = decode(await answer.arrayBuffer());
      state.lost = false;
      if (chosen === state.shown) take(news);
    } catch {
      // Another stream was chosen meanwhile, or the program cannot be reached.
      if (chosen === state.shown) {
        state.lost = true;
        state.panelDirty = true;
        await pause(RETRY);
      }
    } finally {
      clearTimeout(late);
    }
  }
}

function say(text) {
  const message = element("message");
  message.hidden = text === "";
  if (message.textContent !== text) message.textContent = text;
}

// What is the matter, in a word, a sentence, and what stands over the cloud.
function condition(now) {
  const over = state.ended || (state.streams.length > 0 && state.streams.every(({ state: { is } }) => is === "ended" || is === "failed"));
  const shown = state.streams[state.shown];
  if (over) return ["ended", "Ended; the figures stay", ""];
  if (state.lost) return ["lost", "Connection lost, trying again", state.frame ? "" : "The program cannot be reached. Trying again."];
  if (!shown) return ["waiting", "Waiting for the program", "Waiting for the program"];
  if (shown.state.is !== "running") {
    const done = shown.state.is !== "waiting";
    return [done ? "ended" : "waiting", `${shown.label}: ${shown.state.is}`, state.frame ? "" : `No frame of ${shown.label} is there`];
  }
  if (state.came === null) return ["waiting", `${shown.label}: ${shown.state.detail}`, "Waiting for the first frame"];
  const silent = now - state.came;
  if (silent > STALE) return ["stale", `No frame for ${Math.floor(silent / 1000)} s`, ""];
  if (state.frame.unreadable) return ["live", "Live", `This frame cannot be shown: ${state.frame.unreadable}`];
  return ["live", "Live", state.points.byteLength === 0 ? "This scan has no points" : ""];
}

function tell(now) {
  const [is, text, over] = condition(now);
  const status = element("status");
  status.dataset.is = is;
  if (element("status-text").textContent !== text) element("status-text").textContent = text;
  if (scene || over) say(over);
}

// Colours for canvases, which do not know those of the style sheet.
const INKS = {
  light: { text: "#16202a", halo: "rgba(255,255,255,0.9)", quiet: "#4c5a66", lines: [0.3, 0.36, 0.42, 0.28] },
  dark: { text: "#e7ecee", halo: "rgba(11,14,16,0.85)", quiet: "#a3b0b7", lines: [0.64, 0.7, 0.74, 0.22] },
};

function draw() {
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.max(1, Math.round(side * scale)));
  for (const surface of [canvas, overlay]) {
    if (surface.width !== width || surface.height !== height) Object.assign(surface, { width, height });
  }
  const inks = INKS[state.appearance];
  const matrix = cameras.matrix(state.camera, width / height);
  scene?.draw({ ...state.camera, matrix }, {
    by: state.by,
    range: state.range,
    ramp: RAMPS[state.appearance].flatMap(rgb),
    lines: inks.lines,
    scale,
  });
  drawOverlay(overlay, matrix, state.frame?.objects ?? [], {
    ...inks,
    appearance: state.appearance,
    labels: element("labels").checked,
    scale,
  });
}

let figured = 0;
function tick(now) {
  if (state.dirty) {
    state.dirty = false;
    draw();
  }
  if (now - figured > PANEL) {
    figured = now;
    tell(now);
    if (state.panelDirty) {
      state.panelDirty = false;
      panel.update(state.streams, state.shown);
      const rates = [state.drawn.at(now), state.told.at(now)];
      panel.facts(state.frame, state.points.byteLength / POINT, state.frame ? state.age : null, rates);
    }
  }
  requestAnimationFrame(tick);
}

requestAnimationFrame(tick);
follow();
