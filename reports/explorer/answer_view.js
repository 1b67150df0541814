// The answer in words, its figures, and the table of every chosen format.

import { fasterButLessSure, focusedRow, isOfEngines } from "./answers.js";
import { largestPart, why } from "./binding.js";
import { byId, el, fill, number, say, withBreaks, withCode } from "./dom.js";
import {
  asFast,
  bytes,
  byteRate,
  flop,
  flopRate,
  intensity,
  interval,
  MISSING,
  roughShare,
  significant,
  time,
  times,
} from "./numbers.js";
import { OPERATORS } from "./operators.js";
import { unknownTimes } from "./unknown_times.js";

const PROVENANCE = {
  fitted: "constants fitted to measurements of this chip",
  "transferred-sibling": "constants of a sibling chip, not yet measured on this one",
  "transferred-family": "constants of a related chip, wide interval",
  "transferred-class": "constants of another class of chip, wide interval",
  "transferred-format": "constants of another format on this chip",
  "measured-here": "calibrated on this machine",
};

/** Show the main chip's answer; `measured` is a case of the chosen run that is the very product asked for, by format. Without
 *  the API's ranking (`isRanked` false) no format is called the best. */
export function showAnswer(state, main, store, measured, isRanked) {
  const focus = focusedRow(main, state.focus);
  if (!focus) return showNothing(main);
  const { answer } = focus;
  say(byId("answer-title"), `${OPERATORS[state.op].title(answer)} on ${focus.chip}`);
  say(byId("headline"), headline(focus, main));
  say(byId("why"), why(state, focus));
  fill(byId("figures"), figures(state, focus));
  fill(
    byId("remarks"),
    remarks(focus).map((text) => el("li", {}, withCode(text))),
  );
  showTable(state, main, focus, store, measured, isRanked);
  return focus;
}

function showNothing(main) {
  const shared = [...new Set(main.rows.map((row) => row.error))];
  const wrong = Object.keys(main.errors).length;
  say(byId("answer-title"), "Prediction");
  say(
    byId("headline"),
    wrong
      ? "No prediction until the marked input is mended."
      : (main.problem?.message ??
        (shared.length === 1
          ? `No prediction. ${shared[0]}`
          : "No prediction: the chip computes in none of these formats.")),
  );
  say(byId("why"), "");
  fill(byId("figures"));
  fill(
    byId("remarks"),
    wrong || shared.length === 1 ? [] : main.rows.map((row) => el("li", {}, `${row.label}: ${row.error}`)),
  );
  fill(byId("table"), el("p", { class: "quiet" }, "Nothing to compare until there is a prediction."));
  return null;
}

/** Say the row's time: what it "should" take where it can run as it is, what it "would" take where something is missing. */
function headline(row, { misfit }) {
  const { expected } = row;
  const gain = expected ? row.expectedSpeedup : row.speedup;
  const compared = gain === null || row.format === row.baseline ? "" : `, ${asFast(gain, row.baseline)}`;
  const isTooBig = row.memory?.fits === false;
  const isPossible = !isTooBig && !row.kernelGap;
  const rest = [
    isTooBig && `It does not fit: it needs ${bytes(row.memory.total_bytes)} of ${bytes(row.memory.capacity_bytes)}.`,
    row.kernelGap &&
      (isOfEngines(row) ? sentence(row.kernelGap.text) : "No kernel that could run it on this chip is known."),
    misfit && "Nothing meets the limits of the recommendation.",
  ].filter(Boolean);
  const took = expected
    ? `${row.label} ${isPossible ? "should" : "would"} take ${time(expected.time_s)} (${interval(expected.low_s, expected.high_s)} four times in five)${compared}.`
    : `${row.label} ${isPossible ? "takes" : "would take"} at least ${time(row.timeS)}${compared}; no expected time is known.`;
  return [took, ...rest].join(" ");
}

/** Say that nothing is called the best before the ranking is here, or which format may be faster than the best one. */
function underTable(state, { rows, best }, isRanked) {
  if (!isRanked) return el("p", { class: "quiet", id: "unranked" }, "The recommendation is still being computed: no format is marked yet.");
  const faster = best && state.op !== "model" && fasterButLessSure(rows, best); // of a model the API's notes say it
  if (!faster) return null;
  const end = (row) => time(row.expected.high_s);
  return el(
    "p",
    { class: "quiet", id: "less-sure" },
    `${faster.label} is expected to be faster than ${best.label}, but less surely: its 80 % interval ends at ${end(faster)}, not ${end(best)}.`,
  );
}

function figures(state, row) {
  const { expected } = row;
  const shown = [
    [
      "Expected",
      expected ? number(expected.time_s, time(expected.time_s)) : MISSING,
      expected ? interval(expected.low_s, expected.high_s) : "no model for this",
    ],
    ["Ideal", number(row.timeS, time(row.timeS)), `${row.bound === "memory" ? "bytes / bandwidth" : "FLOPs / peak"}`],
    ["Roof", row.bound, expected?.parts_s ? largestPart(expected.parts_s) : row.level],
    ["Intensity", number(row.intensity, intensity(row.intensity)), "FLOP per byte"],
    [
      "Ridge",
      row.ridge === null ? MISSING : number(row.ridge, intensity(row.ridge)),
      row.peak === null ? "FLOP per byte" : `${flopRate(row.peak)} over ${byteRate(row.bandwidth)}`,
    ],
  ];
  if (row.tokensPerS !== undefined)
    shown.push(["Tokens/s", number(row.tokensPerS, significant(row.tokensPerS, 4)), expected ? "expected" : "ideal"]);
  if (row.memory)
    shown.push([
      "Memory",
      number(row.memory.total_bytes, bytes(row.memory.total_bytes)),
      row.memory.fits === null
        ? "capacity unknown"
        : `${row.memory.fits ? "fits in" : "does not fit in"} ${bytes(row.memory.capacity_bytes)}`,
    ]);
  if (row.unfusedS !== undefined)
    shown.push(["Unfused", number(row.unfusedS, time(row.unfusedS)), "ideal of three kernels"]);
  return shown.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "quiet" }, note)),
  );
}

/** Codes of findings that say that operands are widened before the product. */
const WIDENED = new Set(["operands-widened", "no-native-unit", "rate-not-declared"]);

function remarks(row) {
  const found = [];
  if (row.isPlaceholder)
    found.push("The numbers of this chip are placeholders of the original documents: examples, not facts.");
  if (row.path === "dequantize" && !row.findings.some((finding) => WIDENED.has(finding.code)))
    found.push(
      `No unit of this chip computes in ${row.weight === row.activation ? row.weight : row.label}: operands are widened to ${row.computeFormat} first, so only the bytes are saved.`,
    );
  if (row.path === "emulated")
    found.push(
      `This chip emulates ${row.weight} in ${row.computeFormat}; what the emulation costs is not in the ideal time.`,
    );
  if (row.answer.coverage) found.push(sentence(row.answer.coverage.text));
  if (row.kernelGap && !isOfEngines(row)) found.push(sentence(row.kernelGap.text));
  if (row.answer.engine_gap) found.push(sentence(row.answer.engine_gap.text));
  if (row.expected)
    found.push(
      ...[PROVENANCE[row.expected.provenance] && `Expected time: ${PROVENANCE[row.expected.provenance]}.`].filter(
        Boolean,
      ),
      ...row.expected.findings.map((finding) => sentence(finding.text)),
    );
  else if (row.expectedReason) found.push(sentence(row.expectedReason));
  return [...new Set([...found, ...row.findings.map((finding) => sentence(finding.text))])];
}

const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

function showTable(state, main, focus, store, measured, isRanked) {
  const isModel = state.op === "model";
  const hasMeasured = Object.keys(measured).length > 0;
  const against = `vs ${focus.baseline ?? "16 bit"}`;
  const heads = [
    "Format",
    "Expected",
    "80 % of times",
    "Ideal",
    hasMeasured && "Measured",
    against,
    isModel && "Tokens/s",
    isModel && "Memory",
    "Bound",
    "FLOP/byte",
    !isModel && "Ridge",
    !isModel && "Path",
  ].filter(Boolean);
  const body = main.rows.map((row) => {
    const radio = el("input", {
      type: "radio",
      name: "focus",
      value: row.format,
      onchange: () => store.set({ focus: row.format }),
    });
    radio.checked = row === focus;
    radio.disabled = Boolean(row.error);
    const about = [row.weight !== row.activation && row.operands, row.isAdded && "recommended"].filter(Boolean);
    const head = el(
      "th",
      { scope: "row" },
      el("label", {}, radio, el("span", { class: "swatch", "data-format": row.label }), el("span", {}, withBreaks(row.label))),
      about.length ? el("span", { class: "quiet widths" }, about.join(" · ")) : null,
    );
    if (row.error) return el("tr", {}, head, el("td", { class: "why", colspan: heads.length - 1 }, row.error));
    const gain = row.expected && row.expectedSpeedup !== null ? row.expectedSpeedup : row.speedup;
    const cell = (name, value, text) =>
      el("td", { class: "n", "data-name": name, "data-head": name }, number(value, text));
    return el(
      "tr",
      { class: row === focus ? "chosen" : null, "data-format": row.format },
      head,
      el(
        "td",
        { class: "n time", "data-head": "Expected" },
        row.expected
          ? number(row.expected.time_s, time(row.expected.time_s))
          : el("span", { class: "quiet" }, "not known"),
        row === main.best ? el("span", { class: "best" }, "best") : null,
        row.kernelGap
          ? el("span", { class: "bad gap", title: row.kernelGap.text }, isOfEngines(row) ? "no engine" : "no kernel")
          : null,
      ),
      el(
        "td",
        { class: "n", "data-head": "80 % of times" },
        row.expected ? interval(row.expected.low_s, row.expected.high_s) : MISSING,
      ),
      cell("Ideal", row.timeS, time(row.timeS)),
      hasMeasured
        ? el(
            "td",
            { class: "n", "data-head": "Measured" },
            measured[row.format]
              ? number(measured[row.format].measured_s, time(measured[row.format].measured_s))
              : MISSING,
          )
        : null,
      el(
        "td",
        { class: "n", "data-head": against },
        number(gain, times(gain)),
        gain !== null && !row.expected ? el("span", { class: "quiet" }, " ideal") : null,
      ),
      isModel ? cell("Tokens/s", row.tokensPerS, significant(row.tokensPerS, 4)) : null,
      isModel
        ? el(
            "td",
            { class: "n", "data-head": "Memory" },
            number(row.memory.total_bytes, bytes(row.memory.total_bytes)),
            row.memory.fits === false ? el("span", { class: "bad" }, " too big") : null,
          )
        : null,
      el("td", { "data-head": "Bound" }, row.bound),
      cell("FLOP/byte", row.intensity, intensity(row.intensity)),
      isModel ? null : cell("Ridge", row.ridge, intensity(row.ridge)),
      isModel
        ? null
        : el(
            "td",
            { "data-head": "Path" },
            row.path === "native"
              ? "native"
              : `${row.path === "emulated" ? "emulated in" : "via"} ${row.computeFormat}`,
          ),
    );
  });
  const hadFocus = document.activeElement?.name === "focus";
  fill(
    byId("table"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of formats" },
      el(
        "table",
        { class: hasMeasured ? "stacks dense" : "stacks" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            heads.map((head, index) =>
              el("th", { scope: "col", class: index && !["Bound", "Path"].includes(head) ? "n" : null }, head),
            ),
          ),
        ),
        el("tbody", {}, body),
      ),
    ),
    underTable(state, main, isRanked),
    unknownTimes(state, main.rows, store),
  );
  if (hadFocus) byId("table").querySelector("input:checked")?.focus();
}

/** Return what is left to say of memory traffic: bytes moved and the share of the ideal that the expected time reaches. */
export function trafficLine(row) {
  const reached = row.expected
    ? ` A good kernel reaches ${roughShare(row.timeS / row.expected.time_s)} of this roof.`
    : "";
  return `${bytes(row.movedBytes)} moved, ${flop(row.flops)}.${reached}`;
}
