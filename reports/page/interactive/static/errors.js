// How far predictions were off, per operator and format: every case a dot, the ideal and the expected time side by side.
const ERROR_KINDS = [["error_ideal_ratio", "ideal"], ["error_expected_ratio", "expected"]];
const ERROR_GROUPS = 40; // rows of the figure, those with the most cases
const ERROR_DOTS = 120; // dots of a row; of more cases only what lies outside the whiskers
const BOXED = 5; // from so many cases on, a box says more than the dots

function quantileOf(ranked, share) {
  const at = (ranked.length - 1) * share;
  const low = Math.floor(at);
  return ranked[low] + (ranked[Math.min(low + 1, ranked.length - 1)] - ranked[low]) * (at - low);
}

// Quartiles, and whiskers that end at the last case within 1.5 times the box.
function boxOf(values) {
  const ranked = [...values].sort((a, b) => a - b);
  const [q1, median, q3] = [0.25, 0.5, 0.75].map((share) => quantileOf(ranked, share));
  const reach = 1.5 * (q3 - q1);
  return { q1, median, q3, low: ranked.find((one) => one >= q1 - reach), high: ranked.findLast((one) => one <= q3 + reach) };
}

// A pass of a model by its phase first, so that a cut name tells the two phases apart: "decode of seeded-llama-156m".
function operatorName(row) {
  return isModelPass(row) ? `${row.phase} of ${row.op.slice(0, -row.phase.length - 1)}` : row.op;
}

function isModelPass(row) {
  return row.op.endsWith(` ${row.phase}`);
}

function errorGroups(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.op, row.format]);
    if (!groups.has(key)) groups.set(key, { op: row.op, format: row.format, rows: [] });
    groups.get(key).rows.push(row);
  }
  const most = new Set([...groups.values()].sort((a, b) => b.rows.length - a.rows.length).slice(0, ERROR_GROUPS));
  return { shown: [...groups.values()].filter((one) => most.has(one)).sort((a, b) => a.op.localeCompare(b.op, "en")), count: groups.size };
}

function errorTraces(chip, groups, kinds, palette, notes) {
  const shift = kinds.length > 1 ? 0.2 : 0;
  const traces = [];
  kinds.forEach(([key], kind) => {
    const offset = kinds.length > 1 ? (kind ? shift : -shift) : 0;
    const isFilled = key === "error_expected_ratio";
    const boxes = { q1: [], median: [], q3: [], lowerfence: [], upperfence: [], y: [] };
    const dots = { x: [], y: [], color: [], customdata: [] };
    const medians = { x: [], y: [] };
    groups.forEach((group, at) => {
      const members = group.rows.filter((row) => known(row[key]));
      if (!members.length) return;
      const box = boxOf(members.map((row) => row[key] * 100));
      if (members.length >= BOXED) {
        boxes.y.push(at + offset);
        boxes.q1.push(box.q1);
        boxes.median.push(box.median);
        boxes.q3.push(box.q3);
        boxes.lowerfence.push(box.low);
        boxes.upperfence.push(box.high);
      } else if (members.length > 1) {
        medians.x.push(box.median);
        medians.y.push(at + offset);
      }
      const drawn = members.length > ERROR_DOTS ? members.filter((row) => row[key] * 100 < box.low || row[key] * 100 > box.high).slice(0, ERROR_DOTS) : members;
      if (drawn.length < members.length) notes.isThinned = true;
      const colour = ink(chip.colours[group.format] || DATA.inks.muted);
      drawn.forEach((row, place) => {
        dots.x.push(row[key] * 100);
        dots.y.push(at + offset + (drawn.length > 2 ? (((place * 0.618) % 1) - 0.5) * 0.2 : 0)); // spread, the same every time
        dots.color.push(colour);
        dots.customdata.push(row.number);
      });
    });
    const type = dots.x.length > SVG_LIMIT && hasWebGl ? "scattergl" : "scatter";
    if (boxes.y.length) traces.push({ type: "box", orientation: "h", ...boxes, hoverinfo: "skip", width: kinds.length > 1 ? 0.32 : 0.5, whiskerwidth: 0.5, line: { color: palette.muted, width: 1.2 }, fillcolor: faded(palette.muted, isFilled ? 0.26 : 0.1) });
    traces.push({ type: "scatter", mode: "markers", ...medians, hoverinfo: "skip", marker: { symbol: "line-ns-open", size: 15, line: { width: 1.8 }, color: palette.muted } });
    traces.push({ type, mode: "markers", x: dots.x, y: dots.y, customdata: dots.customdata, hoverinfo: "none", cliponaxis: false, marker: { symbol: isFilled ? "circle" : "circle-open", size: 7.5, color: dots.color, line: { width: isFilled ? 0.8 : 1.7, color: isFilled ? palette.surface : dots.color } } });
  });
  return traces;
}

function errorLegend(kinds) {
  const entries = kinds.map(([key, word]) => [key === "error_ideal_ratio" ? "is-ideal" : "is-measured", `${word} time, one case`]);
  return el("ul", { class: "legend-line" }, [...entries, ["is-median", "median"]].map(([kind, text]) => el("li", {}, el("span", { class: `mark-${kind}`, "aria-hidden": "true" }), text)), el("li", {}, `box: the middle half, from ${BOXED} cases on`));
}

function drawErrors(chip, place) {
  const kinds = ERROR_KINDS.filter(([key]) => chip.rows.some((row) => known(row[key])));
  const usable = () => chip.filter.rows().filter((row) => kinds.some(([key]) => known(row[key])));
  const note = el("p", { class: "quiet", role: "status" });
  const box = el("div", {});
  const made = figure(box, "errors", "Errors of the ideal and the expected time per operator and format, every case a dot. The numbers are in the tables.", () => usable().map((row) => ({ case: row.name, op: row.op, format: row.format, regime: row.regime, error_ideal_ratio: row.error_ideal_ratio, error_expected_ratio: row.error_expected_ratio })), (plot, palette) => {
    const narrow = isNarrow(plot);
    const groups = errorGroups(usable());
    const notes = {};
    const data = errorTraces(chip, groups.shown, kinds, palette, notes);
    const said = [];
    if (groups.count > groups.shown.length) said.push(`The ${groups.shown.length} groups with the most cases, of ${show.count(groups.count)}.`);
    if (notes.isThinned) said.push(`Of groups with more than ${ERROR_DOTS} cases, only those outside the whiskers are dots.`);
    note.textContent = said.join(" ");
    note.hidden = !said.length;
    const rows = Math.max(groups.shown.length, 1);
    plot.style.height = `${rows * (kinds.length > 1 || !narrow ? 38 : 30) + 72}px`;
    const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    const operator = (group) => operatorName(group.rows[0]);
    const name = (group) => (narrow ? `${plain(short(group.format, 13))}<br><span style="font-size:9px">${plain(short(operator(group), 18))}</span>` : `${plain(short(operator(group), 34))}<br><b>${plain(short(group.format, 24))}</b>  (${group.rows.length})`);
    const names = groups.shown.map(name);
    const left = narrow ? 110 : nameRoom(names, 300);
    const breaks = groups.shown.flatMap((group, at) => (at && group.op !== groups.shown[at - 1].op ? [at - 0.5] : []));
    return [data, plotLayout(palette, plot, {
      margin: { l: left, r: 16, t: 8, b: 50 },
      shapes: breaks.map((y) => ({ type: "line", xref: "paper", x0: -left / (plot.clientWidth - left - 16), x1: 1, y0: y, y1: y, line: { color: palette.grid, width: 1 } })),
      xaxis: { ...axisStyle(palette, narrow ? "← too fast   error (%)   too slow →" : "← predicted too fast      error (%)      predicted too slow →", narrow), zeroline: true, zerolinecolor: palette.ink, zerolinewidth: 1.2, rangemode: "tozero", ticksuffix: narrow ? "" : " %" },
      yaxis: { ...axisStyle(palette, "", narrow), tickvals: groups.shown.map((_, at) => at), ticktext: names, range: [rows - 0.5, -0.5], showgrid: false, ticks: "", showline: false },
    })];
  }, "bars");
  place.append(errorLegend(kinds), ...box.childNodes, note);
  made.plot.on("plotly_hover", (event) => {
    const row = chip.rows.find((one) => one.number === event.points[0].customdata);
    if (row) showTip([...caseCard(row), el("p", { class: "quiet" }, "Press the dot for its row in the table.")], event.event);
  });
  made.plot.on("plotly_click", (event) => toRow(chip, event.points[0].customdata));
  chip.filter.watch(made.redraw);
}

// Pixels for the names left of bars: the longest line of them.
function nameRoom(names, most) {
  const longest = names.reduce((a, text) => Math.max(a, ...text.split("<br>").map((line) => line.replace(/<[^>]*>/g, "").length)), 8);
  return Math.min(14 + 7.1 * longest, most);
}

// Selects a case and goes to its row.
function toRow(chip, number) {
  if (!known(number)) return;
  hideTip();
  chip.select(number);
  if (chip.reveal) chip.reveal(number);
}
