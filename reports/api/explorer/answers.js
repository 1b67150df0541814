// Questions to the API for the state, asked together; an answer that a newer question has overtaken is dropped.

import { ApiProblem, get, post } from "./api.js";
import { formatLabel, inputOf, operandsOf, OPERATORS, pairKey, withModelSpeedups } from "./operators.js";
import { comparedOf, formatsOf } from "./state.js";

const details = new Map(); // chip key → promise of its numbers, the same for ever

/** Return everything known of a chip. */
export function chipDetail(key) {
  if (!details.has(key)) {
    const asked = get(`api/hardware/${encodeURIComponent(key)}`);
    details.set(key, asked);
    asked.catch(() => details.delete(key));
  }
  return details.get(key);
}

/** Ask for one chip: {key, chip, rows, errors, problem}. A row has numbers, or `error` in words. */
export async function askChip(state, key, signal) {
  const chip = await chipDetail(key);
  const spec = OPERATORS[state.op];
  const outcomes = await Promise.all(
    formatsOf(state).map(async (format) => {
      const [path, body] = spec.question(state, format);
      try {
        return { format, answer: await post(`${path}?hardware_key=${encodeURIComponent(key)}`, body, signal) };
      } catch (problem) {
        if (!(problem instanceof ApiProblem)) throw problem;
        return { format, problem };
      }
    }),
  );
  const errors = {};
  let problem = null;
  const rows = outcomes.map((one) => {
    const named = { format: one.format, label: formatLabel(one.format), ...operandsOf(one.format) };
    if (one.answer) return { ...named, ...spec.row(one.answer, one.format, chip) };
    if (one.problem.fields.length === 0) problem = one.problem;
    for (const { field, message } of one.problem.fields) {
      const input = inputOf(state.op, field);
      if (input) errors[input] = message;
    }
    return {
      ...named,
      error: one.problem.fields.find(({ field }) => !inputOf(state.op, field))?.message ?? one.problem.message,
    };
  });
  return { key, chip, rows: state.op === "model" ? withModelSpeedups(rows) : rows, errors, problem };
}

/** Ask for every compared chip, the main one first; a chip that is not known says so. */
export function askCompared(state, main, signal) {
  return Promise.all([
    main,
    ...comparedOf(state).map((key) =>
      askChip(state, key, signal).catch((error) => {
        if (!(error instanceof ApiProblem)) throw error;
        return { key, chip: null, rows: [], errors: {}, problem: error };
      }),
    ),
  ]);
}

/** Ask for the ranking of formats: {answer} or {problem}. */
export function askRecommendation(state, signal) {
  const [path, body] = OPERATORS[state.op].advice(state);
  return settled(post(`${path}?hardware_key=${encodeURIComponent(state.hw)}`, body, signal));
}

/** Return {input name: message} of the limits that the ranking refused. */
export function adviceErrors(state, { problem }) {
  const found = {};
  for (const { field, message } of problem?.fields ?? []) {
    const input = inputOf(state.op, field);
    if (input) found[input] = message;
  }
  return found;
}

/** Ask for the tile that a format's product gets: {answer} or {problem}; null for other operators and for chips without tiles. */
export async function askTiling(state, chip, format, signal) {
  if (state.op !== "product" || chip.kind === "cpu") return null;
  const [, body] = OPERATORS.product.question(state, format);
  return settled(post(`api/tiling?hardware_key=${encodeURIComponent(state.hw)}`, body, signal));
}

async function settled(promise) {
  try {
    return { answer: await promise };
  } catch (problem) {
    if (!(problem instanceof ApiProblem)) throw problem;
    return { problem };
  }
}

/** The time a row is judged by: the expected one where there is one. */
export const judgedS = (row) => row.expected?.time_s ?? row.timeS;

/** Predictions nearer than this are level: LEVEL_RATIO of roofline_model/tie_ranking.py. */
const LEVEL_RATIO = 0.05;

const endS = (row) => row.expected?.high_s ?? row.timeS;
const least = (rows, value) => rows.reduce((best, row) => (best === null || value(row) < value(best) ? row : best), null);

/**
 * Return the row to take of those that a known kernel can run and the memory holds: what the API's ranking has first, where
 * `order` ({format: place}) tells; else by its own rule for predictions (roofline_model/tie_ranking.py): the earliest end of the
 * 80 % interval, of ends within 5 % the least time. Of times that are level then, too, the ranking knows the losses.
 */
export function bestRow(rows, order = {}) {
  const pool = contenders(rows);
  const first = pool.find((row) => order[row.format] === 0);
  if (first) return first;
  const ends = pool.filter((row) => endS(row) <= endS(least(pool, endS)) * (1 + LEVEL_RATIO));
  const level = ends.filter((row) => judgedS(row) <= judgedS(least(ends, judgedS)) * (1 + LEVEL_RATIO));
  return least(level.filter((row) => row.format in order), (row) => order[row.format]) ?? least(level, judgedS);
}

/** Return the contender that is expected to be faster than the best one, but less surely; null where none is. */
export function fasterButLessSure(rows, best) {
  const found = best && least(contenders(rows), judgedS);
  return found && judgedS(found) * (1 + LEVEL_RATIO) < judgedS(best) ? found : null;
}

function contenders(rows) {
  const timed = rows.filter((row) => !row.error);
  const runnable = timed.filter((row) => !row.kernelGap);
  const known = runnable.length ? runnable : timed;
  const fitting = known.filter((row) => row.memory?.fits !== false);
  const pool = fitting.length ? fitting : known;
  const expected = pool.filter((row) => row.expected);
  return expected.length ? expected : pool;
}

const RANKED_AS = {
  product: (one) => pairKey(one.weight_format, one.activation_format),
  attention: (one, answer) => pairKey(one.kv_format, answer.activation_format),
  model: (one) => (one.kind === "baseline" ? one.plan : one.formats), // of a mixed plan or another cache: no format of the page
};

/** Return {format of the page: place in the API's ranking}; the plans of a model are told in one of the 16-bit formats. */
export function orderOf(operator, { answer }) {
  const places = (answer?.candidates ?? []).map((one, place) => [RANKED_AS[operator](one, answer), place]);
  if (operator === "model") places.unshift(...places.map(([name, place]) => [name.replace("BF16", "FP16"), place]));
  return Object.fromEntries(places);
}

/** Return the row that the details are about: the reader's choice, else the best. */
export function focusedRow(rows, focus, order) {
  return rows.find((row) => row.format === focus && !row.error) ?? bestRow(rows, order);
}
