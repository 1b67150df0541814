// Numbers as people read them. The same rules as roofline_model/core/units.py, so that page, report and terminal agree.

export const MISSING = "–";

const PREFIXES = [
  ["p", 1e-12],
  ["n", 1e-9],
  ["µ", 1e-6],
  ["m", 1e-3],
  ["", 1],
  ["k", 1e3],
  ["M", 1e6],
  ["G", 1e9],
  ["T", 1e12],
  ["P", 1e15],
];

function isNumber(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** Print a value in SI with the prefix that reads best, `digits` significant ones: 4.244e-05 s → "42.44 µs". */
export function prefixed(value, unit, digits = 4, smallest = "p", largest = "P") {
  if (!isNumber(value)) return MISSING;
  if (value === 0) return `0 ${unit}`;
  const names = PREFIXES.map(([name]) => name);
  const usable = PREFIXES.slice(names.indexOf(smallest), names.indexOf(largest) + 1);
  const nearly = 1 - 0.5 * 10 ** -digits; // 999.96 µs is 1 ms, not 1000 µs
  let chosen = usable[0];
  for (const unit of usable) if (Math.abs(value) >= unit[1] * nearly) chosen = unit;
  return `${value < 0 ? "−" : ""}${significant(Math.abs(value) / chosen[1], digits)} ${chosen[0]}${unit}`;
}

/** Print with so many significant digits, without trailing zeros and without an exponent. */
export function significant(value, digits = 4) {
  if (!isNumber(value)) return MISSING;
  const rounded = Number(value.toPrecision(digits));
  return Math.abs(rounded) >= 1e21 || (rounded !== 0 && Math.abs(rounded) < 1e-6)
    ? rounded.toExponential()
    : String(rounded);
}

export const time = (seconds) => prefixed(seconds, "s", 4, "p", "");
export const flopRate = (rate) => prefixed(rate, "FLOP/s", 4, "");
export const byteRate = (rate) => prefixed(rate, "B/s", 4, "");
export const bytes = (size) => prefixed(size, "B", 4, "");
export const intensity = (value) => significant(value, 4);
/** Print a gain as `times_faster` of results/verdicts/shape_verdict.py does: "4.0×", "0.97×", "120×"; a slowdown of half a percent is never "1.0×". */
export const times = (ratio) =>
  isNumber(ratio) ? `${ratio >= 0.995 ? ratio.toFixed(ratio >= 99.5 ? 0 : 1) : significant(ratio, 2)}×` : MISSING;
/** Whether a ratio printed as percent has a minus: what rounds to zero has none. */
const below = (ratio, digits) => Number((ratio * 100).toFixed(digits)) < 0;
export const percent = (ratio, digits = 0) =>
  isNumber(ratio) ? `${below(ratio, digits) ? "−" : ""}${Math.abs(ratio * 100).toFixed(digits)} %` : MISSING;
export const signedPercent = (ratio) =>
  isNumber(ratio) ? `${below(ratio, 1) ? "−" : "+"}${Math.abs(ratio * 100).toFixed(1)} %` : MISSING;
export const count = (value) => (isNumber(value) ? value.toLocaleString("en-US") : MISSING);

/** Print the ends of an interval in one unit: "37.4–49.2 µs". */
export function interval(low, high) {
  if (!isNumber(low) || !isNumber(high)) return MISSING;
  const [, unit] = time(high).split(" ");
  const scale = PREFIXES.find(([name]) => `${name}s` === unit)[1];
  return `${significant(low / scale, 3)}–${significant(high / scale, 3)} ${unit}`;
}

/** Return "1 case", "2 cases"; an irregular plural is given. */
export const counted = (number, noun, plural = `${noun}s`) => `${count(number)} ${number === 1 ? noun : plural}`;

/** Print a moment of the store: "2026-11-21 09:08 UTC". */
export const moment = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 16)} UTC` : MISSING);
