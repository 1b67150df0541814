// Questions to the API for the state, asked together; an answer that a newer question has overtaken is dropped.

import { ApiProblem, get, post } from "./api.js";
import { formatLabel, inputOf, operandsOf, OPERATORS, withModelSpeedups } from "./operators.js";
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

/** Return the fastest row that a known kernel can run: among expected times where any row has one, else among ideal ones. */
export function fastest(rows) {
  const timed = rows.filter((row) => !row.error);
  const runnable = timed.filter((row) => !row.kernelGap);
  const known = runnable.length ? runnable : timed;
  const fitting = known.filter((row) => row.memory?.fits !== false);
  const pool = fitting.length ? fitting : known;
  const expected = pool.filter((row) => row.expected);
  const judged = expected.length ? expected : pool;
  return judged.reduce((best, row) => (best === null || judgedS(row) < judgedS(best) ? row : best), null);
}

/** Return the row that the details are about: the reader's choice, else the fastest. */
export function focusedRow(rows, focus) {
  return rows.find((row) => row.format === focus && !row.error) ?? fastest(rows);
}
