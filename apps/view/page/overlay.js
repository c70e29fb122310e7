// Boxes, their labels and the distances of the rings, over the points.

import { corners, project } from "./camera.js";
import { classOf } from "./classes.js";
import { ringRadii } from "./scene.js";

const EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]];
const FRONT = [0, 1, 5, 4];

// `style`: appearance, text, halo, quiet (colours), scale (pixels of the canvas to one of the page), labels.
export function drawOverlay(canvas, matrix, objects, style) {
  const context = canvas.getContext("2d");
  const { scale } = style;
  const [width, height] = [canvas.width / scale, canvas.height / scale];
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.lineJoin = "round";
  const at = (point) => project(matrix, point, width, height);
  const write = (text, x, y, colour) => {
    context.lineWidth = 3;
    context.strokeStyle = style.halo;
    context.strokeText(text, x, y);
    context.fillStyle = colour;
    context.fillText(text, x, y);
  };
  for (const radius of ringRadii) {
    const place = at([radius, 0, -1.8]);
    if (place) write(`${radius} m`, place[0], place[1] + 4, style.quiet);
  }
  vehicle(context, at, style);
  for (const object of objects) {
    const places = corners(object).map(at);
    if (places.includes(null)) continue;
    const kind = classOf(object.class);
    const colour = kind[style.appearance];
    context.globalAlpha = 0.22;
    context.fillStyle = colour;
    path(context, FRONT.map((n) => places[n]));
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeStyle = colour;
    context.beginPath();
    for (const [a, b] of EDGES) {
      context.moveTo(...places[a]);
      context.lineTo(...places[b]);
    }
    context.stroke();
    if (style.labels) {
      const top = places.reduce((a, b) => (b[1] < a[1] ? b : a));
      const middle = (places[4][0] + places[6][0]) / 2;
      write(`${kind.name} ${object.score.toFixed(2)}`, middle, top[1] - 6, colour);
    }
  }
}

// The sensor, and where it looks ahead.
function vehicle(context, at, style) {
  const places = [[1.2, 0, -1.8], [-0.8, 0.8, -1.8], [-0.3, 0, -1.8], [-0.8, -0.8, -1.8]].map(at);
  if (places.includes(null)) return;
  context.fillStyle = style.text;
  path(context, places);
  context.fill();
}

function path(context, places) {
  context.beginPath();
  context.moveTo(...places[0]);
  for (const place of places.slice(1)) context.lineTo(...place);
  context.closePath();
}
