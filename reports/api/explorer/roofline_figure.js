// The roofline as plotly's data and layout: roofs of the formats, ideal and expected points, measured ones. No drawing here.

import { formatInks } from "./format_inks.js";
import { byteRate, flopRate, intensity, interval, signedPercent, time } from "./numbers.js";

/** Share of the plot's width that the names at the right of the roofs need. */
const LABEL_SHARE = 0.24;
const NARROW_LABEL_SHARE = 0.32;
const FEW_DECADES = 2.4;
/** Roofs nearer than this are one: on the plot they are the same line, and their labels would differ in the last digit. */
const SAME_ROOF = 2e-3;
const SYMBOLS = { gemv: "diamond", gemm: "square", attention: "diamond-wide" };

/** Write text for plotly, which reads a little markup in texts: what comes from outside stays text. Of its tags only `<br>` is
 * used: bold and the like would be written as style attributes, which the page's policy forbids. */
export const plain = (text) =>
  String(text).slice(0, 120).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/**
 * Return {data, layout, roofs} of one chip. `rows`: with intensity, rates and roof (rows in error are left out); `cases`:
 * measured ones of the API; `ink`: the page's colours {ink, muted, grid, card}; `isNarrow`: a phone.
 */
export function rooflineFigure({ rows, cases, focus, ink, isDark, isNarrow }) {
  const usable = rows.filter((row) => !row.error && row.peak && row.bandwidth);
  const measured = cases.filter((one) => one.achieved_flops_per_s && one.intensity_flop_per_byte);
  const inks = formatInks([...usable.map((row) => row.label), ...measured.map((one) => one.precision)], isDark);
  const roofs = [
    ...roofsOf(usable),
    ...roofsOf(
      measured.filter((one) => one.peak_flops_per_s && one.bandwidth_bytes_per_s && !usable.length).map(caseRoof),
    ),
  ];
  const box = limits(usable, measured, roofs, isNarrow);
  const data = [
    ...roofs.map((roof) => roofTrace(roof, box, inks)),
    ...focusLast(usable, focus).flatMap((row) => pointTraces(row, row === focus, inks[row.label], ink)),
    ...measuredTraces(measured, inks, ink),
  ];
  return { data, layout: layout(box, roofs, ink, isNarrow), roofs, inks };
}

/** The chosen format over those that share its place. */
const focusLast = (rows, focus) => [...rows.filter((row) => row !== focus), ...rows.filter((row) => row === focus)];

const caseRoof = (one) => ({
  label: one.precision,
  computeFormat: one.precision,
  peak: one.peak_flops_per_s,
  bandwidth: one.bandwidth_bytes_per_s,
});

/** Formats that are computed on one unit share a roof; a stored peak is FLOPs over time and differs in its last digits. */
export function roofsOf(rows) {
  const found = [];
  for (const row of rows) {
    let roof = found.find((one) => isNear(one.peak, row.peak) && isNear(one.bandwidth, row.bandwidth));
    if (!roof) {
      roof = { peak: row.peak, bandwidth: row.bandwidth, names: [], label: row.label };
      found.push(roof);
    }
    if (!roof.names.includes(row.computeFormat)) roof.names.push(row.computeFormat);
  }
  return found.sort((a, b) => b.peak - a.peak);
}

const isNear = (one, other) => Math.abs(one - other) <= SAME_ROOF * Math.max(one, other);

function limits(rows, cases, roofs, isNarrow) {
  const x = [
    ...rows.map((row) => row.intensity),
    ...cases.map((one) => one.intensity_flop_per_byte),
    ...roofs.map((roof) => roof.peak / roof.bandwidth),
  ];
  const y = [
    ...rows.flatMap((row) => [
      row.flops / row.timeS,
      row.expected ? row.flops / row.expected.high_s : row.flops / row.timeS,
    ]),
    ...cases.map((one) => one.achieved_flops_per_s),
  ];
  const top = Math.max(...roofs.map((roof) => roof.peak), ...y);
  const x0 = Math.min(...x) / 3;
  const slope = Math.max(...roofs.map((roof) => roof.bandwidth), 0);
  const x1 = x0 * ((Math.max(...x) * 1.3) / x0) ** (1 / (1 - (isNarrow ? NARROW_LABEL_SHARE : LABEL_SHARE)));
  return { x0, x1, y0: Math.min(...y, slope * x0 * 2) / 2, y1: top * 2.6 };
}

function roofTrace(roof, box, inks) {
  const ridge = roof.peak / roof.bandwidth;
  const start = Math.min(box.x0, ridge / 100);
  const name = `${roof.names.map(plain).join(", ")} roof: ${flopRate(roof.peak)}, ${byteRate(roof.bandwidth)}, ridge at ${intensity(ridge)} FLOP/byte`;
  return {
    type: "scatter",
    mode: "lines+markers",
    x: [start, ridge, box.x1 * 1000],
    y: [start * roof.bandwidth, roof.peak, roof.peak],
    line: { color: inks[roof.label], width: 2 },
    marker: { size: [0.1, 7, 0.1], symbol: "line-ns", line: { width: 2, color: inks[roof.label] } },
    text: ["", name, ""],
    hoverinfo: "text",
    name: plain(roof.names.join(", ")),
    showlegend: false,
  };
}

function pointTraces(row, isFocus, colour, ink) {
  const ideal = row.flops / row.timeS;
  const shared = {
    type: "scatter",
    hoverinfo: "text",
    showlegend: false,
    customdata: [row.format],
    name: plain(row.label),
  };
  const lines = [
    plain(row.label),
    row.expected
      ? `expected ${time(row.expected.time_s)} (${interval(row.expected.low_s, row.expected.high_s)})`
      : "no expected time",
    `ideal ${time(row.timeS)}, ${row.bound}-bound`,
    `${intensity(row.intensity)} FLOP/byte, ridge ${intensity(row.ridge)}`,
  ];
  const traces = [];
  if (row.expected) {
    const rate = row.flops / row.expected.time_s;
    traces.push({
      ...shared,
      mode: "lines",
      x: [row.intensity, row.intensity],
      y: [ideal, rate],
      line: { color: colour, width: 1.5, dash: "dot" },
      hoverinfo: "skip",
    });
    traces.push({
      ...shared,
      mode: "markers",
      x: [row.intensity],
      y: [rate],
      error_y: {
        type: "data",
        symmetric: false,
        array: [row.flops / row.expected.low_s - rate],
        arrayminus: [rate - row.flops / row.expected.high_s],
        color: colour,
        thickness: 1.5,
        width: 4,
      },
      marker: {
        size: isFocus ? 14 : 9,
        color: colour,
        line: { width: isFocus ? 2 : 1, color: isFocus ? ink.ink : ink.card },
      },
      text: [[...lines, flopRate(rate)].join("<br>")],
    });
  }
  traces.push({
    ...shared,
    mode: "markers",
    x: [row.intensity],
    y: [ideal],
    marker: {
      size: isFocus && !row.expected ? 14 : 9,
      symbol: "circle-open",
      color: colour,
      line: { width: 2, color: colour },
    },
    text: [[...lines, `${flopRate(ideal)} at most`].join("<br>")],
  });
  return traces;
}

/** One trace for each format: thousands of cases stay a handful of traces. */
function measuredTraces(cases, inks, ink) {
  return [...grouped(cases)].map(([precision, group]) => ({
    type: "scatter",
    mode: "markers",
    showlegend: false,
    name: `measured ${plain(precision)}`,
    hoverinfo: "text",
    x: group.map((one) => one.intensity_flop_per_byte),
    y: group.map((one) => one.achieved_flops_per_s),
    customdata: group.map((one) => `case:${one.case_key}`),
    marker: {
      size: 8,
      symbol: group.map((one) => SYMBOLS[one.op] ?? "triangle-up"),
      color: inks[precision],
      opacity: 0.85,
      line: { width: 1, color: ink.ink },
    },
    text: group.map(caseText),
  }));
}

function grouped(cases) {
  const found = new Map();
  for (const one of cases) {
    if (!found.has(one.precision)) found.set(one.precision, []);
    found.get(one.precision).push(one);
  }
  return found;
}

function caseText(one) {
  return [
    plain(one.title),
    `${plain(one.precision)}, ${plain(one.kernel)}, ${plain(one.cache)}`,
    `measured ${time(one.measured_s)}, ${flopRate(one.achieved_flops_per_s)}`,
    one.expected_s === null
      ? `ideal ${time(one.ideal_s)}`
      : `expected ${time(one.expected_s)} (${signedPercent(one.error_expected_ratio)})`,
    "click for details",
  ].join("<br>");
}

function layout(box, roofs, ink, isNarrow) {
  const axis = {
    type: "log",
    gridcolor: ink.grid,
    linecolor: ink.grid,
    zeroline: false,
    tickcolor: ink.grid,
    tickformat: "~s",
    fixedrange: isNarrow,
    tickfont: { size: 11 },
  };
  return {
    height: isNarrow ? 320 : 430,
    margin: { l: 54, r: isNarrow ? 8 : 14, t: 8, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: {
      family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
      size: 12,
      color: ink.muted,
    },
    hovermode: "closest",
    hoverdistance: 16,
    dragmode: isNarrow ? false : "pan",
    showlegend: false,
    hoverlabel: {
      bgcolor: ink.card,
      bordercolor: ink.muted,
      font: { color: ink.ink, size: 12 },
      align: "left",
      namelength: 0,
    },
    xaxis: {
      ...axis,
      range: [Math.log10(box.x0), Math.log10(box.x1)],
      tickvals: ticks(box.x0, box.x1),
      title: { text: "arithmetic intensity, FLOP/byte", standoff: 8, font: { size: 12 } },
    },
    yaxis: {
      ...axis,
      range: [Math.log10(box.y0), Math.log10(box.y1)],
      tickvals: ticks(box.y0, box.y1),
      title: { text: "FLOP/s", standoff: 4, font: { size: 12 } },
    },
    annotations: [...roofLabels(roofs, box, ink, isNarrow), ...slopeLabels(roofs, box, ink)],
  };
}

/** Powers of ten, with 2 and 5 between them where few would be seen; some beyond the ends for a reader who drags. */
function ticks(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)) - 4, Math.ceil(Math.log10(high)) + 4];
  const steps = Math.log10(high / low) < FEW_DECADES ? [1, 2, 5] : [1];
  return Array.from({ length: last - first }, (_, index) => steps.map((step) => step * 10 ** (first + index))).flat();
}

/** Names over the plateaus at the right; a label too near the one above it goes under its own line. */
function roofLabels(roofs, box, ink, isNarrow) {
  const perDecade = (isNarrow ? 268 : 378) / Math.log10(box.y1 / box.y0);
  let above = Infinity;
  return roofs.map((roof) => {
    const gap = above === Infinity ? Infinity : Math.log10(above / roof.peak) * perDecade;
    above = roof.peak;
    return {
      x: Math.log10(box.x1),
      y: Math.log10(roof.peak),
      xanchor: "right",
      yanchor: gap < 15 ? "top" : "bottom",
      showarrow: false,
      xshift: -2,
      text: isNarrow ? shortNames(roof.names) : `${plain(roof.names.join(", "))}  ${flopRate(roof.peak)}`,
      font: { size: 11, color: ink.muted },
    };
  });
}

/** A phone has room for one name and how many share its roof. */
const shortNames = (names) => `${plain(names[0])}${names.length > 1 ? ` +${names.length - 1}` : ""}`;

/** Rates over the slopes, where no point of that roof can lie. */
function slopeLabels(roofs, box, ink) {
  const slopes = [...new Set(roofs.map((roof) => roof.bandwidth))];
  return slopes.map((bandwidth) => {
    const peaks = roofs.filter((roof) => roof.bandwidth === bandwidth).map((roof) => roof.peak);
    const x = Math.sqrt(Math.max(box.x0, box.y0 / bandwidth) * (Math.min(...peaks) / bandwidth)); // half-way up the slope
    return {
      x: Math.log10(x),
      y: Math.log10(x * bandwidth),
      xanchor: "right",
      yanchor: "bottom",
      xshift: -8,
      showarrow: false,
      text: byteRate(bandwidth),
      font: { size: 11, color: ink.muted },
      xref: "x",
      yref: "y",
    };
  });
}
