// The other figures: errors per operator and format, speed against quality, samples of one case, a case over its nights.
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

function choice(label, options, react) {
  const select = el("select", {}, options.map(([value, text]) => el("option", { value }, text)));
  select.addEventListener("change", () => react(select.value));
  return { element: el("label", { class: "choice" }, el("span", {}, label), select), select };
}

function drawErrors(chip, place) {
  const kinds = [["error_expected_ratio", "of the expected time"], ["error_ideal_ratio", "of the ideal time"]].filter(([key]) => chip.rows.some((row) => known(row[key])));
  let kind = kinds[0][0];
  const usable = () => chip.filter.rows().filter((row) => known(row[kind]));
  const made = figure(el("div", {}), "errors", "Errors of the prediction per operator and format. The numbers are in the tables.", () => usable().map((row) => ({ case: row.name, op: row.op, format: row.format, regime: row.regime, error_ideal_ratio: row.error_ideal_ratio, error_expected_ratio: row.error_expected_ratio })), (plot, palette) => {
    const groups = new Map();
    for (const row of usable()) {
      const name = `${row.op}  ${row.format}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const narrow = isNarrow(plot);
    const names = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en"));
    const data = names.map((name, at) => {
      const members = groups.get(name);
      const colour = ink(chip.roofline.inks[members[0].format] || DATA.inks.muted);
      return {
        type: "box", orientation: "h", y: members.map(() => at), x: members.map((row) => row[kind] * 100), customdata: members.map((row) => `case:${row.number}`), hoverinfo: "none", hoveron: "points",
        boxpoints: members.length <= 60 ? "all" : "outliers", jitter: 0.5, pointpos: 0, marker: { color: colour, size: 6, line: { color: palette.surface, width: 0.7 } }, line: { color: colour, width: 1.4 }, fillcolor: faded(colour, 0.14), width: 0.62,
      };
    });
    const rows = Math.max(names.length, 1);
    plot.style.height = `${Math.min(Math.max(rows * 30 + 70, 160), 900)}px`;
    const short = (text) => (text.length > (narrow ? 18 : 40) ? `${text.slice(0, narrow ? 17 : 39)}…` : text);
    return [data, plotLayout(palette, plot, {
      margin: { l: narrow ? 118 : 210, r: 14, t: 8, b: 46 },
      xaxis: { ...axisStyle(palette, narrow ? "Error (%)" : `Error ${kinds.find(([key]) => key === kind)[1]} (%), negative: predicted too fast`, narrow), zeroline: true, zerolinecolor: palette.muted, zerolinewidth: 1.2 },
      yaxis: { ...axisStyle(palette, "", narrow), tickvals: names.map((_, at) => at), ticktext: names.map((name) => plain(short(name))), autorange: "reversed", showgrid: false, ticks: "", showline: false },
    })];
  }, "bars");
  if (kinds.length > 1) {
    place.append(choice("Error", kinds, (value) => {
      kind = value;
      made.redraw();
    }).element);
  }
  place.append(...made.plot.parentElement.childNodes);
  made.plot.on("plotly_hover", (event) => {
    const row = chip.rows.find((one) => `case:${one.number}` === event.points[0].customdata);
    if (row) showTip(caseCard(row), event.event);
  });
  made.plot.on("plotly_click", (event) => chip.select(Number(event.points[0].customdata.slice(5))));
  chip.filter.watch(made.redraw);
}

function drawModels(chip, place) {
  const usable = chip.models.filter((model) => model.points.some((point) => known(point.kl_nats_per_token)));
  if (!usable.length) {
    place.append(el("p", { class: "quiet" }, "Speed against quality is not drawn: no pass of this run has a measured loss of quality."));
    return;
  }
  let model = usable[0];
  const colours = (label) => ink(chip.roofline.inks[label] || chip.roofline.inks[Object.keys(chip.roofline.inks).find((name) => label.startsWith(name))] || DATA.inks.muted);
  const box = el("div", {});
  const made = figure(box, "quality", "Tokens per second against the loss of quality; the numbers are in the tables of the model.", () => model.points.map((point) => ({ model: model.title, ...point })), (plot, palette) => {
    const narrow = isNarrow(plot);
    const points = model.points.filter((point) => known(point.kl_nats_per_token));
    const speeds = points.map((point) => point.tokens_per_s);
    const reach = [speeds.reduce((a, b) => Math.min(a, b)), speeds.reduce((a, b) => Math.max(a, b))];
    const worst = points.reduce((a, point) => Math.max(a, point.kl_nats_per_token), 0);
    const largest = points.reduce((a, point) => Math.max(a, point.held_bytes || 0), 1);
    const size = (point) => 12 + 24 * Math.sqrt((point.held_bytes || 0) / largest);
    const isBeaten = (point) => points.some((other) => other.is_measured === point.is_measured && other.tokens_per_s >= point.tokens_per_s && other.kl_nats_per_token <= point.kl_nats_per_token && (other.tokens_per_s > point.tokens_per_s || other.kl_nats_per_token < point.kl_nats_per_token));
    const onFront = points.filter((point) => !isBeaten(point)).sort((a, b) => a.tokens_per_s - b.tokens_per_s);
    const places = []; // names that would lie on each other stand below
    points.forEach((point, at) => {
      const isNear = points.slice(0, at).some((other) => Math.abs(other.tokens_per_s - point.tokens_per_s) < 0.16 * reach[1] && Math.abs(other.kl_nats_per_token - point.kl_nats_per_token) < 0.12 * worst);
      places.push(isNear ? "bottom center" : "top center");
    });
    const best = points.filter((point) => point.is_best);
    const data = [
      { type: "scatter", mode: "lines", x: onFront.map((point) => point.tokens_per_s), y: onFront.map((point) => point.kl_nats_per_token), line: { color: palette.muted, width: 1.3, dash: "4px,4px" }, hoverinfo: "skip" },
      {
        type: "scatter", mode: narrow ? "markers" : "markers+text", x: points.map((point) => point.tokens_per_s), y: points.map((point) => point.kl_nats_per_token), customdata: points.map((point) => model.points.indexOf(point)), hoverinfo: "none",
        text: points.map((point) => plain(point.label)), textposition: places, textfont: { color: palette.ink, size: 11.5 }, cliponaxis: false,
        error_y: { type: "data", symmetric: false, array: points.map((point) => (point.kl_high_nats_per_token ?? point.kl_nats_per_token) - point.kl_nats_per_token), arrayminus: points.map((point) => point.kl_nats_per_token - (point.kl_low_nats_per_token ?? point.kl_nats_per_token)), color: palette.muted, thickness: 1.1, width: 3 },
        marker: { size: points.map(size), color: points.map((point) => faded(colours(point.label), point.is_measured ? 0.8 : 0.25)), line: { color: points.map((point) => colours(point.label)), width: 1.6 } },
      },
      { type: "scatter", mode: "markers", x: best.map((point) => point.tokens_per_s), y: best.map((point) => point.kl_nats_per_token), hoverinfo: "skip", marker: { symbol: "circle-open", size: best.map((point) => size(point) + 12), color: palette.accent, line: { width: 2.6, color: palette.accent } } },
    ];
    const air = (reach[1] - reach[0] || reach[1]) * 0.18;
    return [data, plotLayout(palette, plot, {
      xaxis: { ...axisStyle(palette, "Tokens per second (more is better)", narrow), range: [Math.max(reach[0] - air, 0), reach[1] + air] },
      yaxis: { ...axisStyle(palette, "Loss of quality, KL (nats/token, less is better)", narrow), range: [-worst * 0.16 - 1e-9, worst * 1.25 + 1e-9] },
    })];
  });
  if (usable.length > 1) {
    place.append(choice("Model and phase", usable.map((one, at) => [at, one.title]), (value) => {
      model = usable[value];
      made.redraw();
    }).element);
  }
  place.append(...box.childNodes, el("p", { class: "quiet" }, "Area is the memory that is held, faint marks are expected speeds, the ring is the recommendation. The dashed line joins what no other precision beats in both speed and quality."));
  made.plot.on("plotly_hover", (event) => {
    const point = model.points[event.points[0].customdata];
    const quality = point.is_reference ? "the reference" : `${show.plain(point.kl_nats_per_token)} nats/token`;
    showTip([el("p", { class: "card-title" }, el("strong", {}, point.label)), factList([[point.is_measured ? "Measured" : "Expected", `${show.plain(point.tokens_per_s)} tokens/s`], ["Loss (KL)", quality], ["Held", show.bytes(point.held_bytes)], ["Energy per token", show.energy(point.energy_j_per_token)], ["On the front", point.is_front ? "yes" : "no"]])], event.event);
  });
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
    const blue = ink(chip.roofline.inks.BF16 || DATA.inks.ink);
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
  const made = figure(box, "history", "One case over its nights, with its levels and the steps between them; the table lists every change.", () => history.nights.map((night) => ({ case: history.name, ...night })), (plot, palette) => {
    const narrow = isNarrow(plot);
    const used = history.nights.filter((night) => !night.doubt);
    const doubtful = history.nights.filter((night) => night.doubt);
    const [prefix, scale] = [...PREFIXES].reverse().find(([unit, size]) => size <= 1 && size >= 1e-9 && history.nights[0].value_s >= size) || ["n", 1e-9];
    const blue = ink(DATA.inks.history);
    const marks = (nights, marker) => ({ type: "scatter", mode: "markers", x: nights.map((night) => night.started_at), y: nights.map((night) => night.value_s / scale), customdata: nights.map((night) => history.nights.indexOf(night)), hoverinfo: "none", marker: { size: 8, ...marker } });
    const levels = history.levels.map((level) => ({ type: "scatter", mode: "lines", hoverinfo: "skip", x: [level.first_at, level.last_at], y: [level.value_s / scale, level.value_s / scale], line: { color: palette.ink, width: 2 } }));
    const shapes = history.changes.filter((change) => change.kind === "step").map((change) => ({ type: "line", x0: change.started_at, x1: change.started_at, yref: "paper", y0: 0, y1: 1, line: { color: change.is_open ? palette.accent : palette.muted, width: 1.3, dash: "4px,3px" } }));
    const notes = history.changes.filter((change) => change.kind === "step").map((change) => ({ x: change.started_at, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: plain(change.text), font: { size: 11, color: change.is_open ? palette.accent : palette.muted } }));
    return [[...levels, marks(doubtful, { color: palette.surface, line: { color: blue, width: 1.5 } }), marks(used, { color: blue, line: { color: palette.surface, width: 0.8 } })], plotLayout(palette, plot, { margin: { ...plotMargin(plot), t: 26 }, shapes, annotations: notes, xaxis: { ...axisStyle(palette, "", narrow), type: "date" }, yaxis: axisStyle(palette, `Time (${prefix}s)`, narrow) })];
  });
  place.append(choice("Case", DATA.histories.map((one, at) => [at, one.label]), (value) => {
    history = DATA.histories[value];
    made.redraw();
  }).element, ...box.childNodes);
  made.plot.on("plotly_hover", (event) => {
    const night = history.nights[event.points[0].customdata];
    showTip([el("p", { class: "card-title" }, el("strong", {}, night.started_at.slice(0, 10))), factList([["Time", show.time(night.value_s)], ["Run", night.run], ["Label", night.label], ["Commit", night.commit], ["Processes", String(night.process_count)], ["Not used", night.doubt]].filter(([, text]) => text))], event.event);
  });
}
