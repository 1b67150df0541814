// Which formats to use, ranked by the API, with the reason of each: of a product, of an attention's cache, of a whole model.

import { byId, capitalized, el, fill, number, withCode } from "./dom.js";
import { asFast, bytes, percent, significant, time, times } from "./numbers.js";
import { formatLabel, OPERATORS } from "./operators.js";

const SHOWN = 5;

/** Show the API's ranking ({answer} or {problem}) for an operator. */
export function showAdvice(operator, { answer, problem }) {
  if (problem)
    return fill(
      byId("advice"),
      el(
        "p",
        {},
        problem.fields.length ? "No ranking until the marked input is mended." : problem.message,
      ),
    );
  const advice = ADVICE[operator](answer);
  const more = advice.rows.slice(SHOWN);
  return fill(
    byId("advice"),
    advice.pick ? el("p", { class: "pick" }, advice.pick) : null,
    advice.notice ? el("p", { class: "notice" }, advice.notice) : null,
    el("p", { class: "quiet" }, withCode(advice.basis)),
    advice.alternative ? el("p", { class: "quiet" }, advice.alternative) : null,
    ranking(advice.rows.slice(0, SHOWN), 1),
    more.length ? el("details", {}, el("summary", {}, `${more.length} more`), ranking(more, SHOWN + 1)) : null,
    advice.excluded.length
      ? el(
          "details",
          {},
          el("summary", {}, `${advice.excluded.length} excluded`),
          el(
            "ul",
            {},
            advice.excluded.map(([name, reason]) => el("li", {}, el("b", {}, name), `: ${reason}`)),
          ),
        )
      : null,
    answer.findings.map(({ text }) => el("p", { class: "quiet" }, withCode(`${capitalized(plain(text))}.`))),
  );
}

const ADVICE = { product: ofProduct, attention: ofAttention, model: ofModel };

const labelOf = (one) => formatLabel(`${one.weight_format}.${one.activation_format}`);
const excludedOf = (answer) => answer.excluded.map((one) => [one.format, one.reason]);
/** Return a method of the ranking as readers see it: its own names are those of Python. */
const methodWords = (method) => (method.startsWith("native_") ? "native arithmetic" : method.replaceAll("_", " "));
const plain = (text) => text.replace(/\.$/, "");

const rankedBy = ({ phase, ranked_by: kind }) =>
  `Ranked for ${phase} by ${kind === "expected" ? "the end of the 80 % interval of the expected time" : `${kind} time`}.`;

/** Return the API's sentence in bold. */
const decision = (text) => el("strong", {}, `${capitalized(plain(text))}.`);

function ofProduct(answer) {
  const { best } = answer;
  const isMisfit = answer.fits_memory_limit === false; // then the smallest is no advice
  return {
    pick: isMisfit
      ? null
      : best.method === "none"
        ? decision(answer.reason)
        : [
            el("strong", {}, `Use ${labelOf(best)}`),
            ` by ${methodWords(best.method)}: ${asFast(best.speedup_ratio, labelOf(answer.baseline))}, ${percent(best.memory_saved_ratio)} of the weight bytes saved.`,
          ],
    notice: isMisfit ? `${capitalized(plain(answer.summary))}.` : null,
    basis: `${rankedBy(answer)} Quality: ${plain(best.quality)}.`,
    rows: answer.candidates.map((one) => ({ ...one, label: labelOf(one), gain: times(one.speedup_ratio), gap: one.kernel_gap })),
    excluded: excludedOf(answer),
  };
}

function ofAttention(answer) {
  const { best } = answer;
  return {
    pick: decision(answer.summary),
    basis: `Query in ${answer.activation_format}. ${rankedBy(answer)} Quality: ${plain(best.quality)}.`,
    rows: answer.candidates.map((one) => ({
      ...one,
      label: one.kv_format,
      gain: `${times(one.speedup_ratio)} · ${bytes(one.kv_bytes)}`,
      gap: one.kernel_gap,
      reason: one.kernel_gap ? `${one.reason}; ${one.kernel_gap.text}` : one.reason,
    })),
    excluded: excludedOf(answer),
  };
}

function ofModel(answer) {
  const chosen = answer.candidates.find((one) => one.plan === answer.chosen);
  const { max_loss_pct: measured, max_claimed_loss_pct: claimed } = answer.limits;
  const limit = `a loss of at most ${significant(measured, 3)} %${claimed === measured ? "" : ` measured or ${significant(claimed, 3)} % claimed`}`;
  const within =
    answer.limits.memory_limit_bytes === null ? limit : `${bytes(answer.limits.memory_limit_bytes)} and ${limit}`;
  return {
    pick: chosen
      ? [
          el("strong", {}, chosen.kind === "baseline" ? capitalized(plain(answer.summary)) : `Use ${chosen.plan}`),
          chosen.kind === "baseline"
            ? ": nothing within the limits is surely faster."
            : `: ${asFast(chosen.speedup_ratio, answer.wide_format)}${chosen.is_speedup_ideal ? " (ideal)" : ""}, ${significant(chosen.tokens_per_s, 4)} tokens/s, ${bytes(chosen.memory.total_bytes)}.`,
        ]
      : null,
    alternative: answer.lower_loss_alternative ? alternativeWords(answer.lower_loss_alternative) : null,
    notice: chosen ? null : `${capitalized(answer.summary)}.`,
    basis: `${chosen ? `${chosen.formats}. Loss ${chosen.quality.text}. ` : ""}Within ${within}, by the upper end of the ${answer.time_source} time of a pass.`,
    rows: answer.candidates.map((one) => ({
      ...one,
      label: one.plan,
      gain: `${times(one.speedup_ratio)} · ${significant(one.tokens_per_s, 4)} tokens/s · ${bytes(one.memory.total_bytes)}`,
      gap: one.kernel_gap,
      reason: `${one.plan === one.formats ? "" : `${one.formats}. `}Loss ${one.quality.text}. ${capitalized(one.reason)}`,
    })),
    excluded: answer.excluded.map((one) => [one.plan, one.reason]),
  };
}

const LOSS_LABEL = OPERATORS.model.limits.find((field) => field.name === "loss").label;

/** Say the plan that loses less in the API's words, and which input of this page chooses it. */
const alternativeWords = ({ text, max_loss_pct: limit }) =>
  `${capitalized(text)}; “${LOSS_LABEL}” ${significant(limit, 3)} chooses it.`;

function ranking(rows, first) {
  if (!rows.length) return null;
  return el(
    "ol",
    { class: "ranking", start: first },
    rows.map((one) =>
      el(
        "li",
        {},
        el(
          "span",
          { class: "line" },
          el("b", {}, one.label),
          el("span", {}, number(one.time_s, time(one.time_s)), ` ${one.time_source}`),
          el("span", {}, one.gain),
          one.gap ? el("span", { class: "bad gap" }, "no kernel here") : null,
        ),
        el("span", { class: "quiet" }, one.reason),
      ),
    ),
  );
}
