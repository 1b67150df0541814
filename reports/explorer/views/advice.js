// Which formats to use, ranked by the API, with the reason of each: of a product, of an attention's cache, of a whole model; and what
// the stored runs recommend for the same question: measured where it was measured, with its evidence.

import { ApiProblem, get, hasToken } from "../api.js";
import { byId, capitalized, el, fill, number, sentence, withCode } from "../dom.js";
import { bytes, counted, moment, percent, significant, time, times } from "../numbers.js";
import { formatLabel, typed } from "../operators.js";
import { chipOf } from "../state.js";
import { ADVICE, fit, RANKED_BY, STORED } from "../words.js";

const MOST_ROWS = 5;
/** Kinds of plans whose name does not say their formats. */
const MIXED = ["strategy", "search"];
const MOST_STORED_ROWS = 4;

/** Show the API's ranking ({answer} or {problem}) for an operator. */
export function showAdvice(operator, { answer, problem }) {
  if (problem) return fill(byId("advice"), el("p", {}, problem.fields.length ? ADVICE.mend : problem.message));
  const advice = { product: ofProduct, attention: ofAttention, model: ofModel }[operator](answer);
  const more = advice.rows.slice(MOST_ROWS);
  return fill(
    byId("advice"),
    el("p", { class: "quiet" }, withCode(advice.basis.filter(Boolean).join(" "))),
    ranking(advice.rows.slice(0, MOST_ROWS), 1),
    more.length
      ? el("details", {}, el("summary", {}, fit(ADVICE.more, { count: more.length })), ranking(more, MOST_ROWS + 1))
      : null,
    advice.excluded.length
      ? el(
          "details",
          {},
          el("summary", {}, fit(ADVICE.excluded, { count: advice.excluded.length })),
          el(
            "ul",
            {},
            advice.excluded.map(([name, reason]) => el("li", {}, el("b", {}, name), `: ${reason}`)),
          ),
        )
      : null,
    answer.findings.map(({ text }) => el("p", { class: "quiet" }, withCode(sentence(text)))),
  );
}

const excludedOf = (answer) => answer.excluded.map((row) => [row.format, row.reason]);
const rankedBy = ({ phase, ranked_by: kind }) => fit(RANKED_BY[kind], { phase });
const qualityOf = ({ quality }) => fit(ADVICE.quality, { quality: quality.replace(/\.$/, "") });

function ofProduct(answer) {
  return {
    basis: [rankedBy(answer), qualityOf(answer.best)],
    rows: answer.candidates.map((row) => ({ ...row, label: row.name, gain: times(row.speedup_ratio), gap: row.kernel_gap })),
    excluded: excludedOf(answer),
  };
}

function ofAttention(answer) {
  return {
    basis: [fit(ADVICE.query, { format: answer.activation_format }), rankedBy(answer), qualityOf(answer.best)],
    rows: answer.candidates.map((row) => ({
      ...row,
      label: formatLabel("attention", `${row.kv_format}.${answer.activation_format}`),
      gain: `${times(row.speedup_ratio)} · ${bytes(row.kv_bytes)}`,
      gap: row.kernel_gap,
      reason: row.kernel_gap ? `${row.reason}; ${row.kernel_gap.text}` : row.reason,
    })),
    excluded: excludedOf(answer),
  };
}

function ofModel(answer) {
  const chosen = answer.candidates.find((row) => row.plan === answer.chosen);
  return {
    basis: [
      chosen && fit(ADVICE.loss, { quality: chosen.quality.text }),
      fit(ADVICE.within, { limits: limits(answer.limits), source: answer.time_source }),
    ],
    rows: answer.candidates.map((row) => ({
      ...row,
      label: row.name,
      gain: [times(row.speedup_ratio), tokens(row), bytes(row.memory.total_bytes)].join(" · "),
      gap: row.kernel_gap,
      reason: `${MIXED.includes(row.kind) ? `${row.formats}. ` : ""}${fit(ADVICE.loss, { quality: row.quality.text })} ${capitalized(row.reason)}`,
    })),
    excluded: answer.excluded.map((row) => [row.candidate?.name ?? row.plan, row.reason]),
  };
}

const tokens = (row) =>
  fit(row.time_source === "ideal" ? ADVICE.idealTokens : ADVICE.tokens, { rate: significant(row.tokens_per_s, 4) });

function limits({ max_loss_pct: most, memory_limit_bytes: size }) {
  const loss = fit(ADVICE.limit, { most: significant(most, 3) });
  return size === null ? loss : fit(ADVICE.memory, { size: bytes(size), loss });
}

function ranking(rows, first) {
  if (!rows.length) return null;
  return el(
    "ol",
    { class: "ranking", start: first },
    rows.map((row) => rankedRow(row, row.gain, row.reason)),
  );
}

const rankedRow = (row, gain, ...about) =>
  el(
    "li",
    {},
    el(
      "span",
      { class: "line" },
      el("b", {}, row.label),
      el("span", {}, number(row.time_s, time(row.time_s)), ` ${row.time_source}`),
      gain ? el("span", {}, gain) : null,
      row.kernel_gap ? el("span", { class: "bad gap" }, ADVICE.gap) : null,
    ),
    el("span", { class: "quiet" }, about),
  );

/** Return {show(state, chips, signal)}; `chips` are those that runs are stored of: others are not asked about. */
export function startStored(catalog) {
  let askedQuestion = "";
  let latest = 0; // of the questions: the first one has no signal, and the answer to an older one is dropped
  return {
    async show(state, chips, signal) {
      const chip = chipOf(catalog, state.hw)?.key ?? state.hw;
      const question = chips.includes(chip) ? questionOf(state, chip) : "";
      latest += 1;
      const turn = latest;
      if (question === askedQuestion) return;
      let nodes = [];
      if (question !== "") {
        try {
          nodes = storedRanking(await get(`api/recommendations?${question}`, signal));
        } catch (problem) {
          if (!(problem instanceof ApiProblem)) throw problem;
          nodes = el("p", { class: "quiet" }, problem.message);
        }
      }
      if (turn !== latest) return;
      askedQuestion = question;
      fill(byId("stored"), nodes);
    },
  };
}

/** Return the query, empty for what the store cannot be asked: sizes that are none, operators without one ranking. */
function questionOf(state, chip) {
  if (state.op === "model")
    return `${new URLSearchParams({ hardware_key: chip, model: state.model, phase: state.phase, limit: 1 })}`;
  const sizes = [state.M, state.N, state.K].map(typed);
  if (state.op !== "product" || !sizes.every((size) => Number.isInteger(size) && size > 0 && size < 1e7)) return "";
  const [M, N, K] = sizes;
  return `${new URLSearchParams({ hardware_key: chip, M, N, K, limit: 1 })}`;
}

function storedRanking(answer) {
  const [stored] = answer.rankings;
  if (!stored?.rows.some((row) => row.time_source === "measured")) return [];
  const { rows, changes, gap } = stored;
  const moved = changes.filter((change) => change.before_rank !== null && change.before_rank !== change.after_rank);
  return [
    el("h3", {}, STORED.title),
    el("p", { class: gap ? "notice" : null }, sentence(stored.summary)),
    el(
      "ol",
      { class: "ranking" },
      rows.slice(0, MOST_STORED_ROWS).map((row) => {
        const confidence = fit(STORED.confidence, { confidence: row.confidence, reason: row.confidence_reason });
        return rankedRow(row, gap || row.speedup_ratio === null ? null : gain(row), `${confidence} `, evidence(row));
      }),
    ),
    moved.map((change) => el("p", { class: "quiet" }, sentence(change.sentence))),
    [...stored.missing, ...answer.notes].map((text) => el("p", { class: "quiet" }, withCode(sentence(text)))),
  ];
}

/** Print a speed-up with the ends of its interval, where it has one that can be seen in its digits. */
function gain({ speedup_ratio: ratio, speedup_low_ratio: low, speedup_high_ratio: high, speedup_basis: basis }) {
  const ends = [low, high].map(times);
  const interval = low === null || ends[0] === ends[1] ? "" : ` (${fit(STORED.span, { low: ends[0], high: ends[1] })})`;
  return `${times(ratio)}${interval}${basis === "across runs" ? ` ${basis}` : ""}`;
}

/** Name the newest run behind a row; a link where the browser may follow it: it cannot send a token. */
function evidence(row) {
  const run = row.evidence.at(-1);
  if (!run) return "";
  const text = `${run.label ?? run.run_id.slice(0, 8)}, ${moment(run.started_at)}`;
  const earlier = row.evidence.length - 1;
  const more = earlier ? ` ${fit(STORED.earlier, { runs: counted(earlier, "earlier run") })}` : "";
  const href = (run.case_url ?? run.run_url).replace(/^\//, "");
  return [hasToken() ? text : el("a", { href, target: "_blank", rel: "noopener" }, text), more];
}
