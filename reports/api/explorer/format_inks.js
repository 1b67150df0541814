// Colours of the formats: those of reports/plot_style.py, light and dark (a test compares them).

const INKS = [
  ["FP64", "#3a3a3b", "#c9c9ca"],
  ["FP32", "#6e7681", "#aab2bd"],
  ["TF32", "#8a5a2b", "#d3a06b"],
  ["BF16", "#0060a8", "#58a6e8"],
  ["FP16", "#3fa2dd", "#8fd0f7"],
  ["FP8", "#8d4a9e", "#cf9be0"],
  ["FP8_E4M3 W8A16", "#b98ac6", "#e6c8ef"],
  ["FP8_E5M2", "#a8327f", "#ec8fca"],
  ["MXFP8", "#5a3a8c", "#ab92df"],
  ["INT8", "#00664b", "#3cc79c"],
  ["INT8 W8A16", "#21a67c", "#7fe3bf"],
  ["MXINT8", "#6a8f1f", "#b5d96a"],
  ["INT4", "#cc5500", "#ff9a56"],
  ["NVFP4", "#d99a00", "#f5c64a"],
  ["NVFP4 W4A16", "#e3bd5c", "#fbe3a4"],
  ["MXFP4", "#a08a00", "#d8c640"],
  ["MXFP6", "#7a4b6b", "#c795b6"],
  ["NF4", "#a8412c", "#e98f7c"],
  ["INT2", "#8c2f39", "#e38a93"],
];
const OTHERS = [
  ["#44617b", "#9dbcd8"],
  ["#76640f", "#cdb956"],
  ["#2f6f73", "#86c6ca"],
  ["#9a6a8e", "#dcb2d1"],
  ["#51545a", "#b9bdc4"],
];

/** Return {label: colour}; a label takes its family's colour, the next of one family a spare one. */
export function formatInks(labels, isDark) {
  const taken = new Set();
  const found = {};
  for (const label of new Set(labels)) {
    const family = INKS.filter(([key]) => label.startsWith(key)).sort((a, b) => b[0].length - a[0].length)[0];
    const free = [family && family.slice(1), ...OTHERS].filter((ink) => ink && !taken.has(ink[0]));
    const ink = free[0] ?? OTHERS[0];
    taken.add(ink[0]);
    found[label] = isDark ? ink[1] : ink[0];
  }
  return found;
}
