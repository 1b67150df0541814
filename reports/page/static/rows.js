// Figures with a row per name, from JSON (rows_json of reports/figures/drawing/plotly_drawer.py): the rows that pass the filter, in the chosen order,
// what is told of a row, and the way to its case.
const ROW_PIXELS = { wide: 34, narrow: 29 };
const TWO_STRIPS_PIXELS = 38;


// --- the figures of a chip

/** The errors of predictions: one figure, no choices. */
function drawErrors(chip, place) {
  const kinds = ["error_ideal_ratio", "error_expected_ratio"].filter((key) => chip.rows.some((row) => isKnown(row[key])));
  const data = () => chip.filter.rows().filter((row) => kinds.some((key) => isKnown(row[key]))).map((row) => ({ case: row.name, op: row.op, format: row.format, regime: row.regime, error_ideal_ratio: row.error_ideal_ratio, error_expected_ratio: row.error_expected_ratio }));
  const made = rowFigure(chip, place, "errors", WORDS.errors, data, { figures: [["", chip.errors]] });
  made.plot.on("plotly_hover", (event) => {
    const row = chip.rows.find((candidate) => candidate.number === event.points[0].customdata);
    if (row) showTip([...caseCard(row), el("p", { class: "quiet" }, WORDS.pressDot)], event.event);
  });
  made.plot.on("plotly_click", (event) => toRow(chip, event.points[0].customdata));
}

/** Where the time went: a row per case or per group, as shares or times. */
function drawGaps(chip, place) {
  const [cases] = chip.gaps;
  const numbers = new Map(cases.keys.map((number, row) => [number, row]));
  const data = () => chip.filter.rows().filter((row) => numbers.has(row.number)).map((row) => ({ case: row.name, measured_s: row.measured_s, expected_s: row.expected_s, expected_low_s: row.expected_low_s, expected_high_s: row.expected_high_s, ...Object.fromEntries(cases.data.map((part) => [`${part.name}_s`, timeOf(cases, part.x[numbers.get(row.number)])])) }));
  const made = rowFigure(chip, place, "time", WORDS.time, data, { figures: WORDS.bars.map((text, at) => [text, chip.gaps[at]]), hasScales: true });
  made.plot.on("plotly_hover", (event) => showTip(rowCard(made.figure(), event.points[0].customdata), event.event));
  made.plot.on("plotly_click", (event) => {
    const key = made.figure().keys[event.points[0].customdata];
    if (!Array.isArray(key)) toRow(chip, key);
  });
}

// `figures`: [[what a row is, figure]]; more than one can be chosen among.
function rowFigure(chip, place, name, label, rowsOf, { figures, hasScales = false }) {
  const chosen = { figure: 0, order: 0, isTime: false };
  const passes = (number) => chip.filter.passing.has(number);
  const figure = () => (chosen.figure ? summed(figures[chosen.figure][1], figures[0][1], passes) : figures[0][1]);
  const plot = el("div", { class: "figure bars", role: "img", "aria-label": label });
  const legend = el("div", {});
  const note = el("p", { class: "quiet", role: "status" });
  const draw = () => {
    const drawn = figure();
    const { rows, count } = shownRows(drawn, passes, chosen.order);
    note.textContent = !count ? WORDS.noRows : count > rows.length ? fit(WORDS.firstRows, { count: rows.length, total: show.count(count) }) : "";
    note.hidden = !note.textContent;
    drawRows(plot, drawn, rows, { isDark: isDark(), passes, scale: chosen.isTime ? drawn.time_axis : null, layout: POINTED });
  };
  const choose = (text, options, react) => choice(text, options, (value) => {
    react(value);
    draw();
  }).element;
  const choices = [];
  if (figure().orders.length) choices.push(choose(WORDS.sortBy, figure().orders.map((order, at) => [at, order.text]), (value) => (chosen.order = Number(value))));
  if (hasScales) choices.push(choose(WORDS.scale, Object.entries(WORDS.scales), (value) => (chosen.isTime = value === "time")));
  if (figures.length > 1) choices.push(choose(WORDS.barPer, figures.map(([text], at) => [at, text]), (value) => (chosen.figure = Number(value))));
  place.append(...(choices.length ? [el("div", { class: "choices" }, choices)] : []), legend, plot, toolbar(name, rowsOf, plot), note, ...figure().notes.map((text) => el("p", { class: "quiet" }, text)));
  draw();
  explain(legend, figure);
  plot.addEventListener("reset-zoom", draw);
  plot.on("plotly_unhover", hideTip);
  themeWatchers.push(draw);
  resized(plot, draw);
  chip.filter.watch(draw);
  return { plot, figure };
}

// A figure whose rows sum those of another, each bar as long as its cases that pass.
function summed(groups, cases, passes) {
  const places = new Map(cases.keys.map((key, row) => [key, row]));
  const members = groups.keys.map((keys) => [keys].flat().filter(passes).map((key) => places.get(key)));
  const sums = (values) => members.map((rows) => rows.reduce((sum, row) => sum + (values[row] || 0), 0));
  const data = groups.data.map((part) => ({ ...part, x: sums(cases.data.find((group) => group.name === part.name).x) }));
  return { ...groups, data, totals: sums(cases.totals), counts: members.map((rows) => rows.length) };
}

function rowCard(figure, row) {
  const names = figure.rows[row].map((at) => figure.names[at]);
  const time = (value, digits) => show.time(timeOf(figure, value), digits);
  const parts = figure.data.filter((part) => isKnown(part.x[row])).map((part) => [part.name, `${time(part.x[row], 3)}, ${show.percent(part.x[row] / figure.totals[row], 0)}`]);
  const span = (fact) => (isKnown(fact.low[row]) && isKnown(fact.high[row]) ? ` (${time(fact.low[row])} to ${time(fact.high[row])})` : "");
  const facts = figure.facts.filter((fact) => isKnown(fact.times[row])).map((fact) => [fact.name, time(fact.times[row]) + span(fact)]);
  if (figure.counts) facts.push([figure.count_name, `${figure.counts[row]} / ${[figure.keys[row]].flat().length}`]);
  const card = figure.cards[figure.keys[row]];
  const more = card ? [el("p", { class: "quiet" }, card.title), factList(card.facts)] : [];
  const hint = Array.isArray(figure.keys[row]) ? [] : [el("p", { class: "quiet" }, WORDS.pressBar)];
  return [el("p", { class: "card-title" }, el("strong", {}, names[1]), " ", el("span", { class: "quiet" }, names[0])), factList([...parts, [figure.total_name, time(figure.totals[row])], ...facts]), ...more, ...hint];
}

// Seconds; null where there is none.
function timeOf(figure, value) {
  return isKnown(value) ? value * figure.unit_s : null;
}

// Selects a case and goes to its row.
function toRow(chip, number) {
  if (!isKnown(number)) return;
  hideTip();
  chip.select(number);
  if (chip.reveal) chip.reveal(number);
}

// --- drawing

function passesRow(keys, passes) {
  return Array.isArray(keys) ? keys.some(passes) : passes(keys);
}

/** Return the numbers of the rows that are drawn, in their order, and how many there are. */
function shownRows(figure, passes, order) {
  const every = (figure.orders.length && figure.orders[order].rows) || figure.rows.map((_, row) => row);
  const rows = every.filter((row) => passesRow(figure.keys[row], passes));
  return { rows: rows.slice(0, figure.max_rows_count), count: rows.length };
}

/** Draw the rows into an element of a known width. `scale`: {unit_s, title} of times instead of shares. */
function drawRows(plot, figure, rows, { isDark, passes, scale = null, layout = {} }) {
  const narrow = isNarrow(plot);
  const places = new Map(rows.map((row, place) => [row, place]));
  const isTwo = figure.data.some((trace) => trace.shift);
  plot.style.height = `${Math.max(rows.length, 1) * (isTwo && !narrow ? TWO_STRIPS_PIXELS : ROW_PIXELS[narrow ? "narrow" : "wide"]) + 72}px`;
  const data = figure.totals.length ? stackedParts(figure, rows, scale) : figure.data.filter((trace) => places.has(trace.row)).map((trace) => placedStrip(figure, filtered(trace, passes), places.get(trace.row)));
  const names = rows.map((row) => rowName(figure, row, narrow));
  const margin = { l: narrow ? 108 : nameRoom(names, 430), r: figure.totals.length ? (narrow ? 52 : 66) : 16, t: 8, b: 50 };
  const title = scale ? scale.title : (narrow && figure.brief_title) || figure.layout.xaxis.title.text;
  const [least] = axisEnds(figure, scale);
  const made = merged(merged(figure.layout, layout), {
    margin, width: plot.clientWidth, height: plot.clientHeight, shapes: scale ? [] : figure.levels.map(([x, isDashed]) => level(x, isDashed, figure.line)),
    xaxis: { title: { text: title, font: { size: narrow ? 11 : 13 } }, tickfont: { size: narrow ? 10.5 : 12 }, ...(scale ? { ticksuffix: "" } : {}), zeroline: true, zerolinecolor: figure.line, ...(figure.totals.length ? { range: partsRange(data, least) } : {}) },
    yaxis: { tickvals: rows.map((_, place) => place), ticktext: names, tickfont: { size: narrow ? 10 : 11.5, color: figure.line }, range: [Math.max(rows.length, 1) - 0.5, -0.5] },
  });
  return Plotly.react(plot, painted(data, figure.palette, isDark), painted(made, figure.palette, isDark), BARE);
}

function level(x, isDashed, color) {
  return { type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color, width: 1, dash: isDashed ? "4px,3px" : "solid" } };
}

// Where values are many, those within the whiskers are in the box alone; where they are few, they are dots alone.
function placedStrip(figure, trace, place) {
  const { row, shift, is_dense: isDense, ...strip } = trace;
  const isBoxed = strip.x.length >= figure.least_boxed;
  const bare = isBoxed ? {} : { line: { ...strip.line, width: 0 }, fillcolor: "rgba(0,0,0,0)" };
  return { ...strip, ...bare, y0: place + shift, jitter: strip.x.length > 2 ? strip.jitter : 0, boxpoints: strip.x.length > figure.most_dots && !isDense ? "outliers" : "all", cliponaxis: false };
}

function stackedParts(figure, rows, scale) {
  const share = (row) => (scale ? figure.unit_s / scale.unit_s : 100 / figure.totals[row]);
  const y = rows.map((_, place) => place);
  const parts = figure.data.map((part) => ({ ...part, y, customdata: rows, x: rows.map((row) => (part.x[row] || 0) * share(row)) }));
  const [, most] = axisEnds(figure, scale);
  const ends = y.map((place) => Math.min(parts.reduce((sum, part) => sum + Math.max(part.x[place], 0), 0), most));
  const totals = { type: "scatter", mode: "text", hoverinfo: "skip", cliponaxis: false, x: ends, y, text: rows.map((row) => ` ${show.time(timeOf(figure, figure.totals[row]), 3)}`), textposition: "middle right", textfont: { size: 11, color: figure.line } };
  return [...parts, totals];
}

// How far shares are drawn; times are drawn whole.
function axisEnds(figure, scale) {
  return (!scale && figure.layout.xaxis.range) || [-Infinity, Infinity];
}

function partsRange(data, end) {
  const most = data.at(-1).x.reduce((a, b) => Math.max(a, b), 0) || 1;
  const lowest = data.at(-1).y.reduce((a, place) => Math.min(a, data.slice(0, -1).reduce((sum, part) => sum + Math.min(part.x[place], 0), 0)), 0);
  const least = Math.max(lowest, end);
  return [least < 0 ? least - 0.02 * (most - least) : 0, most * 1.01];
}

function rowName(figure, row, narrow) {
  const cut = (at, most) => {
    const text = figure.names[figure.rows[row][at]];
    return plain(text.length > most ? `${text.slice(0, most - 1)}…` : text);
  };
  return narrow ? `${cut(2, 16)}<br><span style="font-size:9px">${cut(3, 20)}</span>` : `${cut(0, 44)}<br><b>${cut(1, 34)}</b>`;
}

// Pixels for the names left of the rows: the longest line of them.
function nameRoom(names, most) {
  const longest = names.reduce((a, text) => Math.max(a, ...text.split("<br>").map((line) => line.replace(/<[^>]*>/g, "").length)), 8);
  return Math.min(14 + 7.7 * longest, most);
}
