// Speed against loss, memory or energy: what no other configuration beats, what was measured and what is only claimed.
const LOSS_SYMBOLS = { measured: "circle", claimed: "diamond", reference: "square", unknown: "circle" };

function axisButtons(legend, options, state, key, react) {
  const made = el("div", { class: "facet", role: "group", "aria-label": legend }, el("span", { class: "facet-name" }, legend));
  const buttons = options.map(({ key: value, text }) => button(text, () => {
    state[key] = value;
    react();
  }, { class: "pill", "data-value": value }));
  made.append(...buttons);
  return { element: made, update: (isUsable) => buttons.forEach((one) => {
    one.setAttribute("aria-pressed", String(one.dataset.value === state[key]));
    one.hidden = !isUsable(one.dataset.value);
  }) };
}

const PARETO_COLUMNS = ["label", "time_source", "time_s", "speedup_ratio", "speedup_basis", "loss_pct", "loss_low_pct", "loss_high_pct", "loss_source", "loss_text", "memory_bytes", "energy_j", "is_best", "is_doubtful", "is_on_front"];

function drawPareto(chip, place) {
  const groups = chip.pareto;
  const state = { at: Math.max(groups.findIndex((one) => one.points.some((point) => point.loss_source === "measured")), 0), x: "", y: "" };
  const group = () => groups[state.at];
  const every = (name) => [...new Map(groups.flatMap((one) => one[name]).map((axis) => [axis.key, axis])).values()];
  const colour = (point) => ink(chip.colours[point.precision] || point.ink);
  const box = el("div", {});
  const table = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "The points of the figure" });
  const note = el("p", { class: "quiet", role: "status" });
  const rows = () => group().points.map((point) => ({ question: group().title, origin: group().origin, baseline: group().baseline, baseline_doubts: group().baseline_doubts.join(" "), energy_per: group().per, ...Object.fromEntries(PARETO_COLUMNS.map((name) => [name, point[name]])) }));
  const choose = () => {
    for (const name of ["x", "y"]) if (!group()[`${name}_axes`].some((axis) => axis.key === state[name])) state[name] = group()[`${name}_axes`][0].key;
  };
  choose();
  const usable = () => group().points.filter((point) => known(point[state.x]));
  const made = figure(box, "pareto", "Speed against loss, memory or energy of each configuration; the numbers are in the table below.", rows, (plot, palette) => paretoPlot(plot, palette, group(), usable(), state, colour), "tall");
  const update = () => {
    choose();
    across.update((key) => group().x_axes.some((axis) => axis.key === key));
    up.update((key) => group().y_axes.some((axis) => axis.key === key));
    made.redraw();
    note.textContent = group().notes[state.x][state.y].join(" ");
    table.replaceChildren(paretoTable(group(), state));
  };
  const across = axisButtons("Across", every("x_axes"), state, "x", update);
  const up = axisButtons("Upwards", every("y_axes"), state, "y", update);
  if (groups.length > 1) {
    const pick = choice("Question", groups.map((one, at) => [at, one.choice]), (value) => {
      state.at = Number(value);
      update();
    });
    pick.select.value = state.at;
    place.append(pick.element);
  } else place.append(el("p", { class: "quiet" }, groups[0].title));
  const mark = (sign) => (sign === "best" ? el("span", { class: "mark-is-best" }) : sign ? el("span", { class: "mark-text" }, sign) : null);
  place.append(
    el("div", { class: "pareto-axes" }, across.element, up.element), ...box.childNodes,
    el("ul", { class: "legend-line" }, DATA.pareto_legend.map(([sign, text]) => el("li", {}, mark(sign), text))),
    note, el("details", {}, el("summary", {}, "The points as a table"), table),
  );
  update();
  made.plot.on("plotly_hover", (event) => {
    const point = group().points[event.points[0].customdata];
    if (point) showTip(paretoCard(point, group()), event.event);
  });
  made.plot.on("plotly_click", (event) => {
    const point = group().points[event.points[0].customdata];
    if (point && known(point.number)) chip.select(point.number);
  });
}

// A number of a point as it is shown; every word comes with the group.
function paretoShown(key, point, { labels }) {
  if (key === "speedup_ratio") return point.speedup_text;
  if (key === "loss_pct") return point.loss_shown;
  if (!known(point[key])) return labels.unknown;
  return { time_s: show.time, memory_bytes: show.bytes, energy_j: show.energy }[key](point[key]);
}

function paretoCard(point, group) {
  const { labels } = group;
  const numbers = ["time_s", "speedup_ratio", "loss_pct", "memory_bytes", "energy_j"].map((key) => [labels[key], paretoShown(key, point, group) + (key === "time_s" ? `, ${point.time_source}` : ""), point[key]]);
  const marks = ["is_on_front", "is_doubtful", "is_over_doubt", "is_best"].filter((key) => point[key]).map((key) => ["", labels[key]]);
  const loss = point.loss_source === "reference" || !point.loss_text ? [] : [["", point.loss_text]];
  return [el("p", { class: "card-title" }, el("strong", {}, point.label)), factList([...numbers, ...loss, ...marks])];
}

function paretoTable(group, state) {
  const { labels } = group;
  const keys = ["time_s", "time_source", "speedup_ratio", "loss_pct", "memory_bytes", "energy_j"];
  const columns = [labels.label, ...keys.map((key) => labels[key]), group.y_axes.find((axis) => axis.key === state.y).front, labels.is_on_front];
  const cell = (key, point) => (key === "time_source" ? el("td", {}, point[key]) : el("td", { class: "n", "data-value": point[key] }, paretoShown(key, point, group)));
  const body = group.points.map((point) => el("tr", { class: point.is_best ? "best" : null },
    el("th", { scope: "row" }, known(point.number) ? el("a", { href: `#case-${point.number}` }, point.label) : point.label),
    keys.map((key) => cell(key, point)), el("td", {}, point.fronts.includes(state.y) ? "✓" : "–"), el("td", {}, point.is_on_front ? "✓" : "–")));
  return el("table", {}, el("caption", {}, group.title), el("thead", {}, el("tr", {}, columns.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, body));
}

function paretoPlot(plot, palette, group, points, state, colour) {
  const narrow = isNarrow(plot);
  const placed = points.filter((point) => known(point[state.y]));
  const apart = points.filter((point) => !known(point[state.y]));
  const largest = group.points.reduce((most, point) => Math.max(most, point.memory_bytes || 0), 1);
  const size = (point) => (known(point.memory_bytes) ? 11 + 19 * Math.sqrt(point.memory_bytes / largest) : 12);
  const axes = Object.fromEntries(["x", "y"].map((name) => [name, group[`${name}_axes`].find((axis) => axis.key === state[name])]));
  const title = (axis) => plain(narrow ? axis.brief_title : axis.title);
  const x = (point) => point[state.x] / axes.x.scale;
  const y = (point) => point[state.y] / axes.y.scale;
  const isFront = (point) => point.fronts.includes(state.y);
  const symbol = (point) => `${LOSS_SYMBOLS[point.loss_source] || "circle"}${point.time_source === "measured" ? "" : "-open"}`;
  const share = (point) => (isFront(point) ? 1 : point.time_source === "measured" ? 0.42 : 0.75); // an outline has little ink
  const reach = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [left, right] = reach(points.map(x));
  const air = (right - left || right || 1) * (narrow ? 0.12 : 0.16);
  const highest = placed.length ? reach(placed.map(y))[1] : 1;
  const ranges = { x: [Math.max(left - air, state.x === "time_s" ? -0.02 * right : -0.05), right + air], y: [-0.1 * (highest || 1), (highest || 1) * 1.2] };
  const line = placed.filter(isFront).sort((a, b) => x(a) - x(b) || y(b) - y(a));
  const spots = paretoNames(plot, placed.filter((point) => !narrow || isFront(point) || point.is_best), x, y, ranges, size, placed);
  const marks = (members, more) => ({
    type: "scatter", mode: "markers", x: members.map(x), customdata: members.map((point) => group.points.indexOf(point)), hoverinfo: "none", cliponaxis: false,
    marker: { opacity: 1, symbol: members.map(symbol), size: members.map(size), color: members.map((point) => faded(colour(point), share(point))), line: { color: members.map((point) => (point.time_source === "measured" ? palette.surface : faded(colour(point), share(point)))), width: members.map((point) => (point.time_source === "measured" ? 1.2 : 2)) } }, ...more,
  });
  const spans = state.y === "loss_pct" ? placed.filter((point) => known(point.loss_low_pct) && known(point.loss_high_pct)) : [];
  const best = placed.filter((point) => point.is_best);
  const data = [
    { type: "scatter", mode: "lines", x: line.map(x), y: line.map(y), line: { color: palette.muted, width: 1.4, dash: "5px,4px" }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", x: spans.map(x), y: spans.map(y), hoverinfo: "skip", marker: { size: 1, color: palette.muted }, error_y: { type: "data", symmetric: false, array: spans.map((point) => point.loss_high_pct - point.loss_pct), arrayminus: spans.map((point) => point.loss_pct - point.loss_low_pct), color: palette.muted, thickness: 1.2, width: 3 } },
    { type: "scatter", mode: "markers", x: best.map(x), y: best.map(y), hoverinfo: "skip", cliponaxis: false, marker: { symbol: "circle-open", size: best.map((point) => size(point) + 13), color: palette.accent, line: { width: 2.6, color: palette.accent } } },
    marks(placed, { y: placed.map(y) }),
  ];
  const notes = spots.map(({ point, ax, ay, anchor }) => ({ x: x(point), y: y(point), xref: "x", yref: "y", xanchor: anchor, yanchor: "middle", xshift: ax, yshift: ay, showarrow: false, text: plain(point.label), font: { size: 11.5, color: point.is_best ? palette.accent : isFront(point) ? palette.ink : palette.muted } }));
  const layout = { xaxis: { ...axisStyle(palette, title(axes.x), narrow), range: ranges.x, zeroline: false }, yaxis: { ...axisStyle(palette, title(axes.y), narrow), range: ranges.y, zeroline: true, zerolinecolor: palette.grid } };
  if (state.x === "speedup_ratio" && left < 1 && right > 1) layout.shapes = [{ type: "line", xref: "x", yref: "paper", x0: 1, x1: 1, y0: apart.length ? 0.17 : 0, y1: 1, line: { color: palette.muted, width: 1, dash: "2px,3px" } }];
  if (apart.length) {
    data.push(marks(apart, { y: apart.map(() => 0), yaxis: "y2" }));
    layout.yaxis.domain = [0.17, 1];
    layout.yaxis2 = { ...axisStyle(palette, "", narrow), domain: [0, 0.11], range: [-1, 1], tickvals: [0], ticktext: [narrow ? "?" : "unknown"], tickfont: { size: 11, color: palette.muted }, showgrid: false, zeroline: false, fixedrange: true };
    layout.xaxis.anchor = "y2";
    if (!narrow) notes.push(...paretoNames(plot, apart, x, () => 0, { x: ranges.x, y: [-8, 8] }, size).filter((one) => one.ay === 0).map(({ point, ax, anchor }) => ({ x: x(point), y: 0, xref: "x", yref: "y2", xanchor: anchor, xshift: ax, showarrow: false, text: plain(point.label), font: { size: 11, color: palette.muted } })));
  }
  return [data, plotLayout(palette, plot, { ...layout, margin: paretoMargin(plot), annotations: notes })];
}

function paretoMargin(plot) {
  return { ...plotMargin(plot), r: isNarrow(plot) ? 10 : 22 };
}

// Where the names stand: beside their marks, and where two would cover each other the later one moves or is left to the table.
function paretoNames(plot, points, x, y, ranges, size, marks = points) {
  const margin = paretoMargin(plot);
  const wide = plot.clientWidth - margin.l - margin.r;
  const high = plot.clientHeight - margin.t - margin.b;
  const pixel = (point) => [((x(point) - ranges.x[0]) / (ranges.x[1] - ranges.x[0])) * wide, ((ranges.y[1] - y(point)) / (ranges.y[1] - ranges.y[0])) * high];
  const taken = marks.map((point) => [pixel(point), size(point) / 2]).map(([[px, py], r]) => [px - r, py - r, px + r, py + r]);
  const found = [];
  const ordered = [...points].sort((a, b) => Number(b.is_best) - Number(a.is_best) || b.fronts.length - a.fronts.length);
  for (const point of ordered) {
    const [px, py] = pixel(point);
    const long = point.label.length * 6.4;
    const gap = size(point) / 2 + (point.is_best ? 10 : 5);
    const places = [[gap, 0, "left"], [-gap, 0, "right"], [0, gap + 7, "center"], [0, -gap - 7, "center"], [gap, 15, "left"], [gap, -15, "left"], [-gap, 15, "right"], [-gap, -15, "right"]];
    for (const [ax, ay, anchor] of places) {
      const start = px + ax - (anchor === "right" ? long : anchor === "center" ? long / 2 : 0);
      const cell = [start, py - ay - 8, start + long, py - ay + 8];
      const isFree = cell[0] > 2 && cell[2] < wide - 2 && cell[1] > 0 && taken.every((other) => cell[2] < other[0] || cell[0] > other[2] || cell[3] < other[1] || cell[1] > other[3]);
      if (!isFree) continue;
      taken.push(cell);
      found.push({ point, ax, ay, anchor });
      break;
    }
  }
  return found;
}
