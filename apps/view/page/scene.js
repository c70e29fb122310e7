// Points and range rings, by WebGL.

import { POINT } from "./message.js";

// From low to high. Lightness alone tells the order, in both appearances.
export const RAMPS = {
  dark: ["#3d4fb8", "#2f8fd0", "#35bf9f", "#b5d84f", "#fff0a6"],
  light: ["#93aec4", "#5a8fbe", "#2d69ad", "#2b4699", "#3a1a63"],
};

export const COLOUR_BY = ["height", "intensity", "ring"];
const MOST_INTENSITY = 100; // above it retroreflectors only
const RINGS = [10, 20, 40, 60, 80, 100];
const STEPS = 96;

const POINTS_VERTEX = `#version 300 es
layout(location = 0) in vec3 position;
layout(location = 1) in vec2 info;
uniform mat4 camera;
uniform float metres;
uniform vec2 range;
uniform int by;
uniform float size;
uniform float far;
uniform vec3 ramp[5];
out vec3 colour;
void main() {
  vec3 place = position * metres;
  gl_Position = camera * vec4(place, 1.0);
  float value = by == 0 ? place.z : by == 1 ? info.x * 255.0 : info.y * 255.0;
  float t = clamp((value - range.x) / max(range.y - range.x, 1e-6), 0.0, 1.0) * 4.0;
  int n = min(int(t), 3);
  colour = mix(ramp[n], ramp[n + 1], t - float(n));
  gl_PointSize = size * (far > 0.0 ? clamp(far / gl_Position.w, 0.8, 2.2) : 1.0);
}`;
const POINTS_FRAGMENT = `#version 300 es
precision mediump float;
in vec3 colour;
out vec4 result;
void main() { result = vec4(colour, 1.0); }`;
const LINES_VERTEX = `#version 300 es
layout(location = 0) in vec3 position;
uniform mat4 camera;
void main() { gl_Position = camera * vec4(position, 1.0); }`;
const LINES_FRAGMENT = `#version 300 es
precision mediump float;
uniform vec4 colour;
out vec4 result;
// A page takes colours multiplied by their opacity.
void main() { result = vec4(colour.rgb * colour.a, colour.a); }`;

export const ringRadii = RINGS;

export class Scene {
  #canvas;
  #gl;
  #points;
  #lines;
  #count = 0;
  #metres = 1;

  // Throws where the browser has no WebGL 2.
  constructor(canvas) {
    this.#canvas = canvas;
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.#prepare());
    this.#prepare();
  }

  #prepare() {
    const gl = this.#canvas.getContext("webgl2", { antialias: false });
    if (!gl) throw new Error("this browser offers no WebGL 2");
    this.#gl = gl;
    this.#count = 0;
    const points = program(gl, POINTS_VERTEX, POINTS_FRAGMENT);
    const array = gl.createVertexArray();
    const buffer = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 3, gl.SHORT, true, POINT, 0);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 2, gl.UNSIGNED_BYTE, true, POINT, 6);
    this.#points = { program: points, array, buffer };
    this.#lines = rings(gl);
  }

  // Takes points as they come; `unit` is in metres.
  show(points, unit) {
    const gl = this.#gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#points.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, points, gl.STREAM_DRAW);
    this.#count = points.byteLength / POINT;
    this.#metres = unit * 32767;
  }

  // `view`: matrix, distance and above of the camera; `style`: by, range, ramp, lines, scale.
  draw(view, style) {
    const gl = this.#gl;
    gl.viewport(0, 0, this.#canvas.width, this.#canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const { program: lines, array, count } = this.#lines;
    gl.useProgram(lines);
    gl.bindVertexArray(array);
    gl.uniformMatrix4fv(gl.getUniformLocation(lines, "camera"), false, view.matrix);
    gl.uniform4fv(gl.getUniformLocation(lines, "colour"), style.lines);
    gl.drawArrays(gl.LINES, 0, count);
    if (this.#count === 0) return;
    const points = this.#points.program;
    const at = (name) => gl.getUniformLocation(points, name);
    gl.useProgram(points);
    gl.bindVertexArray(this.#points.array);
    gl.uniformMatrix4fv(at("camera"), false, view.matrix);
    gl.uniform1f(at("metres"), this.#metres);
    gl.uniform2fv(at("range"), style.range);
    gl.uniform1i(at("by"), COLOUR_BY.indexOf(style.by));
    gl.uniform1f(at("size"), 1.7 * style.scale);
    gl.uniform1f(at("far"), view.above ? 0 : view.distance);
    gl.uniform3fv(at("ramp"), style.ramp);
    gl.drawArrays(gl.POINTS, 0, this.#count);
  }
}

// What a ramp spans: lowest and highest value, in the unit of `by`.
export function rangeOf(by, points, unit, rings) {
  if (by === "intensity") return [0, MOST_INTENSITY];
  if (by === "ring") return [0, Math.max(1, rings - 1)];
  const view = new DataView(points.buffer, points.byteOffset, points.byteLength);
  const heights = [];
  const step = POINT * Math.max(1, Math.floor(points.byteLength / POINT / 2000));
  for (let at = 0; at < points.byteLength; at += step) heights.push(view.getInt16(at + 4, true) * unit);
  if (heights.length === 0) return [0, 1];
  heights.sort((a, b) => a - b);
  const low = heights[Math.floor(heights.length * 0.02)];
  return [low, Math.max(low + 0.5, heights[Math.floor(heights.length * 0.97)])];
}

export function rgb(hex) {
  return [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16) / 255);
}

function rings(gl) {
  const ends = [];
  for (const radius of RINGS) {
    for (let n = 0; n < STEPS; n++) {
      for (const step of [n, n + 1]) {
        const angle = (step / STEPS) * 2 * Math.PI;
        ends.push(radius * Math.cos(angle), radius * Math.sin(angle), -1.8);
      }
    }
  }
  const array = gl.createVertexArray();
  gl.bindVertexArray(array);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(ends), gl.STATIC_DRAW);
  gl.enableVertexAttribArray(0);
  gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0);
  return { program: program(gl, LINES_VERTEX, LINES_FRAGMENT), array, count: ends.length / 3 };
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) {
    throw new Error(`WebGL: ${gl.getProgramInfoLog(made)}`);
  }
  return made;
}
