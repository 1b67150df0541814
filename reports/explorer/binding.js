// What binds a time, in words: the roofline says what the ideal is bound by, the parts of the expected time what a kernel is.

import { intensity, roughShare } from "./numbers.js";

/** What each part of an expected time is. */
export const MEANINGS = {
  launch: "the shortest this kernel can be",
  tensor: "tensor pipe",
  dram: "DRAM traffic",
  l2: "operands refetched from L2, output written",
  sm: "load path of one SM",
  latency: "steps that wait for each other",
  waves: "prologue and epilogue of further waves",
  dequantize: "widening the weights",
  split: "split work: partial results written, read and added",
  cast: "quantising the activations",
  serial: "serial part of the GEMV kernel",
  kernel: "this kernel beyond the machine's ceilings, as calibrated",
  library: "what this chip's library takes beyond the formulas",
  append: "appending to the cache",
};

const KINDS = {
  bytes: ["dram", "l2", "sm"],
  arithmetic: ["tensor"],
  conversion: ["dequantize", "cast"],
  overhead: ["launch", "latency", "serial", "waves", "split", "append"],
};
const WORTH_SAYING = 0.25;

/** Return the kind of a part: bytes, arithmetic, conversion or overhead; "" for what is none of them. */
const kindOf = (part) => Object.keys(KINDS).find((kind) => KINDS[kind].includes(part)) ?? "";

/**
 * Return {kind: share} of an expected time. What a calibrated kernel takes less than the formulas say is a part below zero: it
 * shortens the others alike, and the shares are of what is left of them, so that they never come to more than all.
 */
function sharesOf(parts_s) {
  const parts = Object.entries(parts_s).filter(([, seconds]) => seconds > 0);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  const shares = { bytes: 0, arithmetic: 0, conversion: 0, overhead: 0, "": 0 };
  for (const [name, seconds] of parts) shares[kindOf(name)] += seconds / total;
  return shares;
}

const largest = (numbers) => Object.keys(numbers).reduce((first, name) => (numbers[name] > numbers[first] ? name : first));

/** Say what binds the row's time and what would help: of the expected time where there is one, else of the ideal. */
export function why(state, row) {
  const narrower = { attention: "narrower cache", model: "narrower weight or cache" }[state.op] ?? "narrower weight";
  const shares = row.expected?.parts_s ? sharesOf(row.expected.parts_s) : null; // a whole model has kernels, not parts
  const kind = shares && largest(shares);
  const said = kind ? expectedWords(kind, shares, row, narrower, state.op) : idealWords(row, narrower);
  return `${roofWords(row)} ${said}`;
}

function roofWords(row) {
  const ridge = row.ridge === null ? "" : `; the chip breaks even at ${intensity(row.ridge)}`;
  return `By the roofline ${row.bound}-bound: it does ${intensity(row.intensity)} FLOP for each byte it moves${ridge}.`;
}

function idealWords(row, narrower) {
  const helps =
    row.bound === "memory"
      ? `A ${narrower} moves fewer bytes; more arithmetic would not help.`
      : "Only a format with a faster unit helps; fewer bytes would not.";
  if (!row.expected || row.timeS / row.expected.time_s >= 0.5) return helps;
  return `That bound is only ${roughShare(row.timeS / row.expected.time_s)} of the expected time, so another format gains less than its bytes and units say.`;
}

function expectedWords(kind, shares, row, narrower, operator) {
  const own = roughShare(shares[kind]);
  const { bytes, overhead } = shares;
  if (kind === "overhead") {
    const more = operator === "attention" ? "more sequences in one call" : "more rows in one call";
    const [helper, helped, what] =
      row.bound === "memory"
        ? [`a ${narrower}`, bytes, "moving bytes"]
        : ["a faster unit", shares.arithmetic, "the arithmetic"];
    const left = helped < 0.005 ? `${helper} would not help` : `${helper} shortens only the ${roughShare(helped)} that ${what} takes`;
    return `But ${own} of the expected time is launch, waiting and bookkeeping: ${left}; ${more} shares it out.`;
  }
  const also =
    overhead >= WORTH_SAYING ? ` ${roughShare(overhead)} is launch and waiting, which ${kind === "arithmetic" ? "a faster unit does" : "fewer bytes do"} not shorten.` : "";
  const helps = {
    bytes: `a ${narrower} moves fewer; more arithmetic would not help.`,
    arithmetic: "only a format with a faster unit helps; fewer bytes would not.",
    conversion: "a format that the chip computes in as it is stored needs none.",
  }[kind];
  const what = { bytes: "Moving bytes", arithmetic: "Arithmetic", conversion: "Converting between formats" }[kind];
  return `${what} takes ${own} of the expected time: ${helps}${also}`;
}

/** Return the largest part of an expected time, in words. */
export function largestPart(parts_s) {
  const name = largest(parts_s);
  return `largest part: ${name === "dram" ? "DRAM" : name}`;
}
