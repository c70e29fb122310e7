// What the server answers when asked what is new; see docs/view.md. Pure.

const MAGIC = 0x31565452; // "RTV1", the lowest byte first
export const POINT = 8;

// The head, and the points as bytes: POINT each.
export function decode(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0, true) !== MAGIC) {
    throw new Error("this is not an answer of the live view");
  }
  const length = view.getUint32(4, true);
  if (length > buffer.byteLength - 8) throw new Error("the answer is cut off");
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const points = new Uint8Array(buffer, 8 + length);
  if (points.byteLength % POINT !== 0) throw new Error("the answer is cut off in a point");
  return { head, points };
}

// A sample as the head has it, by name; microseconds, null where not known.
export function sample([version, sequence, source, age, total, ...stages]) {
  return { version, sequence, source, age, total, stages };
}

export const NOBODY = 0, EDGE = 1, LOCAL = 2;

export const STAGES = [
  "propagation, vehicle, scan",
  "vehicle interface, scan out",
  "communication, up + down",
  "edge interface, scan in",
  "conversion to cloud",
  "propagation to detector",
  "object detection",
  "propagation from detector",
  "edge interface, objects out",
  "vehicle interface, objects in",
  "propagation, vehicle, objects",
];
