// Why some formats have no expected time, and the pair that has one where a 16-bit query would do.

import { el, withCode } from "./dom.js";
import { formatLabel, operandsOf } from "./operators.js";
import { formatsOf, MOST_FORMATS } from "./state.js";

/** Return the reasons of rows without an expected time, those with the same words together; null where all have one. */
export function unknownTimes(state, rows, store) {
  const unknown = rows.filter((row) => !row.error && !row.expected && row.expectedReason);
  if (!unknown.length) return null;
  const reasons = Map.groupBy(unknown, (row) => row.expectedReason);
  return el(
    "ul",
    { class: "remarks", id: "unknown-times" },
    [...reasons].map(([reason, same]) =>
      el("li", {}, el("b", {}, same.map((row) => row.label).join(", ")), ": ", withCode(/[.!?]$/.test(reason) ? reason : `${reason}.`), instead(state, same, store)),
    ),
  );
}

/** Attention is usually computed with a 16-bit query over a narrow cache: offer that pair of each format. */
function instead(state, rows, store) {
  if (state.op !== "attention") return null;
  const chosen = formatsOf(state);
  const pairs = rows
    .map((row) => operandsOf(row.format))
    .filter(({ weight, activation }) => weight === activation)
    .map(({ weight }) => `${weight}.${state.base}`)
    .filter((pair) => !chosen.includes(pair));
  if (!pairs.length || chosen.length + pairs.length > MOST_FORMATS) return null;
  return [
    " With a 16-bit query: ",
    pairs.map((pair) =>
      el(
        "button",
        { type: "button", class: "small", onclick: () => store.set({ formats: [...chosen, pair].join(",") }) },
        `Add ${formatLabel(pair)}`,
      ),
    ),
  ];
}
