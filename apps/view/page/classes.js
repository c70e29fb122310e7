// What objects are. The colours differ in lightness too, and each class has a sign of its own, so
// nothing hangs on telling colours apart.

export const UNKNOWN = { name: "unknown", light: "#5b6670", dark: "#aab4ba", sign: "M8 2v12" };

export const CLASSES = new Map([
  [1, { name: "car", light: "#0060a8", dark: "#6fb9f0", sign: "M2 5h12v6H2z" }],
  [2, { name: "truck", light: "#8a4b00", dark: "#f2a93b", sign: "M2 3h12v10H2zM10 3v10" }],
  [3, { name: "pedestrian", light: "#a0206c", dark: "#f39ac6", sign: "M8 2l5 12H3z" }],
  [4, { name: "cyclist", light: "#00694a", dark: "#4fd0a4", sign: "M8 3a5 5 0 1 1 0 10a5 5 0 1 1 0-10" }],
]);

export function classOf(id) {
  return CLASSES.get(id) ?? { ...UNKNOWN, name: id ? `class ${id}` : UNKNOWN.name };
}
