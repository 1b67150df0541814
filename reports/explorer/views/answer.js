// The answer as the server words it, its figures, and the table of every chosen format.

import { focusedRow } from "../answers.js";
import { byId, el, fill, number, say, withBreaks, withCode } from "../dom.js";
import { byteRate, bytes, flopRate, intensity, interval, MISSING, significant, time, times } from "../numbers.js";
import { formatLabel, operandsOf, OPERATORS } from "../operators.js";
import { gapOf } from "../reading.js";
import { formatsOf, MOST_FORMATS } from "../state.js";
import { showReason } from "./take.js";
import { ANSWER, FIGURES, fit, FITS, GAPS, KNOWN_BY, PATHS, ROOF_OF, TABLE } from "../words.js";

/** Show the main chip's answer, `reading` of its focused row; `measured` is a case of the chosen run that is the very product asked
 *  for, by format. Without the API's ranking (`isRanked` false) no format is called the best. */
export function showAnswer(state, main, reading, store, measured, isRanked) {
  const focus = focusedRow(main, state.focus);
  if (!focus) return showNothing(main);
  say(byId("answer-title"), fit(ANSWER.title, { question: OPERATORS[state.op].title(focus.answer), chip: focus.chip }));
  byId("prediction").hidden = false;
  say(byId("headline"), reading.headline);
  say(byId("why"), reading.why);
  fill(byId("figures"), figures(focus, reading));
  fill(
    byId("remarks"),
    reading.remarks.map((text) => el("li", {}, withCode(text))),
  );
  showTable(state, main, focus, store, measured, isRanked);
  return focus;
}

function showNothing(main) {
  const shared = [...new Set(main.rows.map((row) => row.error))];
  const isWrong = Object.keys(main.errors).length > 0;
  const reason = shared.length === 1 ? fit(ANSWER.shared, { reason: shared[0] }) : ANSWER.noFormat;
  const reasons = isWrong || shared.length === 1 ? [] : main.rows.map((row) => `${row.label}: ${row.error}`);
  say(byId("answer-title"), ANSWER.none);
  showReason(isWrong ? ANSWER.mend : (main.problem?.message ?? reason), reasons);
  byId("prediction").hidden = true;
  for (const id of ["headline", "why", "figures", "remarks"]) fill(byId(id));
  fill(byId("table"), el("p", { class: "quiet" }, ANSWER.nothing));
  return null;
}

function figures(row, { largest_part: largest }) {
  const { expected, memory } = row;
  const facts = [
    [
      FIGURES.expected,
      expected ? number(expected.time_s, time(expected.time_s)) : MISSING,
      expected ? interval(expected.low_s, expected.high_s) : FIGURES.noExpected,
    ],
    [FIGURES.ideal, number(row.timeS, time(row.timeS)), ROOF_OF[row.bound]],
    [FIGURES.roof, row.bound, largest || row.level],
    [FIGURES.intensity, number(row.intensity, intensity(row.intensity)), FIGURES.perByte],
    [
      FIGURES.ridge,
      row.ridge === null ? MISSING : number(row.ridge, intensity(row.ridge)),
      row.peak === null
        ? FIGURES.perByte
        : fit(FIGURES.peakOver, { peak: flopRate(row.peak), bandwidth: byteRate(row.bandwidth) }),
    ],
  ];
  if (row.tokensPerS !== undefined)
    facts.push([FIGURES.tokens, number(row.tokensPerS, significant(row.tokensPerS, 4)), KNOWN_BY[expected !== null]]);
  if (memory)
    facts.push([
      FIGURES.memory,
      number(memory.total_bytes, bytes(memory.total_bytes)),
      fit(FITS[memory.fits], { capacity: bytes(memory.usable_bytes) }),
    ]);
  if (row.unfusedS !== undefined) facts.push([FIGURES.unfused, number(row.unfusedS, time(row.unfusedS)), FIGURES.unfusedNote]);
  return facts.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "quiet" }, note)),
  );
}

function showTable(state, main, focus, store, measured, isRanked) {
  const isModel = state.op === "model";
  const hasMeasured = main.rows.some((row) => measured[row.format]);
  const against = fit(TABLE.against, { baseline: focus.baseline ?? TABLE.noBaseline });
  const heads = [
    TABLE.format,
    TABLE.expected,
    TABLE.interval,
    TABLE.ideal,
    hasMeasured && TABLE.measured,
    against,
    isModel && TABLE.tokens,
    isModel && TABLE.memory,
    TABLE.bound,
    TABLE.intensity,
    !isModel && TABLE.ridge,
    !isModel && TABLE.path,
  ].filter(Boolean);
  const rows = main.rows.map((row) => tableRow(row, { state, main, focus, store, measured, heads, against }));
  const hadFocus = document.activeElement?.name === "focus";
  fill(
    byId("table"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": TABLE.label },
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
              el("th", { scope: "col", class: index && ![TABLE.bound, TABLE.path].includes(head) ? "n" : null }, head),
            ),
          ),
        ),
        el("tbody", {}, rows),
      ),
    ),
    isRanked ? null : el("p", { class: "quiet", id: "unranked" }, ANSWER.unranked),
    unknownTimes(state, main.rows, store),
  );
  if (hadFocus) byId("table").querySelector("input:checked")?.focus();
}

function tableRow(row, { state, main, focus, store, measured, heads, against }) {
  const head = rowHead(row, row === focus, store);
  if (row.error) return el("tr", {}, head, el("td", { class: "why", colspan: heads.length - 1 }, row.error));
  const gain = row.expected && row.expectedSpeedup !== null ? row.expectedSpeedup : row.speedup;
  const gap = GAPS[gapOf(row)];
  const measurement = measured[row.format];
  const cell = (name, value, text) =>
    el("td", { class: "n", "data-name": name, "data-head": name }, number(value, text));
  const cells = {
    [TABLE.expected]: el(
      "td",
      { class: "n time", "data-head": TABLE.expected },
      row.expected
        ? number(row.expected.time_s, time(row.expected.time_s))
        : el("span", { class: "quiet" }, TABLE.notKnown),
      row === main.best ? el("span", { class: "best" }, TABLE.best) : null,
      gap ? el("span", { class: "bad gap", title: row.kernelGap.text }, gap) : null,
    ),
    [TABLE.interval]: el(
      "td",
      { class: "n", "data-head": TABLE.interval },
      row.expected ? interval(row.expected.low_s, row.expected.high_s) : MISSING,
    ),
    [TABLE.ideal]: cell(TABLE.ideal, row.timeS, time(row.timeS)),
    [TABLE.measured]: el(
      "td",
      { class: "n", "data-head": TABLE.measured },
      measurement ? number(measurement.measured_s, time(measurement.measured_s)) : MISSING,
      measurement?.doubts.length ? el("span", { class: "bad gap", title: measurement.doubts.join(", ") }, TABLE.doubtful) : null,
    ),
    [against]: el(
      "td",
      { class: "n", "data-head": against },
      number(gain, times(gain)),
      gain !== null && !row.expected ? el("span", { class: "quiet" }, " ", TABLE.isIdeal) : null,
    ),
    [TABLE.tokens]: state.op === "model" && cell(TABLE.tokens, row.tokensPerS, significant(row.tokensPerS, 4)),
    [TABLE.memory]:
      row.memory &&
      el(
        "td",
        { class: "n", "data-head": TABLE.memory },
        number(row.memory.total_bytes, bytes(row.memory.total_bytes)),
        row.memory.fits === false ? el("span", { class: "bad" }, " ", TABLE.tooBig) : null,
      ),
    [TABLE.bound]: el("td", { "data-head": TABLE.bound }, row.bound),
    [TABLE.intensity]: cell(TABLE.intensity, row.intensity, intensity(row.intensity)),
    [TABLE.ridge]: cell(TABLE.ridge, row.ridge, intensity(row.ridge)),
    [TABLE.path]: el("td", { "data-head": TABLE.path }, fit(PATHS[row.path] ?? PATHS.dequantize, { format: row.computeFormat })),
  };
  return el(
    "tr",
    { class: row === focus ? "chosen" : null, "data-format": row.format },
    head,
    heads.slice(1).map((name) => cells[name]),
  );
}

function rowHead(row, isFocus, store) {
  const radio = el("input", {
    type: "radio",
    name: "focus",
    value: row.format,
    onchange: () => store.set({ focus: row.format }),
  });
  radio.checked = isFocus;
  radio.disabled = Boolean(row.error);
  return el(
    "th",
    { scope: "row" },
    el("label", {}, radio, el("span", { class: "swatch", "data-format": row.label }), el("span", {}, withBreaks(row.label))),
    row.isAdded ? el("span", { class: "quiet widths" }, TABLE.recommended) : null,
  );
}

/** Return the reasons of rows without an expected time, those with the same words together; null where all have one. */
function unknownTimes(state, rows, store) {
  const unknown = rows.filter((row) => !row.error && !row.expected && row.expectedReason);
  if (!unknown.length) return null;
  return el(
    "ul",
    { class: "remarks", id: "unknown-times" },
    [...Map.groupBy(unknown, (row) => row.expectedReason)].map(([reason, same]) =>
      el("li", {}, el("b", {}, same.map((row) => row.label).join(", ")), ": ", withCode(reason), wideQuery(state, same, store)),
    ),
  );
}

/** Attention is usually computed with a 16-bit query over a narrow cache: offer that pair of each format. */
function wideQuery(state, rows, store) {
  if (state.op !== "attention") return null;
  const chosen = formatsOf(state);
  const pairs = rows
    .map((row) => operandsOf(row.format))
    .filter(({ weight, activation }) => weight === activation)
    .map(({ weight }) => `${weight}.${state.base}`)
    .filter((pair) => !chosen.includes(pair));
  if (!pairs.length || chosen.length + pairs.length > MOST_FORMATS) return null;
  return [
    TABLE.wideQuery,
    pairs.map((pair) =>
      el(
        "button",
        { type: "button", class: "small", onclick: () => store.set({ formats: [...chosen, pair].join(",") }) },
        fit(TABLE.add, { format: formatLabel(state.op, pair) }),
      ),
    ),
  ];
}
