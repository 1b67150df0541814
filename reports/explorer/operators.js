// What each operator asks for, which question that is to the API, and how its answers become rows of one kind.

import { count } from "./numbers.js";

const size = (name, label, hint, value, optional = false) => ({ kind: "size", name, label, hint, value, optional });

/** Limits of time that the curves of a model are held against, seconds as text; empty: none. */
export const SLIDERS = ["token", "first"];

const PRODUCT = {
  fields: [
    size("M", "M", "tokens in flight", "1"),
    size("N", "N", "output features", "4096"),
    size("K", "K", "input features", "4096"),
    {
      kind: "choice",
      name: "cache",
      label: "Operands",
      value: "cold",
      choices: [
        ["cold", "cold: read from DRAM"],
        ["warm", "warm: still in the cache"],
      ],
    },
  ],
  limits: [
    { ...size("limit", "Memory limit", "GB, optional", "", true), apiName: "memory_limit_gb" },
    { ...size("parameters", "Parameters", "of the whole model, optional", "", true), apiName: "model_parameters" },
    { ...size("loss", "Loss limit", "% of quality, else 3", "", true), apiName: "max_loss_pct" },
  ],
  presets: [
    ["Decode", { M: "1", N: "4096", K: "4096" }],
    ["Batch 16", { M: "16", N: "14336", K: "4096" }],
    ["Prefill 2k", { M: "2048", N: "4096", K: "4096" }],
  ],
  operands: ["weight", "activation"],
  question: (state, format) => [
    "api/analyze",
    { ...sizes(PRODUCT, state, ["M", "N", "K"]), cache: state.cache, ...pair(format, "weight_precision") },
  ],
  advice: (state) => ["api/recommend", { ...sizes(PRODUCT, state, ["M", "N", "K"]), ...limits(PRODUCT, state) }],
  pick: ({ best, fits_memory_limit: fits, summary }) =>
    fits === false ? { misfit: summary } : { format: pairKey(best.weight_format, best.activation_format) },
  title: (answer) => `${answer.op.toUpperCase()} ${count(answer.M)} × ${count(answer.N)} × ${count(answer.K)}`,
  row: (answer) => ({ ...timed(answer), operands: answer.operands }),
};

const ATTENTION = {
  fields: [
    size("B", "B", "sequences", "1"),
    size("Hq", "Hq", "query heads", "32"),
    size("Hkv", "Hkv", "key/value heads", "8"),
    size("Sq", "Sq", "new tokens; 1: decode", "1"),
    size("Skv", "Skv", "tokens in the cache", "4096"),
    size("D", "D", "elements of a head", "128"),
    { kind: "check", name: "causal", label: "Causal mask", value: "" },
    { ...size("window", "Window", "keys seen, optional", "", true) },
  ],
  limits: [],
  presets: [
    ["Decode 4k", { Sq: "1", Skv: "4096", causal: "" }],
    ["Decode 128k", { Sq: "1", Skv: "131072", causal: "" }],
    ["Prefill 4k", { Sq: "4096", Skv: "4096", causal: "yes" }],
  ],
  operands: ["K and V", "query"],
  question: (state, format) => [
    "api/attention",
    {
      ...sizes(ATTENTION, state, ["B", "Hq", "Hkv", "Sq", "Skv", "D", "window"]),
      causal: state.causal === "yes",
      ...pair(format, "kv_precision"),
    },
  ],
  advice: (state) => [
    "api/attention/recommend",
    { ...sizes(ATTENTION, state, ["B", "Hq", "Hkv", "Sq", "Skv", "D", "window"]), causal: state.causal === "yes" },
  ],
  pick: ({ best, activation_format: query }) => ({ format: pairKey(best.kv_format, query) }),
  title: (answer) =>
    `Attention, ${count(answer.Sq)} new of ${count(answer.Skv)} tokens, ${answer.Hq}/${answer.Hkv} heads of ${answer.D}`,
  row: (answer) => ({ ...timed(answer), unfusedS: answer.unfused_time_s }),
};

const MODEL = {
  fields: [
    { kind: "model", name: "model", label: "Model", value: "llama-3.1-8b" },
    {
      kind: "choice",
      name: "phase",
      label: "Phase",
      value: "decode",
      choices: [
        ["decode", "decode: one new token each"],
        ["prefill", "prefill: the prompt"],
      ],
    },
    { ...size("batch", "Batch", "sequences", "1"), apiName: "batch_count" },
    { ...size("context", "Context", "tokens of each", "4096"), apiName: "context_tokens" },
  ],
  limits: [
    { ...size("limit", "Memory limit", "GB; else the chip's", "", true), apiName: "memory_limit_gb" },
    { ...size("loss", "Loss limit", "% of quality, else 3", "", true), apiName: "max_loss_pct" },
  ],
  presets: [
    ["Chat 4k", { phase: "decode", batch: "1", context: "4096" }],
    ["Serving 64 × 4k", { phase: "decode", batch: "64", context: "4096" }],
    ["Prompt 2k", { phase: "prefill", batch: "1", context: "2048" }],
  ],
  operands: ["weight", "activation"],
  sliders: SLIDERS,
  question: (state, format) => [
    `api/models/${encodeURIComponent(state.model)}/predict`,
    { ...sizes(MODEL, state, ["batch", "context"]), phase: state.phase, formats: format },
  ],
  advice: (state) => [
    `api/models/${encodeURIComponent(state.model)}/recommend`,
    { ...sizes(MODEL, state, ["batch", "context"]), phase: state.phase, ...limits(MODEL, state) },
  ],
  pick: pickOfModel,
  title: (answer) =>
    `${answer.model}, ${answer.phase} of ${count(answer.batch_count)} × ${count(answer.context_count)} tokens`,
  row: modelRow,
};

export const OPERATORS = { product: PRODUCT, attention: ATTENTION, model: MODEL };

/** Values of every input before anybody changes one. */
export const DEFAULT_INPUTS = Object.fromEntries(
  Object.values(OPERATORS)
    .flatMap((operator) => [...operator.fields, ...operator.limits])
    .map((field) => [field.name, field.value]),
);

/** Largest M that is a GEMV, as in the API's `op`. */
export const GEMV_ROWS = 16;

/** Return which input a wrong field of the API is, or null where it is about a format or the question as a whole. */
export function inputOf(operator, apiField) {
  if (apiField === "hardware_key") return "hw";
  return apiField === "key" ? "model" : (inputField(operator, apiField)?.name ?? null);
}

function inputField(operator, apiField) {
  const spec = OPERATORS[operator];
  return [...spec.fields, ...spec.limits].find((field) => (field.apiName ?? field.name) === apiField);
}

/** Return {input name: message} of the wrong fields that are inputs; a message that begins with the API's name of its field
 *  begins with the input's label. */
export function inputErrors(operator, fields) {
  const errors = {};
  for (const { field, message } of fields) {
    const label = inputField(operator, field)?.label;
    const name = inputOf(operator, field);
    if (name) errors[name] = label && message.startsWith(`${field} `) ? `${label}${message.slice(field.length)}` : message;
  }
  return errors;
}

let names = { product: {}, attention: {}, alone: {} };

/** Return {weight, activation} of `INT4.FP16`, or of the pair that one name stands for: `INT4` is INT4.BF16, `FP8_E4M3` twice that. */
export function operandsOf(format) {
  const [weight, activation = weight] = (names.alone[format] ?? format).split(".");
  return { weight, activation };
}

/** Return a pair as the address has it: `INT4.FP16`, or one name where that stands for both operands. */
export function pairKey(weight, activation) {
  const pair = `${weight}.${activation}`;
  return weight === activation && (names.alone[weight] ?? pair) === pair ? weight : pair;
}

/** Keep the server's names of all pairs of formats, of products and of attentions. */
export function keepNames(catalog) {
  names = catalog;
}

/** Return the one name of a pair of formats, `INT4 (W4A16)`; of a format that the server does not know its key. */
export function formatLabel(operator, format) {
  const { weight, activation } = operandsOf(format);
  return names[operator === "attention" ? "attention" : "product"][`${weight}.${activation}`] ?? format;
}

/** Return the question for the curves of batch against latency: [path, body]. */
export function batchQuestion(state) {
  const limited = [["token", "max_token_s"], ["first", "max_first_token_s"]].filter(([name]) => state[name] !== "");
  return [
    `api/models/${encodeURIComponent(state.model)}/batches`,
    {
      ...sizes(MODEL, state, ["context"]),
      ...limits(MODEL, state),
      ...Object.fromEntries(limited.map(([name, apiName]) => [apiName, Number(state[name])])),
    },
  ];
}

/** Return the number that was typed, `4,096`, `4 096` and `1e9` too, else the text itself: the API says what is wrong with it. */
export function typed(text) {
  const plain = text.trim();
  const digits = /^\d{1,3}([ ,\u00a0\u202f]\d{3})+$/.test(plain) ? plain.replace(/\D/g, "") : plain;
  return /^\d+(\.\d+)?(e\+?\d{1,2})?$/i.test(digits) ? Number(digits) : plain;
}

function sizes(spec, state, names) {
  const request = {};
  for (const name of names) {
    const field = spec.fields.find((candidate) => candidate.name === name);
    if (field.optional && state[name].trim() === "") continue;
    request[field.apiName ?? name] = typed(state[name]);
  }
  return request;
}

function limits(spec, state) {
  return Object.fromEntries(
    spec.limits
      .filter((field) => state[field.name].trim() !== "")
      .map((field) => [field.apiName, typed(state[field.name])]),
  );
}

function pair(format, other) {
  const { weight, activation } = operandsOf(format);
  return weight === activation ? { precision: weight } : { precision: activation, [other]: weight };
}

/** Return a finding's line with what it is about; null for none. */
function reasonOf(finding) {
  if (!finding) return null;
  return finding.subject && !finding.text.includes(finding.subject) ? `${finding.subject}: ${finding.text}` : finding.text;
}

function timed(answer) {
  return {
    answer,
    chip: answer.hardware_name,
    isPlaceholder: answer.is_placeholder,
    timeS: answer.time_s,
    expected: answer.expected,
    expectedReason: reasonOf(answer.expected_reason),
    speedup: answer.speedup_ratio,
    expectedSpeedup: answer.expected_speedup_ratio,
    baseline: answer.baseline_format,
    bound: answer.bound,
    intensity: answer.intensity_flop_per_byte,
    ridge: answer.critical_intensity_flop_per_byte,
    flops: answer.flops,
    movedBytes: answer.read_bytes + answer.write_bytes,
    peak: answer.peak_flops_per_s,
    bandwidth: answer.bandwidth_bytes_per_s,
    level: answer.memory_level,
    path: answer.path,
    computeFormat: answer.compute_format,
    provenance: answer.provenance,
    findings: answer.findings,
    kernelGap: answer.kernel_gap ?? null,
  };
}

/** The plan to take: a format of the page where it is uniform, else a row of its own, with the pass that the ranking brings. */
function pickOfModel({ chosen, summary, candidates, prediction }) {
  if (chosen === null) return { misfit: summary };
  const plan = candidates.find((candidate) => candidate.plan === chosen);
  const format = plan.kind === "baseline" ? chosen : plan.formats;
  return { format, label: plan.name, answer: prediction };
}

function modelRow(answer, chip) {
  const path = chip?.paths[answer.activation_format];
  return {
    answer,
    chip: chip?.name ?? answer.hardware,
    isPlaceholder: chip?.is_placeholder ?? false,
    timeS: answer.time_s,
    expected: answer.expected && { ...answer.expected, provenance: "", findings: [], parts_s: null }, // of a model its kernels say it
    expectedReason: reasonOf(answer.expected_reason),
    speedup: answer.speedup_ratio,
    expectedSpeedup: answer.expected_speedup_ratio,
    baseline: answer.baseline_format,
    bound: answer.bound,
    intensity: answer.flops / answer.moved_bytes,
    ridge: path?.critical_intensity_flop_per_byte ?? null,
    flops: answer.flops,
    movedBytes: answer.moved_bytes,
    peak: path?.dense.value ?? null,
    bandwidth: chip?.bandwidth_bytes_per_s ?? null,
    level: "DRAM",
    path: null,
    computeFormat: path?.compute_format ?? answer.activation_format,
    provenance: answer.provenance,
    findings: answer.findings,
    kernelGap: answer.kernel_gap,
    memory: answer.memory,
    tokensPerS: answer.expected_tokens_per_s ?? answer.tokens_per_s,
  };
}
