// Figures of the API: asked for, drawn by the script that reports share, and drawn anew when the page's colours or width change.

import { post } from "../api.js";
import { el, fill } from "../dom.js";
import { isDark } from "../theme.js";
import { drawFigure, legendOf } from "../../figures/figure.js";
import { PAGE } from "../words.js";

const BUNDLE = "vendor/plotly-report.min.js";
const drawn = new WeakMap(); // place → {question, figure, width}
let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = BUNDLE;
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () =>
      reject(new Error(PAGE.noPlotly)),
    );
    document.head.append(script);
  });
  return loading;
}

/** Return whether the page is as narrow as a phone; the same width as in explorer.css. */
export const isNarrow = () => window.matchMedia("(max-width: 44rem)").matches;

/**
 * Draw a roofline into `place`: {rows, focus} of the page's answers, {run, words} of measured cases or null. `onPick` gets the
 * custom data of a clicked point. Returns the figure; throws without plotly or without an answer.
 */
export async function drawRoofline(place, { rows, focus, measured }, onPick) {
  const options = rows.filter((row) => !row.error && row.peak && row.bandwidth).map(option);
  const names = [...new Set([...document.querySelectorAll(".short .swatch")].map((mark) => mark.dataset.format))];
  const question = { options, names, focus: focus?.format ?? null, run: measured?.run ?? null, words: measured?.words ?? "" };
  const questionText = JSON.stringify(question);
  const before = drawn.get(place);
  const [figure] = await Promise.all([before?.question === questionText ? before.figure : post("api/figures/roofline", question), plotly()]);
  drawn.set(place, { question: questionText, figure, width: place.clientWidth });
  if (figure.data.length) await draw(place, figure);
  if (!before) {
    place.on("plotly_click", (event) => event.points[0]?.customdata && place.pick?.(event.points[0].customdata));
    followWidth(place);
  }
  place.pick = onPick;
  return figure;
}

/** Draw a figure of the API into `place`, with what its looks mean into `legend`. */
export async function drawOther(place, legend, figure) {
  await plotly();
  if (!place.isConnected) return; // overtaken
  const isFirst = !drawn.has(place);
  drawn.set(place, { figure, legend, width: place.clientWidth });
  await draw(place, figure);
  fillLegend(legend, figure);
  if (isFirst) followWidth(place);
}

/** Draw what `drawOther` has drawn anew, in the colours that the page has now. */
export function redraw() {
  for (const place of document.querySelectorAll(".plot")) {
    const { figure, legend } = drawn.get(place) ?? {};
    if (!legend) continue;
    draw(place, figure);
    fillLegend(legend, figure);
  }
}

function followWidth(place) {
  new ResizeObserver(() => {
    const now = drawn.get(place);
    if (!place.clientWidth || place.clientWidth === now.width) return;
    now.width = place.clientWidth;
    draw(place, now.figure);
  }).observe(place);
}

function draw(place, figure) {
  const hover = { bgcolor: figure.ground, bordercolor: figure.layout.xaxis.linecolor, font: { color: figure.layout.font.color, size: 12 }, align: "left", namelength: 0 };
  const pointed = { hovermode: "closest", hoverdistance: 16, hoverlabel: hover, dragmode: isNarrow() ? false : "pan", xaxis: { fixedrange: isNarrow() }, yaxis: { fixedrange: isNarrow() } };
  return drawFigure(place, figure, { isDark: isDark(), layout: pointed });
}

const option = (row) => ({
  key: row.format,
  label: row.label,
  compute_format: row.computeFormat,
  path: row.path ?? "",
  memory_level: row.level,
  peak_flops_per_s: row.peak,
  bandwidth_bytes_per_s: row.bandwidth,
  intensity_flop_per_byte: row.intensity,
  flops: row.flops,
  time_s: row.timeS,
  bound: row.bound,
  expected_s: row.expected?.time_s ?? null,
  expected_low_s: row.expected?.low_s ?? null,
  expected_high_s: row.expected?.high_s ?? null,
});

/** Say what the figure's looks mean, and colour the format marks of the page as it does. */
export function explain(place, figure) {
  fillLegend(place, figure);
  for (const mark of document.querySelectorAll("[data-format].swatch"))
    mark.style.backgroundColor = figure.colours[mark.dataset.format]?.[isDark() ? 1 : 0] ?? "transparent";
}

function fillLegend(place, figure) {
  const entries = legendOf(figure, isDark());
  fill(place, ...entries.map((entry) => el("span", { class: "mark" }, entry.mark, entry.text)));
}
