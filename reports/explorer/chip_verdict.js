// Which chip is fastest, in words: each with what its recommendation takes, then all in the format that is looked at.

import { isOfEngines, judgedS } from "./answers.js";
import { asFast, time } from "./numbers.js";

/** Return the sentences about {chip, rows, best, misfit} of several chips. The chosen one is the first, and in each sentence. */
export function verdicts([main, ...others], focus) {
  const known = others.filter((one) => one.chip);
  if (!focus)
    return [known.some((one) => one.best) ? "The chosen chip has no prediction; these have." : "Nothing to compare until there is a prediction."];
  const same = [main, ...known].map((one) => ({ chip: one.chip, row: one.rows.find((row) => row.format === focus.format && !row.error) }));
  const isSame = [main, ...known].every((one, index) => one.best && one.best === same[index].row);
  return [isSame ? null : recommended(main, known), inOneFormat(same, focus, isSame)].filter(Boolean);
}

function recommended(main, others) {
  if (!main.best)
    return `Nothing is recommended on ${main.chip.name}${main.misfit ? `: ${main.misfit}` : ""}${/[.!?]$/.test(main.misfit ?? "") ? "" : "."}`;
  const best = others.filter((one) => one.best).map((one) => ({ chip: one.chip, row: one.best }));
  return compared("Each as recommended: ", { chip: main.chip, row: main.best }, best, true);
}

function inOneFormat([main, ...others], focus, isSame) {
  const known = others.filter(({ row }) => row);
  if (focus.isAdded && known.length < others.length) return null; // the others were not asked about it
  if (!known.length) return `No other chip here computes ${focus.label}.`;
  return compared(`${isSame ? "Recommended on each is" : "All in"} ${focus.label}: `, main, known, false);
}

/** Compare times of one kind: the fastest with the chosen chip, or the chosen one with the next. */
function compared(start, main, others, withFormats) {
  const rest = others.filter(({ row }) => Boolean(row.expected) === Boolean(main.row.expected));
  if (!rest.length) return null;
  const named = ({ chip, row }) =>
    `${chip.name}${withFormats ? ` with ${row.label}` : ""} (${time(judgedS(row))}${row.kernelGap ? `, no ${isOfEngines(row) ? "engine" : "kernel"} known` : row.memory?.fits === false ? ", but too big for it" : ""})`;
  const next = rest.reduce((best, one) => (judgedS(one.row) < judgedS(best.row) ? one : best));
  const source = main.row.expected ? "expected" : "ideal";
  const [fast, slow] = judgedS(next.row) < judgedS(main.row) ? [next, main] : [main, next];
  return `${start}${named(fast)} is ${asFast(judgedS(slow.row) / judgedS(fast.row), named(slow))}, ${source} times.`;
}
