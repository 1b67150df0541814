// Which chip is fastest, in words: each with the best format it can run, then all in the format that is looked at.

import { bestRow, judgedS } from "./answers.js";
import { asFast, time } from "./numbers.js";

/** Return the sentences about {chip, rows} of several chips, the chosen one first. */
export function verdicts(chips, focus) {
  const known = chips.filter((one) => one.chip);
  const best = known.map((one) => ({ name: one.chip.name, row: bestRunnable(one.rows, one.order) })).filter(({ row }) => row);
  if (!focus)
    return [best.length ? "The chosen chip has no prediction; these have." : "Nothing to compare until there is a prediction."];
  const same = known
    .map((one) => ({ name: one.chip.name, row: one.rows.find((row) => row.format === focus.format && !row.error) }))
    .filter(({ row }) => row);
  const isSame = best.every(({ row }) => row.format === focus.format) && best.length === same.length;
  return [
    isSame ? null : compared("Each in the best format it can run: ", best, true),
    same.length < 2
      ? `No other chip here computes ${focus.label}.`
      : compared(`${isSame ? "The best format of each is" : "All in"} ${focus.label}: `, same, false),
  ].filter(Boolean);
}

/** Return the best row that a known kernel runs and the memory holds; null where there is none. */
const bestRunnable = (rows, order) =>
  bestRow(rows.filter((row) => !row.error && !row.kernelGap && row.memory?.fits !== false), order);

/** Compare times of one kind: the fastest with the chosen chip, or the chosen one with the next. */
function compared(start, found, withFormats) {
  const [main, ...others] = found;
  const rest = others.filter(({ row }) => Boolean(row.expected) === Boolean(main?.row.expected));
  if (!main || !rest.length) return null;
  const named = ({ name, row }) =>
    `${name}${withFormats ? ` with ${row.label}` : ""} (${time(judgedS(row))}${row.kernelGap ? ", no kernel known" : row.memory?.fits === false ? ", but too big for it" : ""})`;
  const next = rest.reduce((best, one) => (judgedS(one.row) < judgedS(best.row) ? one : best));
  const source = main.row.expected ? "expected" : "ideal";
  const [fast, slow] = judgedS(next.row) < judgedS(main.row) ? [next, main] : [main, next];
  return `${start}${named(fast)} is ${asFast(judgedS(slow.row) / judgedS(fast.row), named(slow))}, ${source} times.`;
}
