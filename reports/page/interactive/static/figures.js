// What figures share: how they are pointed at, their legend, and the frame of those that are not drawn from JSON yet.
const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
const POINTED = { hovermode: "closest", hoverdistance: 12, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom" };

// The legend of the figure that `figureOf` returns, in the colours of the theme; returns what paints it anew.
function explain(place, figureOf) {
  const paint = () => {
    const entries = legendOf(figureOf(), isDark());
    const list = (kind, which) => {
      const items = entries.filter(which).map((one) => el("li", {}, one.mark, one.text));
      return items.length ? el("ul", { class: kind }, items) : null;
    };
    place.replaceChildren(...[list("legend-line", (one) => !one.is_for_narrow), list("legend-line only-narrow", (one) => one.is_for_narrow)].filter(Boolean));
  };
  themeWatchers.push(paint);
  paint();
  return paint;
}

function plotMargin(plot) {
  return isNarrow(plot) ? { l: 46, r: 8, t: 10, b: 44 } : { l: 66, r: plot.classList.contains("tall") ? 148 : 14, t: 14, b: 52 };
}

function axisStyle(palette, title, narrow) {
  const font = { color: palette.muted, size: narrow ? 10.5 : 12 };
  return { title: { text: title, font: { color: palette.ink, size: narrow ? 11 : 13 }, standoff: narrow ? 6 : 12 }, tickfont: font, gridcolor: palette.grid, linecolor: palette.muted, zeroline: false, showline: true, ticks: "outside", tickcolor: palette.muted, ticklen: 4, automargin: false };
}

function plotLayout(palette, plot, more) {
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: plotMargin(plot), showlegend: false, ...POINTED, width: plot.clientWidth, height: plot.clientHeight, font: { family: "system-ui, sans-serif", color: palette.ink }, ...more };
}

function resized(plot, draw) {
  let width = plot.clientWidth;
  new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === width) return;
    width = plot.clientWidth;
    draw();
  }).observe(plot);
}

// Figures with a frame of their own: speed against quality, samples of one case, a case over its nights.
function figure(place, name, label, rowsOf, draw, size) {
  const plot = el("div", { class: `figure ${size || ""}`, role: "img", "aria-label": label });
  place.append(plot, toolbar(name, rowsOf, plot));
  const redraw = () => Plotly.react(plot, ...draw(plot, inks()), PLOT_CONFIG);
  const first = redraw();
  plot.addEventListener("reset-zoom", () => Plotly.relayout(plot, { "xaxis.autorange": true, "yaxis.autorange": true }));
  plot.on("plotly_unhover", hideTip);
  themeWatchers.push(redraw);
  resized(plot, redraw);
  return { plot, redraw, first };
}

// What the figure itself tells of a thing that is pointed at.
function figureCard(card) {
  return [el("p", { class: "card-title" }, el("strong", {}, card.title)), factList(card.facts), card.note ? el("p", { class: "quiet" }, card.note) : null].filter(Boolean);
}

// A figure that came as JSON, with its buttons; drawn anew when theme or width change. `drawn` returns it.
function drawnFigure(place, name, label, rowsOf, drawn, size) {
  const plot = el("div", { class: `figure ${size || ""}`, role: "img", "aria-label": label });
  place.append(plot, toolbar(name, rowsOf, plot));
  const redraw = () => drawFigure(plot, drawn(), { isDark: isDark(), layout: { ...POINTED, hoverdistance: 20 } });
  redraw();
  plot.addEventListener("reset-zoom", () => Plotly.relayout(plot, { "xaxis.autorange": true, "yaxis.autorange": true }));
  plot.on("plotly_unhover", hideTip);
  themeWatchers.push(redraw);
  resized(plot, redraw);
  return { plot, redraw };
}

function choice(label, options, react) {
  const select = el("select", {}, options.map(([value, text]) => el("option", { value }, text)));
  select.addEventListener("change", () => react(select.value));
  return { element: el("label", { class: "choice" }, el("span", {}, label), select), select };
}

function drawSamples(chip, place) {
  const name = (one) => {
    const row = chip.rows.find((each) => each.number === one.number);
    return `${row.name}${row.process_count > 1 ? `, process ${one.process}` : ""}${row.flags.length ? ` (${row.flags.join(", ")})` : ""}`;
  };
  const isFlagged = (one) => chip.rows.some((row) => row.number === one.number && row.flags.length);
  let series = chip.samples.find(isFlagged) || chip.samples[0];
  const box = el("div", {});
  const made = figure(box, "samples", "Samples of the chosen case in the order they were taken, and the share of samples below a time.", () => series.samples_s.map((time, at) => ({ case: name(series), process: series.process, sample: at + 1, time_s: time })), (plot, palette) => {
    const narrow = isNarrow(plot);
    const [prefix, scale] = [...PREFIXES].reverse().find(([unit, size]) => size <= 1 && size >= 1e-9 && series.median_s >= size) || ["n", 1e-9];
    const values = series.samples_s.map((time) => time / scale);
    const ranked = [...values].sort((a, b) => a - b);
    const blue = ink(chip.colours.BF16 || DATA.inks.ink);
    const level = (x, xaxis) => ({ type: "scatter", mode: "lines", x, y: x.map(() => series.median_s / scale), xaxis, line: { color: palette.accent, width: 1.4 }, hoverinfo: "skip" });
    const band = known(series.ci_low_s) && known(series.ci_high_s) ? ["x domain", "x2 domain"].map((xref) => ({ type: "rect", xref, yref: "y", x0: 0, x1: 1, y0: series.ci_low_s / scale, y1: series.ci_high_s / scale, fillcolor: palette.accent, opacity: 0.14, line: { width: 0 } })) : [];
    const axis = (title, more) => ({ ...axisStyle(palette, title, narrow), ...more });
    return [[
      { type: "scatter", mode: "markers", x: values.map((_, at) => at + 1), y: values, marker: { color: blue, size: 5.5 }, hoverinfo: "none", customdata: values.map((_, at) => at) },
      { type: "scatter", mode: "lines", x: ranked.map((_, at) => ((at + 1) / ranked.length) * 100), y: ranked, xaxis: "x2", line: { color: blue, width: 1.8, shape: "vh" }, hoverinfo: "skip" },
      level([1, values.length], "x"), level([0, 100], "x2"),
    ], plotLayout(palette, plot, { shapes: band, xaxis: axis("Sample, in order", { domain: [0, 0.62] }), xaxis2: axis("Share below (%)", { domain: [0.68, 1], range: [0, 102] }), yaxis: axis(`Time per call (${prefix}s)`, {}) })];
  });
  const pick = choice("Case", chip.samples.map((one, at) => [at, name(one)]), (value) => {
    series = chip.samples[value];
    made.redraw();
  });
  pick.select.value = chip.samples.indexOf(series);
  place.append(pick.element, ...box.childNodes);
  made.plot.on("plotly_hover", (event) => {
    const at = event.points[0].customdata;
    showTip([el("p", { class: "card-title" }, el("strong", {}, `Sample ${at + 1} of ${series.samples_s.length}`)), factList([["Time", show.time(series.samples_s[at])], ["Against the median", show.signed(series.samples_s[at] / series.median_s - 1)]])], event.event);
  });
  chip.selectWatchers.push((row) => {
    const at = row ? chip.samples.findIndex((one) => one.number === row.number) : -1;
    if (at < 0) return;
    series = chip.samples[at];
    pick.select.value = at;
    made.redraw();
  });
}

function drawHistories(place) {
  let history = DATA.histories[0];
  const box = el("div", {});
  const legend = el("div", {});
  const data = () => history.nights.map((night) => ({ case: history.name, ...night }));
  const made = drawnFigure(box, "history", "One case over its nights, with its levels and the steps between them; the table lists every change.", data, () => history.figure);
  place.append(choice("Case", DATA.histories.map((one, at) => [at, one.label]), (value) => {
    history = DATA.histories[value];
    made.redraw();
    paintLegend();
  }).element, legend, ...box.childNodes);
  const paintLegend = explain(legend, () => history.figure);
  made.plot.on("plotly_hover", (event) => {
    const night = history.nights[event.points[0].customdata];
    showTip([el("p", { class: "card-title" }, el("strong", {}, night.started_at.slice(0, 10))), factList([["Time", show.time(night.value_s)], ["Run", night.run], ["Label", night.label], ["Commit", night.commit], ["Processes", String(night.process_count)], ["Not used", night.doubt]].filter(([, text]) => text))], event.event);
  });
}
