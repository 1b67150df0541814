// Where the time went: one bar per case from its ideal roof to the measured time, part by part.
const GAP_BARS = 40; // bars in one figure
const GAP_SORTS = [["far", "farthest from the ideal roof"], ["lost", "most time beyond the roof"], ["unexplained", "most unexplained"], ["table", "order of the table"]];
const GAP_SCALES = [["share", "share of the measured time"], ["time", "time"]];
const GAP_BARS_OF = [["case", "case"], ["group", "operator and format (sums)"]];

function gapCases(chip) {
  const rows = new Map(chip.rows.map((row) => [row.number, row]));
  return chip.gaps.rows.map(([number, measured_s, expected_s, low_s, high_s, ...values]) => {
    const row = rows.get(number);
    return { row, count: 1, title: `${operatorName(row)} ${row.shape}`, format: row.format, kernel: row.kernel, regime: row.regime, measured_s, expected_s, low_s, high_s, values, stages: chip.gaps.stages[number] || [] };
  });
}

function gapGroups(cases) {
  const groups = new Map();
  for (const one of cases) {
    const key = JSON.stringify([one.row.op, one.format]);
    const group = groups.get(key);
    if (!group) groups.set(key, { ...one, row: null, title: operatorName(one.row), op: one.row.op, kernel: "", regime: "", expected_s: null, low_s: null, high_s: null, values: [...one.values], stages: [] });
    else {
      group.count += 1;
      group.measured_s += one.measured_s;
      group.values = group.values.map((value, at) => (known(one.values[at]) ? (value || 0) + one.values[at] : value));
    }
  }
  return [...groups.values()];
}

function gapOrder(bars, sort, parts) {
  const of = (key) => parts.findIndex((part) => part.key === key);
  const [ideal, rest] = [of("ideal"), of("unexplained")];
  const sizes = {
    far: (bar) => 1 - (bar.values[ideal] || 0) / bar.measured_s,
    lost: (bar) => bar.measured_s - (bar.values[ideal] || 0),
    unexplained: (bar) => Math.abs(bar.values[rest] || 0) / bar.measured_s,
  };
  return sort === "table" ? bars : [...bars].sort((a, b) => sizes[sort](b) - sizes[sort](a));
}

function gapTraces(bars, parts, scaleOf, palette) {
  const traces = parts.map((part, at) => ({
    type: "bar", orientation: "h", width: 0.68, hoverinfo: "none", y: bars.map((_, place) => place), x: bars.map((bar) => (bar.values[at] || 0) * scaleOf(bar)), customdata: bars.map((_, place) => place),
    marker: { color: part.is_hatched ? palette.surface : ink(part.inks), line: { color: part.is_hatched ? ink(part.inks) : palette.surface, width: 0.6 }, ...(part.is_hatched ? { pattern: { shape: "/", fillmode: "overlay", size: 6, solidity: 0.22, bgcolor: palette.surface, fgcolor: ink(part.inks) } } : {}) },
  }));
  const ends = bars.map((bar) => bar.values.reduce((sum, value) => sum + Math.max(value || 0, 0), 0) * scaleOf(bar));
  traces.push({ type: "scatter", mode: "text", hoverinfo: "skip", cliponaxis: false, x: ends, y: bars.map((_, place) => place), text: bars.map((bar) => ` ${show.time(bar.measured_s, 3)}`), textposition: "middle right", textfont: { size: 11, color: palette.ink } });
  return { traces, ends };
}

function gapCard(bar, parts) {
  const head = bar.row ? `${bar.format} (${bar.kernel})` : bar.format;
  const quiet = bar.row ? `${bar.title} ${bar.regime}` : `${bar.title}, ${bar.count} cases together`;
  const span = known(bar.low_s) && known(bar.high_s) ? ` (${show.time(bar.low_s)} to ${show.time(bar.high_s)})` : "";
  const facts = parts.flatMap((part, at) => (known(bar.values[at]) ? [[part.label.split(":")[0], `${show.time(bar.values[at], 3)}, ${show.percent(bar.values[at] / bar.measured_s, 0)}`, bar.values[at]]] : []));
  facts.push(["Measured", show.time(bar.measured_s), bar.measured_s]);
  if (known(bar.expected_s)) facts.push(["Expected", show.time(bar.expected_s) + span, bar.expected_s]);
  const stages = bar.stages.length ? [el("p", { class: "quiet" }, "Longest stages of the expected pass"), factList(bar.stages.map(([name, seconds]) => [name, show.time(seconds, 3), seconds]))] : [];
  return [el("p", { class: "card-title" }, el("strong", {}, head), " ", el("span", { class: "quiet" }, quiet)), factList(facts), ...stages, bar.row ? el("p", { class: "quiet" }, "Press the bar for its row in the table.") : null].filter(Boolean);
}

function gapLegend(parts) {
  return el("ul", { class: "legend-line" }, parts.map((part) => {
    const mark = el("span", { class: part.is_hatched ? "swatch is-hatched" : "swatch", "aria-hidden": "true" });
    const paint = () => {
      mark.style.backgroundColor = ink(part.inks);
    };
    themeWatchers.push(paint);
    paint();
    return el("li", { title: part.label }, mark, part.label.split(":")[0]);
  }));
}

function drawGaps(chip, place) {
  const { parts, missing } = chip.gaps;
  const cases = gapCases(chip);
  const regimes = distinct(cases.map((one) => one.regime)).length > 1;
  const chosen = { sort: "far", scale: "share", bars: "case" };
  const note = el("p", { class: "quiet", role: "status" });
  const filtered = () => cases.filter((one) => chip.filter.passes(one.row));
  const data = () => filtered().map((one) => ({ case: one.row.name, measured_s: one.measured_s, expected_s: one.expected_s, expected_low_s: one.low_s, expected_high_s: one.high_s, ...Object.fromEntries(parts.map((part, at) => [`${part.key}_s`, one.values[at]])) }));
  let bars = [];
  const box = el("div", {});
  const made = figure(box, "time", "Where the measured time of each case went: stacked bars from the ideal roof to the measured time. The numbers are in the tables.", data, (plot, palette) => {
    const narrow = isNarrow(plot);
    const all = chosen.bars === "group" ? gapGroups(filtered()) : filtered();
    bars = gapOrder(all, chosen.sort, parts).slice(0, GAP_BARS);
    note.textContent = !all.length ? "No case that passes the filters can be split." : all.length > bars.length ? `The first ${bars.length} of ${show.count(all.length)} cases in this order: filter the cases, or sum them by operator and format, to see the others.` : "";
    note.hidden = !note.textContent;
    plot.style.height = `${Math.max(bars.length, 1) * (narrow ? 29 : 34) + 70}px`;
    const isShare = chosen.scale === "share";
    const longest = bars.reduce((most, bar) => Math.max(most, bar.measured_s), 1e-9);
    const [prefix, unit] = [...PREFIXES].reverse().find(([, size]) => size <= 1 && longest >= size) || ["n", 1e-9];
    const scale = (bar) => (isShare ? 100 / bar.measured_s : 1 / unit);
    const { traces, ends } = gapTraces(bars, parts, scale, palette);
    const most = ends.reduce((a, b) => Math.max(a, b), isShare ? 100 : 0) || 1;
    const least = bars.reduce((a, bar) => Math.min(a, bar.values.reduce((sum, value) => sum + Math.min(value || 0, 0), 0) * scale(bar)), 0);
    const short = (text, room) => (text.length > room ? `${text.slice(0, room - 1)}…` : text);
    const inFull = (bar) => (bar.row ? `${bar.title}${regimes ? `, ${bar.regime}` : ""}` : `${bar.title} (${bar.count})`);
    const name = (bar) => (narrow ? `${plain(short(bar.format, 16))}<br><span style="font-size:9px">${plain(short(bar.row && !isModelPass(bar.row) ? bar.row.shape : bar.title, 20))}</span>` : `${plain(short(inFull(bar), 38))}<br><b>${plain(short(bar.format, 20))}</b>${bar.kernel ? ` ${plain(short(bar.kernel, 20))}` : ""}`);
    const names = bars.map(name);
    const width = narrow ? 104 : nameRoom(names, 430);
    return [traces, plotLayout(palette, plot, {
      barmode: "relative", bargap: 0.3, margin: { l: width, r: narrow ? 52 : 66, t: 6, b: 48 },
      shapes: isShare ? [{ type: "line", x0: 100, x1: 100, yref: "paper", y0: 0, y1: 1, line: { color: palette.ink, width: 1, dash: "4px,3px" } }] : [],
      xaxis: { ...axisStyle(palette, isShare ? (narrow ? "Share of the measured time" : "Share of the measured time (printed at the end of each bar)") : `Time per call (${prefix}s)`, narrow), range: [least < 0 ? least - 0.02 * (most - least) : 0, most * 1.01], ticksuffix: isShare ? " %" : "", zeroline: true, zerolinecolor: palette.muted },
      yaxis: { ...axisStyle(palette, "", narrow), tickfont: { size: narrow ? 10 : 11.5, color: palette.ink }, tickvals: bars.map((_, at) => at), ticktext: names, range: [Math.max(bars.length, 1) - 0.5, -0.5], showgrid: false, ticks: "", showline: false },
    })];
  }, "bars");
  const choose = (label, key, options) => choice(label, options, (value) => {
    chosen[key] = value;
    made.redraw();
  }).element;
  place.append(el("div", { class: "choices" }, choose("Sort by", "sort", GAP_SORTS), choose("Scale", "scale", GAP_SCALES), choose("One bar per", "bars", GAP_BARS_OF)), gapLegend(parts), ...box.childNodes, note, ...missing.map((text) => el("p", { class: "quiet" }, text)));
  made.plot.on("plotly_hover", (event) => showTip(gapCard(bars[event.points[0].customdata], parts), event.event));
  made.plot.on("plotly_click", (event) => {
    const bar = bars[event.points[0].customdata];
    if (bar && bar.row) toRow(chip, bar.row.number);
  });
  chip.filter.watch(made.redraw);
}
