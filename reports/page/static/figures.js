// What figures share: how they are pointed at, their legend, their buttons and choices.
const POINTED = { hovermode: "closest", hoverdistance: 12, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom" };

// The legend of the figure that `figureOf` returns, in the colours of the theme; returns what paints it anew.
function explain(place, figureOf) {
  const paint = () => {
    const entries = legendOf(figureOf(), isDark());
    const lines = [false, true].map((onDemand) => entries.filter((entry) => entry.is_on_demand === onDemand));
    const [first, rest] = lines.map((line) => el("ul", { class: "legend-line" }, line.map((entry) => el("li", {}, entry.mark, entry.text))));
    const more = fit(WORDS.moreFormats, { count: lines[1].length });
    place.replaceChildren(...(entries.length ? [first] : []), ...(lines[1].length ? [el("details", {}, el("summary", {}, more), rest)] : []));
  };
  themeWatchers.push(paint);
  paint();
  return paint;
}

function resized(plot, draw) {
  let width = plot.clientWidth;
  new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === width) return;
    width = plot.clientWidth;
    draw();
  }).observe(plot);
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
  let series = chip.samples.find((sample) => sample.is_flagged) || chip.samples[0];
  const box = el("div", {});
  const data = () => series.samples_s.map((time, at) => ({ case: series.label, process: series.process, sample: at + 1, time_s: time }));
  const made = drawnFigure(box, "samples", WORDS.samples, data, () => series.figure);
  const pick = choice(WORDS.case, chip.samples.map((sample, at) => [at, sample.label]), (value) => {
    series = chip.samples[value];
    made.redraw();
  });
  pick.select.value = chip.samples.indexOf(series);
  place.append(pick.element, ...box.childNodes);
  made.plot.on("plotly_hover", (event) => {
    const at = event.points[0].pointNumber;
    showTip([el("p", { class: "card-title" }, el("strong", {}, fit(WORDS.sample, { number: at + 1, count: series.samples_s.length }))), factList([[FACTS.sample_s, show.time(series.samples_s[at])], [FACTS.against, show.signed(series.samples_s[at] / series.median_s - 1)]])], event.event);
  });
  chip.selectWatchers.push((row) => {
    const at = row ? chip.samples.findIndex((sample) => sample.number === row.number) : -1;
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
  const made = drawnFigure(box, "history", WORDS.history, data, () => history.figure);
  place.append(choice(WORDS.case, DATA.histories.map((entry, at) => [at, entry.label]), (value) => {
    history = DATA.histories[value];
    made.redraw();
    paintLegend();
  }).element, legend, ...box.childNodes);
  const paintLegend = explain(legend, () => history.figure);
  made.plot.on("plotly_hover", (event) => {
    const night = history.nights[event.points[0].customdata];
    showTip([el("p", { class: "card-title" }, el("strong", {}, night.started_at.slice(0, 10))), factList([[FACTS.value_s, show.time(night.value_s)], [FACTS.run, night.run], [FACTS.label, night.label], [FACTS.commit, night.commit], [FACTS.process_count, String(night.process_count)], [FACTS.doubt, night.doubt]].filter(([, text]) => text))], event.event);
  });
}
