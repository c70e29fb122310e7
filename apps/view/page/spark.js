// A line of the last values, without axes: the figures stand beside it.

import { quantile } from "./figures.js";

// `points`: value in any unit or null where there is none, and whether it is marked (as found in the
// vehicle); `style`: line, mark, loss (colours).
export function drawSpark(canvas, points, style) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return;
  if (canvas.width !== Math.round(width * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const values = points.filter(({ value }) => value !== null).map(({ value }) => value);
  // One value in a hundred may leave the picture at the top.
  const top = Math.max(quantile(values, 0.99) ?? 0, 1e-9) * 1.15;
  const x = (n) => ((n + 0.5) / points.length) * width;
  const y = (value) => Math.max(1, height - 2 - (value / top) * (height - 4));
  context.lineWidth = 1.25;
  context.strokeStyle = style.line;
  context.beginPath();
  let drawing = false;
  points.forEach(({ value }, n) => {
    if (value === null) {
      drawing = false;
    } else {
      if (drawing) context.lineTo(x(n), y(value));
      else context.moveTo(x(n), y(value));
      drawing = true;
    }
  });
  context.stroke();
  points.forEach(({ value, marked }, n) => {
    if (value === null) {
      context.fillStyle = style.loss;
      context.fillRect(x(n) - 0.75, height - 6, 1.5, 6);
    } else if (marked) {
      context.fillStyle = style.mark;
      context.fillRect(x(n) - 1.25, y(value) - 1.25, 2.5, 2.5);
    }
  });
}
