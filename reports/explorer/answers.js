// Questions to the API for the state, asked together; an answer that a newer question has overtaken is dropped.

import { ApiProblem, get, post } from "./api.js";
import { batchQuestion, formatLabel, inputErrors, inputOf, operandsOf, OPERATORS } from "./operators.js";
import { comparedOf, formatsOf } from "./state.js";

const details = new Map(); // chip key → promise of its numbers, the same for ever

/** Return everything known of a chip. */
export function chipDetail(key) {
  if (!details.has(key)) {
    const detail = get(`api/hardware/${encodeURIComponent(key)}`);
    details.set(key, detail);
    detail.catch(() => details.delete(key));
  }
  return details.get(key);
}

/** Ask for one chip: {key, chip, rows, errors, problem}. A row has numbers, or `error` in words. */
export async function askChip(state, key, signal) {
  const chip = await chipDetail(key);
  const outcomes = await Promise.all(formatsOf(state).map((format) => askFormat(state, key, format, signal)));
  const errors = {};
  let problem = null;
  const rows = outcomes.map((outcome) => {
    if (outcome.answer) return rowOf(state.op, outcome.format, outcome.answer, chip);
    if (outcome.problem.fields.length === 0) problem = outcome.problem;
    Object.assign(errors, inputErrors(state.op, outcome.problem.fields));
    return {
      ...named(state.op, outcome.format),
      error: outcome.problem.fields.find(({ field }) => !inputOf(state.op, field))?.message ?? outcome.problem.message,
    };
  });
  return { key, chip, rows, errors, problem };
}

/** Ask for one format: {format, answer} or {format, problem}. */
async function askFormat(state, key, format, signal) {
  const [path, body] = OPERATORS[state.op].question(state, format);
  return { format, ...(await settled(post(`${path}?hardware_key=${encodeURIComponent(key)}`, body, signal))) };
}

const named = (operator, format) => ({ format, label: formatLabel(operator, format), ...operandsOf(format) });
const rowOf = (operator, format, answer, chip) => ({ ...named(operator, format), ...OPERATORS[operator].row(answer, chip) });

/** Ask for the ranking of formats on a chip: {answer} or {problem}. */
export function askRecommendation(state, key, signal) {
  const [path, body] = OPERATORS[state.op].advice(state);
  return settled(post(`${path}?hardware_key=${encodeURIComponent(key)}`, body, signal));
}

/**
 * Return the answers of a chip with what its ranking says to take: `best` is that row, one more where the page has not chosen
 * its formats; null where the ranking takes none, and `misfit` says why. Nothing here ranks: that is the API's alone.
 */
export async function withPick(state, answers, { answer }, signal) {
  if (!answer || !answers.chip) return { ...answers, best: null };
  const { misfit, ...pick } = OPERATORS[state.op].pick(answer);
  if (misfit) return { ...answers, best: null, misfit };
  const shown = answers.rows.find((row) => row.format === pick.format && !row.error);
  if (shown) return { ...answers, best: shown };
  const added = pick.answer ? pick : await askFormat(state, answers.key, pick.format, signal);
  if (!added.answer) return { ...answers, best: null };
  const row = { ...rowOf(state.op, pick.format, added.answer, answers.chip), isAdded: true };
  const best = pick.label ? { ...row, label: pick.label } : row;
  return { ...answers, rows: [...answers.rows.filter((other) => other.format !== pick.format), best], best };
}

/** Ask for every compared chip and its ranking, the main one (with its own) first; a chip that is not known says so. */
export function askCompared(state, main, signal) {
  return Promise.all([
    main,
    ...comparedOf(state).map(async (key) => {
      try {
        const chip = await chipDetail(key); // of a chip that nobody knows nothing else is asked
        if (Object.keys(main.errors).length) return { key, chip, rows: [], errors: main.errors, problem: null, best: null };
        const [answers, ranking] = await Promise.all([askChip(state, key, signal), askRecommendation(state, key, signal)]);
        return await withPick(state, answers, ranking, signal);
      } catch (error) {
        if (!(error instanceof ApiProblem)) throw error;
        return { key, chip: null, rows: [], errors: {}, problem: error, best: null };
      }
    }),
  ]);
}

/** Ask for the curves of batch against latency of the model: {answer} or {problem}; null for other operators. */
export async function askBatches(state, signal) {
  if (state.op !== "model") return null;
  const [path, body] = batchQuestion(state);
  return settled(post(`${path}?hardware_key=${encodeURIComponent(state.hw)}`, body, signal));
}

/** Return {input name: message} of the limits that the ranking refused. */
export const adviceErrors = (state, { problem }) => inputErrors(state.op, problem?.fields ?? []);

/**
 * Ask for the tile that a row's product gets, {answer} or {problem}, and the figure of its efficiency over N; null for other operators, for chips without tiles, and
 * where no expected time is known: a tile is a choice of the kernel that would have one.
 */
export async function askTiling(state, chip, row, signal) {
  if (state.op !== "product" || chip.kind === "cpu" || !row.expected) return null;
  const [, body] = OPERATORS.product.question(state, row.format);
  const chipKey = encodeURIComponent(state.hw);
  const [tiling, figure] = await Promise.all([
    settled(post(`api/tiling?hardware_key=${chipKey}`, body, signal)),
    settled(post(`api/figures/tiling?hardware_key=${chipKey}`, body, signal)),
  ]);
  return { ...tiling, figure: figure.answer ?? null };
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

/** Return the row that the details are about: the reader's choice, else the one to take, else the first that could run. */
export function focusedRow({ rows, best }, focus) {
  const timed = rows.filter((row) => !row.error);
  return (
    timed.find((row) => row.format === focus) ??
    best ??
    timed.find((row) => !row.kernelGap && row.memory?.fits !== false) ??
    timed[0]
  );
}
