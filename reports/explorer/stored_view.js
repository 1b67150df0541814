// What the stored runs recommend for the very question that is asked: measured where it was measured, with its evidence.

import { ApiProblem, get, hasToken } from "./api.js";
import { byId, capitalized, el, fill, number, withCode } from "./dom.js";
import { counted, moment, time, times } from "./numbers.js";
import { typed } from "./operators.js";
import { chipOf } from "./state.js";

const SHOWN = 4;

/** Return {show(state, chips, signal)}; `chips` are those that runs are stored of: others are not asked about. */
export function startStored(catalog) {
  let asked = "";
  let latest = 0; // of the questions: the first one has no signal, and the answer to an older one is dropped
  return {
    async show(state, chips, signal) {
      const chip = chipOf(catalog, state.hw)?.key ?? state.hw;
      const question = chips.includes(chip) ? questionOf(state, chip) : "";
      latest += 1;
      const own = latest;
      if (question === asked) return;
      let nodes = [];
      if (question !== "") {
        try {
          nodes = rankingsOf(await get(`api/recommendations?${question}`, signal));
        } catch (problem) {
          if (!(problem instanceof ApiProblem)) throw problem;
          nodes = el("p", { class: "quiet" }, problem.message);
        }
      }
      if (own !== latest) return;
      asked = question;
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

function rankingsOf(answer) {
  const [ranking] = answer.rankings;
  if (!ranking?.rows.some((row) => row.time_source === "measured")) return [];
  const { rows, changes } = ranking;
  const moved = changes.filter((one) => one.before_rank !== null && one.before_rank !== one.after_rank);
  return [
    el("h3", {}, "What the stored runs say"),
    el("p", {}, `${capitalized(ranking.summary)}.`),
    el(
      "ol",
      { class: "ranking" },
      rows.slice(0, SHOWN).map((row) =>
        el(
          "li",
          {},
          el(
            "span",
            { class: "line" },
            el("b", {}, row.label),
            el("span", {}, number(row.time_s, time(row.time_s)), ` ${row.time_source}`),
            row.speedup_ratio === null ? null : el("span", {}, gain(row)),
            row.kernel_gap ? el("span", { class: "bad gap" }, "no kernel here") : null,
          ),
          el("span", { class: "quiet" }, `Confidence ${row.confidence}: ${row.confidence_reason}. `, evidence(row)),
        ),
      ),
    ),
    moved.map((one) => el("p", { class: "quiet" }, `${one.sentence}.`)),
    [...ranking.missing, ...answer.notes].map((text) => el("p", { class: "quiet" }, withCode(`${capitalized(text)}.`))),
  ];
}

/** Print a speed-up with the ends of its interval, where it has one that can be seen in its digits. */
function gain({ speedup_ratio: ratio, speedup_low_ratio: low, speedup_high_ratio: high, speedup_basis: basis }) {
  const ends = [low, high].map(times);
  const interval = low === null || ends[0] === ends[1] ? "" : ` (${ends.join(" to ")})`;
  return `${times(ratio)}${interval}${basis === "across runs" ? " across runs" : ""}`;
}

/** Name the newest run behind a row; a link where the browser may follow it: it cannot send a token. */
function evidence(row) {
  const night = row.evidence.at(-1);
  if (!night) return "";
  const text = `${night.label ?? night.run_id.slice(0, 8)}, ${moment(night.started_at)}`;
  const more = row.evidence.length > 1 ? ` and ${counted(row.evidence.length - 1, "earlier run")}` : "";
  const href = (night.case_url ?? night.run_url).replace(/^\//, "");
  return [hasToken() ? text : el("a", { href, target: "_blank", rel: "noopener" }, text), more];
}
