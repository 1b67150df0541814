// The dual roofline: lines are what the chip allows, hollow marks what is predicted, filled ones what was measured.
const SYMBOLS = { o: "circle", s: "square", D: "diamond", P: "cross", X: "x", "^": "triangle-up", v: "triangle-down", p: "pentagon", h: "hexagon", "<": "triangle-left", ">": "triangle-right" };
const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
const STEPS = 40; // corners of a line, so that it can be pointed at anywhere
const hasWebGl = (() => {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl"));
  } catch (error) {
    return false;
  }
})();

function isNarrow(plot) {
  return plot.clientWidth < 620;
}

function along(low, high, rate) {
  const xs = Array.from({ length: STEPS + 1 }, (_, at) => low * (high / low) ** (at / STEPS));
  return [xs, xs.map(rate)];
}

// Where the axes begin and end: the points, the ridges and the roofs with some air.
function plotBounds(chip) {
  const view = chip.roofline;
  const rows = chip.rows.filter((row) => row.is_plotted);
  const xs = [...rows.map((row) => row.intensity_flop_per_byte), ...view.roofs.map((roof) => roof.ridge_flop_per_byte)];
  const rates = rows.flatMap((row) => [row.ideal_flops_per_s, row.achieved_flops_per_s]).filter((rate) => rate > 0);
  const x = [xs.reduce((a, b) => Math.min(a, b), Infinity) / 2.5, xs.reduce((a, b) => Math.max(a, b), 0) * 3.5];
  const tops = [...rates, ...view.roofs.map((roof) => roof.peak_flops_per_s)];
  const lowest = rates.length ? rates.reduce((a, b) => Math.min(a, b)) : view.roofs.reduce((a, roof) => Math.min(a, roof.bandwidth_bytes_per_s * x[0]), Infinity);
  return { x, y: [lowest / 2.2 / view.unit_flops_per_s, (tops.reduce((a, b) => Math.max(a, b), 0) * 2.2) / view.unit_flops_per_s] };
}

function lineTraces(chip, bounds, palette) {
  const view = chip.roofline;
  const unit = view.unit_flops_per_s;
  const line = (x, y, colour, style, key) => ({ type: "scatter", mode: "lines", x, y: y.map((rate) => rate / unit), line: { color: colour, ...style }, customdata: x.map(() => key), hoverinfo: "none" });
  const traces = [];
  const slopes = [...(view.memory_bandwidth_bytes_per_s ? [{ name: "DRAM", bandwidth_bytes_per_s: view.memory_bandwidth_bytes_per_s }] : []), ...view.levels];
  const top = view.roofs.reduce((a, roof) => Math.max(a, roof.peak_flops_per_s), 0);
  slopes.forEach((slope, at) => {
    const end = Math.max(top / slope.bandwidth_bytes_per_s, bounds.x[0] * 1.01);
    const [x, y] = along(bounds.x[0], end, (one) => one * slope.bandwidth_bytes_per_s);
    const isDram = at === 0 && view.memory_bandwidth_bytes_per_s;
    traces.push(line(x, y, isDram ? palette.ink : palette.muted, { width: isDram ? 2 : 1.3, dash: isDram ? "solid" : "5px,4px" }, `level:${at}`));
  });
  view.expected_roofs.forEach((roof, at) => {
    const bandwidth = roof.bandwidth_bytes_per_s;
    const peak = roof.peak_flops_per_s;
    const low = bandwidth ? bounds.x[0] : Math.max(peak / view.memory_bandwidth_bytes_per_s || bounds.x[0], bounds.x[0]);
    const high = peak ? bounds.x[1] : roof.last_flop_per_byte;
    const [x, y] = along(low, high, (one) => Math.min(bandwidth ? one * bandwidth : Infinity, peak || Infinity));
    if (high > low) traces.push(line(x, y, faded(ink(view.inks[roof.format]), 0.75), { width: 1.4, dash: "2px,3px" }, `expected:${at}`));
  });
  const peers = (roof) => view.roofs.filter((one) => Math.abs(one.peak_flops_per_s / roof.peak_flops_per_s - 1) < 0.004);
  view.roofs.forEach((roof, at) => {
    const twins = peers(roof);
    const place = twins.indexOf(roof);
    // Formats that share a unit share a roof: each takes its part of every dash, so that all colours are seen.
    const low = Math.min(Math.max(roof.ridge_flop_per_byte, bounds.x[0]), bounds.x[1]);
    const [x, y] = along(low, bounds.x[1], () => roof.peak_flops_per_s);
    const style = { width: 2.4 };
    if (twins.length > 1) {
      const gaps = twins.length - 1 - place;
      style.dash = place ? `0px,${10 * place}px,10px,${10 * gaps}px` : `10px,${10 * gaps}px`;
    }
    traces.push(line(x, y, ink(view.inks[roof.format]), style, `roof:${at}`));
  });
  const ridges = view.roofs.filter((roof) => peers(roof)[0] === roof);
  traces.push({
    type: "scatter", mode: "markers", hoverinfo: "none", cliponaxis: false,
    x: ridges.map((roof) => roof.ridge_flop_per_byte), y: ridges.map((roof) => roof.peak_flops_per_s / unit), customdata: ridges.map((roof) => `roof:${view.roofs.indexOf(roof)}`),
    marker: { size: 8, color: ridges.map((roof) => ink(view.inks[roof.format])), line: { color: palette.surface, width: 1.5 } },
  });
  return traces;
}

function pointTraces(chip, rows, palette, plot) {
  const view = chip.roofline;
  const unit = view.unit_flops_per_s;
  const shown = rows.filter((row) => row.is_plotted);
  const isMany = shown.length > SVG_LIMIT;
  const type = isMany && hasWebGl ? "scattergl" : "scatter";
  const size = isMany ? 5 : shown.length > 200 || isNarrow(plot) ? 7 : 9.5;
  const colour = new Map(Object.entries(view.inks).map(([name, pair]) => [name, ink(pair)]));
  const marks = (rate, members, marker) => ({
    type, mode: "markers", hoverinfo: "none", x: members.map((row) => row.intensity_flop_per_byte), y: members.map((row) => row[rate] / unit),
    customdata: members.map((row) => `case:${row.number}`), marker: { size, symbol: isMany ? "circle" : members.map((row) => SYMBOLS[view.markers[row.op]] || "circle"), ...marker(members) },
  });
  const x = [];
  const y = [];
  for (const row of shown) {
    if (!known(row.ideal_flops_per_s) || !known(row.achieved_flops_per_s)) continue;
    x.push(row.intensity_flop_per_byte, row.intensity_flop_per_byte, null);
    y.push(row.ideal_flops_per_s / unit, row.achieved_flops_per_s / unit, null);
  }
  const traces = [{ type: "scatter", mode: "lines", x, y, hoverinfo: "skip", line: { color: faded(palette.muted, isMany ? 0.18 : 0.5), width: isMany ? 0.7 : 1.2 } }];
  const expected = isMany ? [] : shown.filter((row) => known(row.expected_flops_per_s) && known(row.achieved_flops_per_s));
  if (expected.length) {
    traces.push({ ...marks("expected_flops_per_s", expected, (members) => ({ symbol: "line-ew-open", size: size + 3, line: { width: 1.8 }, color: members.map((row) => colour.get(row.format)) })) });
  }
  const ideal = shown.filter((row) => known(row.ideal_flops_per_s));
  const measured = shown.filter((row) => known(row.achieved_flops_per_s));
  traces.push(
    marks("ideal_flops_per_s", ideal, (members) => ({ color: isMany ? members.map((row) => faded(colour.get(row.format), 0.35)) : palette.surface, line: { width: isMany ? 0 : 1.5, color: members.map((row) => colour.get(row.format)) } })),
    marks("achieved_flops_per_s", measured, (members) => ({ color: members.map((row) => colour.get(row.format)), line: { width: isMany ? 0 : 1, color: palette.surface } })),
  );
  return traces;
}

// Rings: the best of each shape, pale where others are level with it, the best of all, and the case that is selected.
function ringTraces(chip, rows, selected, palette) {
  const unit = chip.roofline.unit_flops_per_s;
  const rate = (row) => (known(row.achieved_flops_per_s) ? row.achieved_flops_per_s : row.ideal_flops_per_s) / unit;
  const ring = (members, size, width, colour) => ({
    type: "scatter", mode: "markers", hoverinfo: "skip", x: members.map((row) => row.intensity_flop_per_byte), y: members.map(rate),
    marker: { symbol: "circle-open", size, color: colour, line: { width, color: colour } },
  });
  const plotted = rows.filter((row) => row.is_plotted);
  const fastest = plotted.filter((row) => row.standing);
  const rings = fastest.length > 60 ? [] : fastest;
  const traces = [true, false].map((is) => ring(rings.filter((row) => row.is_best === is), 18, 1.5, is ? palette.accent : faded(palette.accent, 0.45)));
  const top = chip.roofline.highlight;
  if (top) traces.push({ ...ring([], 21, 3, palette.accent), x: [top.intensity_flop_per_byte], y: [top.rate_flops_per_s / unit] });
  traces.push(ring(plotted.filter((row) => row.number === selected), 26, 2.5, palette.ink));
  return traces;
}

// Roofs of one height share a name: [{peak, formats, ink}], the highest first.
function roofGroups(view) {
  const groups = [];
  for (const roof of view.roofs) {
    const twin = groups.find((one) => Math.abs(one.peak / roof.peak_flops_per_s - 1) < 0.004);
    if (twin) twin.formats.push(roof.format);
    else groups.push({ peak: roof.peak_flops_per_s, formats: [roof.format], ink: view.inks[roof.format] });
  }
  return groups;
}

// As many formats as fit beside the plot, and how many more there are: the list under the plot then names all.
function roofNames(group) {
  let names = group.formats.join(", ");
  for (let most = group.formats.length - 1; most > 0 && names.length > 17; most -= 1) names = `${group.formats.slice(0, most).join(", ")} +${group.formats.length - most}`;
  return names;
}

function roofRate(view, group) {
  return `${significant(group.peak / view.unit_flops_per_s, 4)} ${view.unit_label}`;
}

// The names of the roofs beside a wide plot; under a narrow one, or where they are cut, they are a list.
function roofLabels(chip, ranges, plot) {
  const view = chip.roofline;
  if (isNarrow(plot)) return [];
  const groups = roofGroups(view);
  const margin = plotMargin(plot);
  const perDecade = (plot.clientHeight - margin.t - margin.b) / (ranges.y[1] - ranges.y[0]);
  let last = -Infinity; // pixels from the top of the last label: they keep clear of each other
  return groups.flatMap((one) => {
    const names = roofNames(one);
    const y = Math.log10(one.peak / view.unit_flops_per_s);
    if (y < ranges.y[0] || y > ranges.y[1]) return []; // zoomed away
    const at = (ranges.y[1] - y) * perDecade;
    const placed = Math.max(at, last + 30);
    last = placed;
    return [{
      x: 1, xref: "paper", y, yref: "y", showarrow: false, xshift: 8, yshift: at - placed, font: { size: 11.5, color: ink(one.ink) }, xanchor: "left", yanchor: "middle", align: "left",
      text: `<b>${plain(names)}</b><br>${plain(roofRate(view, one))}`,
    }];
  });
}

// The points as logarithms: what labels keep clear of. Of very many, a part tells where they are.
function pointSpots(chip, rows) {
  return rows.slice(0, SVG_LIMIT).filter((row) => row.is_plotted).flatMap((row) => [row.ideal_flops_per_s, row.achieved_flops_per_s].filter((rate) => rate > 0).map((rate) => [Math.log10(row.intensity_flop_per_byte), Math.log10(rate / chip.roofline.unit_flops_per_s)]));
}

function slopeLabels(chip, rows, ranges, palette, plot) {
  const view = chip.roofline;
  const slopes = [...(view.memory_bandwidth_bytes_per_s ? [{ name: "DRAM", bandwidth_bytes_per_s: view.memory_bandwidth_bytes_per_s }] : []), ...view.levels];
  const top = view.roofs.reduce((a, roof) => Math.max(a, roof.peak_flops_per_s), 0) / view.unit_flops_per_s;
  const margin = plotMargin(plot);
  const perX = (plot.clientWidth - margin.l - margin.r) / (ranges.x[1] - ranges.x[0]);
  const perY = (plot.clientHeight - margin.t - margin.b) / (ranges.y[1] - ranges.y[0]);
  const angle = (-Math.atan2(perY, perX) * 180) / Math.PI;
  const spots = pointSpots(chip, rows);
  return slopes.slice(0, isNarrow(plot) ? 1 : slopes.length).flatMap((slope) => {
    const offset = Math.log10(slope.bandwidth_bytes_per_s / view.unit_flops_per_s); // log y = log x + offset
    const low = Math.max(ranges.x[0], ranges.y[0] - offset);
    const high = Math.min(ranges.x[1], Math.min(ranges.y[1], Math.log10(top)) - offset);
    if ((high - low) * Math.hypot(perX, perY) < 150) return []; // no room for its name
    // Where along the slope the name is farthest from any point.
    const clear = (x) => spots.reduce((least, [px, py]) => Math.min(least, Math.hypot((px - x) * perX, (py - x - offset) * perY)), 90);
    const x = [0.3, 0.38, 0.22, 0.46, 0.54, 0.62, 0.15, 0.7, 0.78].map((share) => low + (high - low) * share).reduce((a, b) => (clear(b) > clear(a) + 1 ? b : a));
    return [{
      x, y: x + offset, xref: "x", yref: "y", showarrow: false, textangle: angle, xanchor: "center", yanchor: "middle",
      xshift: 10 * Math.sin((angle * Math.PI) / 180), yshift: 10 * Math.cos((angle * Math.PI) / 180),
      text: plain(`${slope.name} ${scaled(slope.bandwidth_bytes_per_s, "B/s", 3, "", "P")}`), font: { size: isNarrow(plot) ? 9.5 : 11, color: palette.muted },
    }];
  });
}

function plotMargin(plot) {
  return isNarrow(plot) ? { l: 46, r: 8, t: 10, b: 44 } : { l: 66, r: plot.classList.contains("tall") ? 148 : 14, t: 14, b: 52 };
}

function axisStyle(palette, title, narrow) {
  const font = { color: palette.muted, size: narrow ? 10.5 : 12 };
  return { title: { text: title, font: { color: palette.ink, size: narrow ? 11 : 13 }, standoff: narrow ? 6 : 12 }, tickfont: font, gridcolor: palette.grid, linecolor: palette.muted, zeroline: false, showline: true, ticks: "outside", tickcolor: palette.muted, ticklen: 4, automargin: false };
}

// Powers of ten; 2 and 5 too where few of them are seen, and whatever fits where none is.
function logAxis(palette, title, narrow, range) {
  const decades = range[1] - range[0];
  return { ...axisStyle(palette, title, narrow), range, type: "log", dtick: decades > 2.4 ? 1 : decades > 0.8 ? "D2" : undefined, exponentformat: "none", tickformat: ",~r", minor: { showgrid: false } };
}

function plotLayout(palette, plot, more) {
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: plotMargin(plot), showlegend: false, hovermode: "closest", hoverdistance: 12, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", width: plot.clientWidth, height: plot.clientHeight, font: { family: "system-ui, sans-serif", color: palette.ink }, ...more };
}

function lineCard(chip, key) {
  const view = chip.roofline;
  const [kind, at] = key.split(":");
  const title = (text) => el("p", { class: "card-title" }, el("strong", {}, text));
  if (kind === "level") {
    const slopes = [...(view.memory_bandwidth_bytes_per_s ? [{ name: "DRAM", bandwidth_bytes_per_s: view.memory_bandwidth_bytes_per_s }] : []), ...view.levels];
    return [title(`${slopes[at].name} bandwidth`), factList([["Bandwidth", show.bandwidth(slopes[at].bandwidth_bytes_per_s)]])];
  }
  if (kind === "expected") {
    const roof = view.expected_roofs[at];
    const facts = [["Bandwidth", show.bandwidth(roof.bandwidth_bytes_per_s)], ["Rate", show.flops(roof.peak_flops_per_s)]].filter(([, text]) => text !== "–");
    return [title(`Expected roof of ${roof.format}`), factList(facts), el("p", { class: "quiet" }, "The most that an expected time of this run reaches.")];
  }
  const roof = view.roofs[at];
  const path = roof.path && roof.path !== "native" ? `${roof.path} (${roof.compute_format})` : roof.path;
  return [title(`Ideal roof of ${roof.format}`), factList([["Peak, dense", show.flops(roof.peak_flops_per_s)], ["Bandwidth", show.bandwidth(roof.bandwidth_bytes_per_s)], ["Ridge", `${show.plain(roof.ridge_flop_per_byte)} FLOP/byte`], ["Path", path], ["Source", roof.provenance]].filter(([, text]) => text))];
}

function drawRoofline(chip, place) {
  const plot = el("div", { class: "figure tall", role: "img", "aria-label": `${chip.roofline.title}. The numbers are in the table of all cases.` });
  const card = el("div", { class: "selected", role: "status" });
  const bounds = plotBounds(chip);
  const full = { x: bounds.x.map(Math.log10), y: bounds.y.map(Math.log10) };
  let ranges = full;

  function draw() {
    const palette = inks();
    const rows = chip.filter.rows();
    const data = [...lineTraces(chip, bounds, palette), ...pointTraces(chip, rows, palette, plot), ...ringTraces(chip, rows, chip.selected, palette)];
    const narrow = isNarrow(plot);
    const layout = plotLayout(palette, plot, {
      xaxis: { ...logAxis(palette, "Arithmetic intensity (FLOP/byte)", narrow, ranges.x) },
      yaxis: { ...logAxis(palette, `Performance (${chip.roofline.unit_label})`, narrow, ranges.y) },
      annotations: [...roofLabels(chip, ranges, plot), ...slopeLabels(chip, rows, ranges, palette, plot), ...bestLabel(chip, rows, ranges, palette, plot)],
    });
    return Plotly.react(plot, data, layout, PLOT_CONFIG);
  }

  function select(number, isFromTable) {
    chip.selected = number;
    const row = chip.rows.find((one) => one.number === number);
    card.replaceChildren(...(row ? [...caseCard(row), button("Close", () => select(null), { class: "close" })] : []));
    card.classList.toggle("is-open", Boolean(row));
    draw();
    chip.selectWatchers.forEach((react) => react(row, isFromTable));
  }

  chip.select = select;
  place.append(chip.filter.element, plot, legendLine(chip), roofList(chip), card, toolbar("roofline", () => chip.filter.rows(), plot));
  const first = draw();
  plot.on("plotly_hover", (event) => {
    const key = event.points[0].customdata;
    const row = key.startsWith("case:") ? chip.rows.find((one) => one.number === Number(key.slice(5))) : null;
    showTip(row ? caseCard(row) : lineCard(chip, key), event.event);
  });
  plot.on("plotly_unhover", hideTip);
  plot.on("plotly_click", (event) => {
    const key = event.points[0].customdata;
    if (key.startsWith("case:")) select(Number(key.slice(5)));
  });
  plot.on("plotly_relayout", (event) => {
    if (event["xaxis.range[0]"] === undefined && !event["xaxis.autorange"] && event["yaxis.range[0]"] === undefined) return;
    ranges = event["xaxis.autorange"] ? full : { x: [...plot.layout.xaxis.range], y: [...plot.layout.yaxis.range] };
    draw();
  });
  plot.addEventListener("reset-zoom", () => {
    ranges = full;
    draw();
  });
  chip.filter.watch(draw);
  themeWatchers.push(draw);
  resized(plot, draw);
  return first;
}

function legendLine(chip) {
  const entries = [["is-measured", "measured", "achieved_flops_per_s"], ["is-ideal", "predicted (ideal)", "ideal_flops_per_s"]].filter(([, , rate]) => chip.rows.some((row) => known(row[rate])));
  if (chip.rows.some((row) => known(row.expected_flops_per_s)) && chip.rows.length <= SVG_LIMIT) entries.push(["is-expected", "expected"]);
  if (chip.roofline.expected_roofs.length) entries.push(["is-roof", "expected roof"]);
  if (chip.rows.some((row) => row.is_best)) entries.push(["is-best", "best of its shape"]);
  if (chip.rows.some((row) => row.standing && !row.is_best)) entries.push(["is-best is-level", "fastest, others level with it"]);
  return el("ul", { class: "legend-line" }, entries.map(([kind, text]) => el("li", {}, el("span", { class: `mark-${kind}`, "aria-hidden": "true" }), text)));
}

function roofList(chip) {
  return el("ul", { class: roofGroups(chip.roofline).some((group) => roofNames(group).length < group.formats.join(", ").length) ? "legend-line" : "legend-line only-narrow" }, roofGroups(chip.roofline).map((group) => el("li", {}, swatch(chip, group.formats[0]), `${group.formats.join(", ")}: ${roofRate(chip.roofline, group)}`)));
}

function resized(plot, draw) {
  let width = plot.clientWidth;
  new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === width) return;
    width = plot.clientWidth;
    draw();
  }).observe(plot);
}
