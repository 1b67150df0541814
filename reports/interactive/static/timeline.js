// The run over time: power, clock and temperature, the interval of each case, and where the clock was held down.
const TIMELINE_SPANS = 300; // intervals that can be pointed at; more are one line
const TIMELINE_SHADES = 100; // intervals of held down clocks that are shaded
const CHANNEL_AXES = {
  power_w: ["Power (W)", 1, (value) => show.watts(value)],
  clock_hz: ["clock (GHz)", 1e-9, (value) => scaled(value, "Hz", 4, "", "G")],
  temperature_c: ["Temp. (°C)", 1, (value) => `${significant(value, 3)} °C`],
  energy_j: ["Energy per call", 1, (value) => show.energy(value)],
};

function timelineSpans(told) {
  const rows = new Map(chips.flatMap((chip) => chip.rows.map((row) => [row.number, [chip, row]])));
  return told.spans.map((cells) => {
    const span = Object.fromEntries(told.columns.map((name, at) => [name, cells[at]]));
    const [chip, row] = rows.get(span.ordinal);
    return { ...span, chip, row };
  });
}

// Segments with gaps between them: one trace however many there are.
function segments(spans, value, unit, scale) {
  const drawn = spans.filter((span) => known(value(span)));
  return {
    x: drawn.flatMap((span) => [span.begin_s / unit, span.end_s / unit, null]), y: drawn.flatMap((span) => [value(span) * scale, value(span) * scale, null]),
    customdata: drawn.flatMap((span) => [spans.indexOf(span), spans.indexOf(span), null]),
  };
}

function channelTraces(told, spans, name, axis, unit, palette) {
  const scale = CHANNEL_AXES[name][1];
  const blue = ink(DATA.inks.history);
  const line = (found, style) => ({ type: "scatter", mode: "lines", connectgaps: false, hoverinfo: "none", xaxis: "x", yaxis: axis, ...found, line: style });
  const traces = [];
  const at = told.channels.indexOf(name);
  const read = told.readings.filter((one) => at >= 0 && one[2 + at].some(known));
  if (name === "clock_hz") {
    traces.push(line(segments(spans, (span) => span.rated_clock_hz, unit, scale), { color: palette.muted, width: 1.2, dash: "4px,3px" }));
    const ranges = spans.filter((span) => known(span.clock_low_hz) && span.clock_high_hz > span.clock_low_hz * 1.0005);
    traces.push(line({ x: ranges.flatMap((span) => [...Array(2).fill((span.begin_s + span.end_s) / 2 / unit), null]), y: ranges.flatMap((span) => [span.clock_low_hz * scale, span.clock_high_hz * scale, null]), customdata: ranges.flatMap((span) => [...Array(2).fill(spans.indexOf(span)), null]) }, { color: faded(blue, 0.35), width: 5 }));
  }
  traces.push(line(segments(spans, (span) => span[name], unit, scale), { color: read.length ? palette.ink : blue, width: read.length ? 1.4 : 2.6 }));
  if (!read.length) traces.push({ type: "scatter", mode: "markers", hoverinfo: "none", xaxis: "x", yaxis: axis, ...points(spans, name, unit, scale), marker: { size: 5.5, color: blue, line: { color: palette.surface, width: 0.8 } } });
  if (read.length) {
    const found = { x: [], y: [], customdata: [] };
    for (const one of read) {
      one[1].forEach((time, place) => {
        found.x.push(time / unit);
        found.y.push(known(one[2 + at][place]) ? one[2 + at][place] * scale : null);
        found.customdata.push(one[0]);
      });
      found.x.push(null);
      found.y.push(null);
      found.customdata.push(null);
    }
    traces.push(line(found, { color: faded(blue, 0.85), width: 1.3 }));
  }
  return traces;
}

function points(spans, name, unit, scale) {
  const drawn = spans.filter((span) => known(span[name]));
  return { x: drawn.map((span) => (span.begin_s + span.end_s) / 2 / unit), y: drawn.map((span) => span[name] * scale), customdata: drawn.map((span) => spans.indexOf(span)) };
}

// The lane at the bottom: each case's interval in the colour of its format, striped where the clock was held down.
function laneTraces(told, spans, unit, axis, palette) {
  const bars = (held) => {
    const drawn = spans.filter((span) => Boolean(span.is_throttled) === held);
    const colours = held ? { color: palette.accent, pattern: { shape: "/", fillmode: "overlay", size: 5, solidity: 0.35, fgcolor: palette.surface } } : { color: drawn.map((span) => ink(span.chip.colours[span.row.format] || DATA.inks.muted)) };
    return { type: "bar", orientation: "h", width: 0.72, y: drawn.map(() => 0), base: drawn.map((span) => span.begin_s / unit), x: drawn.map((span) => (span.end_s - span.begin_s) / unit), customdata: drawn.map((span) => spans.indexOf(span)), marker: { ...colours, line: { color: palette.surface, width: 0.6 } } };
  };
  // Two traces: a pattern takes its colours from the trace only where the trace has one colour.
  const lane = spans.length > TIMELINE_SPANS ? [{ type: "scatter", mode: "lines", line: { color: palette.muted, width: 12 }, ...segments(spans, () => 0, unit, 1) }] : [bars(false), bars(true)];
  const canaries = told.canaries.map(([offset_s, , isSlow]) => ({ x: offset_s / unit, isSlow }));
  return [
    ...lane.map((one) => ({ ...one, hoverinfo: "none", xaxis: "x", yaxis: axis })),
    { type: "scatter", mode: "markers", hoverinfo: "none", xaxis: "x", yaxis: axis, cliponaxis: false, x: canaries.map((one) => one.x), y: canaries.map(() => 0.62), customdata: canaries.map((_, at) => `canary:${at}`), marker: { symbol: canaries.map((one) => (one.isSlow ? "x" : "triangle-down")), size: canaries.map((one) => (one.isSlow ? 10 : 8)), color: canaries.map((one) => (one.isSlow ? palette.accent : palette.muted)) } },
  ];
}

function timelineLayout(told, spans, channels, unit, isMinutes, palette, plot) {
  const narrow = isNarrow(plot);
  const lane = narrow ? 0.12 : 0.1;
  const height = (1 - lane) / channels.length;
  const axes = {};
  channels.forEach((name, at) => {
    const top = 1 - at * height;
    const [words] = CHANNEL_AXES[name];
    const title = narrow && name === "energy_j" ? "Energy" : name === "clock_hz" ? `${told.has_sm_clock ? "SM" : "CPU"} ${words}` : words;
    axes[`yaxis${at ? at + 1 : ""}`] = { ...axisStyle(palette, title, true), domain: [top - height * 0.86, top], nticks: 5, ...(name === "energy_j" ? { type: "log", ...energyTicks(spans) } : { rangemode: name === "power_w" ? "tozero" : "normal" }) };
  });
  axes[`yaxis${channels.length + 1}`] = { ...axisStyle(palette, "", true), domain: [0, lane * 0.8], range: [-0.45, 0.9], showgrid: false, ticks: "", showline: false, tickvals: [0], ticktext: ["Cases"] };
  const held = spans.filter((span) => span.is_throttled).slice(0, TIMELINE_SHADES);
  return plotLayout(palette, plot, {
    ...axes, barmode: "overlay", bargap: 0, hoverdistance: 20, margin: { l: narrow ? 64 : 74, r: 14, t: 10, b: 46 },
    xaxis: { ...axisStyle(palette, told.has_time_axis ? `${isMinutes ? "Minutes" : "Seconds"} since the run began` : "Case, in order", narrow), anchor: `y${channels.length + 1}`, zeroline: false },
    shapes: held.map((span) => ({ type: "rect", xref: "x", yref: "paper", x0: span.begin_s / unit, x1: span.end_s / unit, y0: 0, y1: 1, fillcolor: palette.accent, opacity: 0.13, line: { width: 0 }, layer: "below" })),
  });
}

// Ticks at 1, 2 and 5, or at powers of ten where energies lie far apart, with their unit.
function energyTicks(spans) {
  const energies = spans.map((span) => span.energy_j).filter((energy) => energy > 0);
  const [low, high] = [energies.reduce((a, b) => Math.min(a, b), Infinity), energies.reduce((a, b) => Math.max(a, b), 0)];
  const digits = high / low > 30 ? [1] : [1, 2, 5];
  const tickvals = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) tickvals.push(...digits.map((digit) => digit * 10 ** power));
  return { tickvals, ticktext: tickvals.map(show.energy) };
}

function spanCard(told, span) {
  const steps = Object.keys(CHANNEL_AXES).filter((name) => known(span[name])).map((name) => [{ power_w: "Power", clock_hz: `${told.has_sm_clock ? "SM" : "CPU"} clock`, temperature_c: "Temperature", energy_j: "Energy per call" }[name], CHANNEL_AXES[name][2](span[name]), span[name]]);
  const clock = CHANNEL_AXES.clock_hz[2];
  const facts = [
    told.has_time_axis ? ["From, to", `${show.time(span.begin_s, 4)} to ${show.time(span.end_s, 4)} since the run began`] : null,
    ...steps,
    known(span.idle_power_w) ? ["Idle power", show.watts(span.idle_power_w), span.idle_power_w] : null,
    known(span.clock_low_hz) ? ["Clock of samples", `${clock(span.clock_low_hz)} to ${clock(span.clock_high_hz)}`] : null,
    known(span.rated_clock_hz) ? ["Rated clock", clock(span.rated_clock_hz), span.rated_clock_hz] : null,
    span.throttled_text !== "–" ? ["Throttled", span.throttled_text] : null,
    known(span.row.measured_s) ? ["Measured", show.time(span.row.measured_s), span.row.measured_s] : null,
  ].filter(Boolean);
  return [el("p", { class: "card-title" }, el("strong", {}, span.row.name), span.row.process_count > 1 ? ` process ${span.process}` : null), factList(facts)];
}

function timelineLegend(told, spans, formats) {
  const item = (mark, text) => el("li", {}, mark, text);
  const marks = formats.slice(0, 10).map(([chip, format]) => item(swatch(chip, format), format));
  if (spans.some((span) => span.is_throttled)) marks.push(item(el("span", { class: "swatch is-held", "aria-hidden": "true" }), "clock held down"));
  if (told.canaries.length) marks.push(item(el("span", { class: "mark-text", "aria-hidden": "true" }, "▼"), "canary"));
  if (told.canaries.some(([, , isSlow]) => isSlow)) marks.push(item(el("span", { class: "mark-text is-slow", "aria-hidden": "true" }, "✖"), "slow canary"));
  if (spans.some((span) => known(span.rated_clock_hz))) marks.push(item(el("span", { class: "mark-is-rated", "aria-hidden": "true" }), "rated clock"));
  if (spans.some((span) => span.clock_high_hz > span.clock_low_hz)) marks.push(item(el("span", { class: "mark-is-range", "aria-hidden": "true" }), "clocks of the samples"));
  return el("ul", { class: "legend-line" }, marks);
}

function drawTimeline(place) {
  const told = DATA.timeline;
  const notes = told.notes.map((text) => el("p", { class: "quiet" }, text));
  const spans = timelineSpans(told);
  if (!spans.length) {
    place.append(...notes);
    return;
  }
  const channels = [...told.channels, ...(spans.some((span) => known(span.energy_j)) ? ["energy_j"] : [])];
  const last = spans.reduce((most, span) => Math.max(most, span.end_s), 0);
  const isMinutes = told.has_time_axis && last > 240;
  const unit = isMinutes ? 60 : 1;
  const formats = [...new Map(spans.map((span) => [span.row.format, [span.chip, span.row.format]])).values()];
  const box = el("div", {});
  const data = () => spans.map(({ chip, row, ...span }) => ({ case: row.name, ...span }));
  const made = figure(box, "timeline", "Power, clock, temperature and energy over the run, with the interval of each case; the numbers are in the tables.", data, (plot, palette) => {
    plot.style.height = `${channels.length * (isNarrow(plot) ? 120 : 135) + 120}px`;
    const traces = channels.flatMap((name, at) => channelTraces(told, spans, name, `y${at ? at + 1 : ""}`, unit, palette));
    return [[...traces, ...laneTraces(told, spans, unit, `y${channels.length + 1}`, palette)], timelineLayout(told, spans, channels, unit, isMinutes, palette, plot)];
  }, "bars");
  place.append(timelineLegend(told, spans, formats), ...box.childNodes, ...notes);
  made.plot.on("plotly_hover", (event) => {
    const key = event.points[0].customdata;
    if (String(key).startsWith("canary:")) showTip([el("p", {}, told.canaries[Number(key.slice(7))][3])], event.event);
    else if (spans[key]) showTip(spanCard(told, spans[key]), event.event);
  });
  made.plot.on("plotly_click", (event) => {
    const span = spans[event.points[0].customdata];
    if (span) toRow(span.chip, span.ordinal);
  });
}
