// Which format to use, ranked, with the reason of each; for attention and models the fastest of the chosen ones.

import { fastest, judgedS } from "./answers.js";
import { byId, el, fill, number } from "./dom.js";
import { percent, significant, time, times } from "./numbers.js";
import { formatLabel } from "./operators.js";

const SHOWN = 5;

/** Show the API's ranking of a product ({answer} or {problem}), or what the rows themselves say. */
export function showAdvice(rows, found) {
  if (found === null) return fill(byId("advice"), fromRows(rows));
  if (found.problem)
    return fill(
      byId("advice"),
      el(
        "p",
        {},
        found.problem.fields.length
          ? "No ranking: the marked input is not one that can be ranked."
          : found.problem.message,
      ),
    );
  const { answer } = found;
  const { best } = answer;
  const more = answer.candidates.slice(SHOWN);
  return fill(
    byId("advice"),
    el(
      "p",
      { class: "pick" },
      el("strong", {}, `Use ${labelOf(best)}`),
      best.method === "none" ? "" : ` by ${best.method}`,
      `: ${times(best.speedup_ratio)} as fast as ${labelOf(answer.baseline)}, ${percent(best.memory_saved_ratio)} of the weight bytes saved.`,
    ),
    answer.fits_memory_limit === false ? el("p", { class: "notice" }, answer.summary) : null,
    el(
      "p",
      { class: "quiet" },
      `Ranked for ${answer.phase} by ${answer.ranked_by} time. Quality: ${best.quality.replace(/\.$/, "")}.`,
    ),
    ranking(answer.candidates.slice(0, SHOWN), 1),
    more.length ? el("details", {}, el("summary", {}, `${more.length} more`), ranking(more, SHOWN + 1)) : null,
    answer.excluded.length
      ? el(
          "details",
          {},
          el("summary", {}, `${answer.excluded.length} excluded`),
          el(
            "ul",
            {},
            answer.excluded.map((one) => el("li", {}, el("b", {}, one.format), `: ${one.reason}`)),
          ),
        )
      : null,
    answer.notes.map((note) => el("p", { class: "quiet" }, note)),
  );
}

const labelOf = (one) => formatLabel(`${one.weight_format}.${one.activation_format}`);

function ranking(candidates, first) {
  return el(
    "ol",
    { class: "ranking", start: first },
    candidates.map((one) =>
      el(
        "li",
        {},
        el(
          "span",
          { class: "line" },
          el("b", {}, labelOf(one)),
          el("span", {}, number(one.time_s, time(one.time_s)), ` ${one.time_source}`),
          el("span", {}, times(one.speedup_ratio)),
        ),
        el("span", { class: "quiet" }, one.reason),
      ),
    ),
  );
}

function fromRows(rows) {
  const best = fastest(rows);
  if (!best) return el("p", { class: "quiet" }, "Nothing to recommend until there is a prediction.");
  const source = best.expected ? "expected" : "ideal";
  const order = rows
    .filter((row) => !row.error && Boolean(row.expected) === Boolean(best.expected) && row.memory?.fits !== false)
    .sort((a, b) => judgedS(a) - judgedS(b));
  const none = rows.every((row) => row.error || row.memory?.fits === false);
  return [
    el(
      "p",
      { class: "pick" },
      none
        ? "None of the chosen formats fits in this chip's memory."
        : [
            el("strong", {}, `Use ${best.label}`),
            `: the fastest of the chosen formats, ${time(judgedS(best))} ${source}.`,
          ],
    ),
    el(
      "ol",
      { class: "ranking" },
      order.map((row) =>
        el(
          "li",
          {},
          el(
            "span",
            { class: "line" },
            el("b", {}, row.label),
            number(judgedS(row), time(judgedS(row))),
            el(
              "span",
              {},
              row.tokensPerS === undefined
                ? times(row.expectedSpeedup ?? row.speedup)
                : `${significant(row.tokensPerS, 4)} tokens/s`,
            ),
          ),
        ),
      ),
    ),
    el(
      "p",
      { class: "quiet" },
      best.memory
        ? "Speed and memory only. `roofline recommend --model` weighs quality too and searches a format per layer."
        : "Speed only: what a narrower cache costs in quality has to be measured on your model.",
    ),
  ];
}
