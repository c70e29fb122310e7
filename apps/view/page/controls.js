// Mouse, touch and keys on the cloud.

import { pan, turn, zoom } from "./camera.js";

const STEP = 24; // pixels of one key press

// `changed` is called when the camera has moved, `reset` and `toggle` by their keys.
export function control(canvas, camera, { changed, reset, toggle }) {
  const pointers = new Map();
  let spread = null;

  const drag = (dx, dy, panning) => {
    const height = canvas.clientHeight;
    if (panning) pan(camera(), dx, dy, height);
    else turn(camera(), (dx * 3) / height, (dy * 3) / height);
    changed();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    spread = null;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    pointers.set(event.pointerId, now);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (pointers.size === 1) {
      const second = event.shiftKey || (event.buttons & 6) !== 0;
      // From above, a plain drag moves; the second kind turns.
      drag(dx, dy, camera().above !== second);
      return;
    }
    const [a, b] = [...pointers.values()];
    const distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (spread) zoom(camera(), spread / Math.max(1, distance));
    spread = distance;
    drag(dx / 2, dy / 2, true);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      pointers.delete(event.pointerId);
      spread = null;
    });
  }
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(camera(), Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.0015));
    changed();
  }, { passive: false });

  const keys = {
    ArrowLeft: (shift) => drag(shift ? STEP : -STEP, 0, shift),
    ArrowRight: (shift) => drag(shift ? -STEP : STEP, 0, shift),
    ArrowUp: (shift) => drag(0, shift ? STEP : -STEP, shift),
    ArrowDown: (shift) => drag(0, shift ? -STEP : STEP, shift),
    "+": () => zoom(camera(), 0.85),
    "=": () => zoom(camera(), 0.85),
    "-": () => zoom(camera(), 1 / 0.85),
    0: reset,
    v: toggle,
    V: toggle,
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(camera().above !== event.shiftKey);
    changed();
  });
}
