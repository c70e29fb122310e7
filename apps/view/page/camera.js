// Where the cloud is looked at from. Pure: matrices are arrays of 16, column by column; metres, z up.

const UP_LIMIT = Math.PI / 2 - 0.02;
const START = { target: [8, 0, 0], yaw: -Math.PI * 0.86, pitch: 0.5, distance: 48, above: false };
const FIELD = Math.PI / 4;

export function start(above) {
  return { ...START, target: above ? [0, 0, 0] : [...START.target], distance: above ? 110 : START.distance, above };
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

export function turn(camera, dx, dy) {
  camera.yaw = (camera.yaw - dx) % (2 * Math.PI);
  if (!camera.above) camera.pitch = clamp(camera.pitch + dy, 0.02, UP_LIMIT);
}

export function zoom(camera, factor) {
  camera.distance = clamp(camera.distance * factor, 3, 600);
}

// Moves the target along the ground by what a drag of so many pixels means on a canvas of this height.
export function pan(camera, dx, dy, height) {
  const metres = (2 * camera.distance * Math.tan(FIELD / 2)) / height;
  const { right, ahead } = axes(camera);
  for (const n of [0, 1]) {
    camera.target[n] = clamp(camera.target[n] + (-dx * right[n] + dy * ahead[n]) * metres, -400, 400);
  }
}

// To the right and ahead on the ground, as seen.
function axes(camera) {
  // From above, the vehicle's front points up until the view is turned.
  const yaw = camera.above ? camera.yaw - START.yaw + Math.PI : camera.yaw;
  const ahead = [-Math.cos(yaw), -Math.sin(yaw), 0];
  return { right: [-Math.sin(yaw), Math.cos(yaw), 0], ahead };
}

// From points in the frame of the sensor to clip space.
export function matrix(camera, aspect) {
  const { right, ahead } = axes(camera);
  const pitch = camera.above ? Math.PI / 2 : camera.pitch;
  const [c, s] = [Math.cos(pitch), Math.sin(pitch)];
  // The way the eye looks, and what is up for it.
  const look = [ahead[0] * c, ahead[1] * c, -s];
  const up = [ahead[0] * s, ahead[1] * s, c];
  const eye = camera.target.map((value, n) => value - look[n] * camera.distance);
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const view = [
    right[0], up[0], -look[0], 0,
    right[1], up[1], -look[1], 0,
    right[2], up[2], -look[2], 0,
    -dot(right, eye), -dot(up, eye), dot(look, eye), 1,
  ];
  const near = Math.max(0.1, camera.distance / 100);
  const far = camera.distance + 600;
  const f = 1 / Math.tan(FIELD / 2);
  if (camera.above) {
    const half = camera.distance / f;
    return multiply([
      1 / (half * aspect), 0, 0, 0,
      0, 1 / half, 0, 0,
      0, 0, -2 / (far - near), 0,
      0, 0, -(far + near) / (far - near), 1,
    ], view);
  }
  return multiply([
    f / aspect, 0, 0, 0,
    0, f, 0, 0,
    0, 0, -(far + near) / (far - near), -1,
    0, 0, (-2 * far * near) / (far - near), 0,
  ], view);
}

export function multiply(a, b) {
  const product = new Array(16).fill(0);
  for (let column = 0; column < 4; column++) {
    for (let row = 0; row < 4; row++) {
      for (let n = 0; n < 4; n++) product[column * 4 + row] += a[n * 4 + row] * b[column * 4 + n];
    }
  }
  return product;
}

// Where a point is on a canvas, in pixels from its top left; null behind the eye.
export function project(matrix, [x, y, z], width, height) {
  const w = matrix[3] * x + matrix[7] * y + matrix[11] * z + matrix[15];
  if (w <= 0) return null;
  const at = (row) => (matrix[row] * x + matrix[4 + row] * y + matrix[8 + row] * z + matrix[12 + row]) / w;
  return [(at(0) + 1) * 0.5 * width, (1 - at(1)) * 0.5 * height];
}

// The corners of an upright box: four below, then four above, each from front left on round.
export function corners({ center: [x, y, z], size: [length, width, height], yaw }) {
  const [c, s] = [Math.cos(yaw), Math.sin(yaw)];
  return [-0.5, 0.5].flatMap((up) =>
    [[0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [-0.5, 0.5]].map(([along, across]) => {
      const [a, b] = [along * length, across * width];
      return [x + a * c - b * s, y + a * s + b * c, z + up * height];
    }),
  );
}
