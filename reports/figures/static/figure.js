// Draws a figure that came as JSON (reports/figures/drawing/plotly_drawer.py): its colours by theme, its points by filter, its labels where
// they cover least. The report inlines this file, the explorer loads it as a module. It ranks nothing and words nothing.
const BARE = { displayModeBar: false, displaylogo: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
const NARROW_MARKS = 0.75;
const ROOM_LINES = 60; // spots along a line that labels keep clear of where they can
const FAR = 36; // from its mark, a name needs a line to it
const MOST_SEGMENTS = 1200; // of one line: of more no label is clear
const MOST_MARKS = 400; // of more, a part tells where they are
const hasWebGl = (() => {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl"));
  } catch (error) {
    return false;
  }
})();

// Every `$3` and `$3/0.5` of a value as the colour of the theme.
function painted(value, palette, isDark) {
  if (typeof value === "string") {
    const match = /^\$(\d+)(?:\/([\d.]+))?$/.exec(value);
    if (!match) return value;
    const colour = palette[match[1]][isDark ? 1 : 0];
    if (!match[2]) return colour;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${match[2]})`;
  }
  if (Array.isArray(value)) return value.length && typeof value[0] === "number" ? value : value.map((item) => painted(item, palette, isDark));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, painted(part, palette, isDark)]));
  return value;
}

// A series with the points that pass: whatever it has one of per point.
function filtered(trace, passes) {
  const keys = trace.customdata;
  if (!keys) return trace;
  const places = keys.flatMap((key, at) => (passes(key) ? [at] : []));
  if (places.length === keys.length) return trace;
  const cut = (value) => {
    if (Array.isArray(value)) return value.length === keys.length ? places.map((at) => value[at]) : value;
    return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, cut(part)])) : value;
  };
  return cut(trace);
}

// A layout whose nested parts are added to another's.
function merged(layout, more) {
  const result = { ...layout };
  for (const [name, value] of Object.entries(more || {})) result[name] = value && typeof value === "object" && !Array.isArray(value) ? merged(result[name], value) : value;
  return result;
}

function isNarrow(plot) {
  return plot.clientWidth < 620;
}

/** Draw a figure into an element of a known size. `look`: {isDark, passes, ranges, extra: series drawn on top, layout}. */
export function drawFigure(plot, figure, { isDark, passes = () => true, ranges = null, extra = [], layout = {} }) {
  const narrow = isNarrow(plot);
  const ours = merged(figure.layout, layout);
  if (figure.height) plot.style.height = `${figure.height[narrow ? "narrow" : "wide"]}px`;
  const made = merged(ours, { width: plot.clientWidth, height: plot.clientHeight, margin: figure.margin[narrow ? "narrow" : "wide"], ...(narrow ? narrowed(ours, figure.brief_titles || {}) : {}) });
  for (const [axis, range] of Object.entries(ranges || {})) made[axis].range = range;
  for (const axis of [made.xaxis, made.yaxis]) if (axis.type === "log" && !axis.tickvals) axis.dtick = decadeStep(axis.range);
  const data = [...figure.data.map((trace) => sized(filtered(trace, passes), narrow)), ...extra];
  made.annotations = placedLabels(plot, figure.labels, data, made, figure.ground);
  return Plotly.react(plot, painted(data, figure.palette, isDark), painted(made, figure.palette, isDark), BARE);
}

function sized(trace, narrow) {
  const type = trace.type === "scattergl" && !hasWebGl ? "scatter" : trace.type;
  const small = narrow && trace.mode === "markers";
  return { ...trace, type, ...(small ? { marker: { ...trace.marker, size: trace.marker.size * NARROW_MARKS } } : {}) };
}

function narrowed(layout, briefTitles) {
  const axis = (name) => ({ title: { font: { size: 11 }, standoff: 6, ...(briefTitles[name] ? { text: briefTitles[name] } : {}) }, tickfont: { size: 10.5 } });
  return Object.fromEntries(Object.keys(layout).filter((name) => /^[xy]axis/.test(name)).map((name) => [name, axis(name)]));
}

// Powers of ten; 2 and 5 too where few of them are seen, every digit where at most one is, and whatever fits where none is.
function decadeStep([low, high]) {
  return high - low > 2.4 ? 1 : high - low > 0.8 ? "D2" : high - low > 0.4 ? "D1" : undefined;
}

// --- labels: the plane in pixels, and the places that are still free

function placedLabels(plot, labels, data, layout, ground) {
  if (!labels.length) return [];
  const { l, r, t, b } = layout.margin;
  const size = [plot.clientWidth - l - r, plot.clientHeight - t - b];
  const along = (axis, value) => ((axis.type === "log" ? Math.log10(value) : value) - axis.range[0]) / (axis.range[1] - axis.range[0]);
  const pixel = (x, y) => [along(layout.xaxis, x) * size[0], (1 - along(layout.yaxis, y)) * size[1]];
  const plane = { size, pixel, marks: markSpots(data, pixel), taken: markBoxes(data, pixel), lines: lineSpots(data, pixel), letters: [], ground, narrow: isNarrow(plot), bottom: -Infinity };
  const writers = { margin: inMargin, along: alongLine, top: atTop, around: aroundMark };
  const order = ["top", "margin", "along", "around"];
  const ordered = [...labels].sort((a, b) => order.indexOf(a.place) - order.indexOf(b.place));
  return ordered.flatMap((label) => {
    const note = writers[label.place](label, plane, ordered);
    if (!note) return [];
    const value = (axis, coordinate) => (axis.type === "log" ? Math.log10(coordinate) : coordinate);
    return [{ x: value(layout.xaxis, label.x), y: value(layout.yaxis, label.y), xref: "x", yref: "y", showarrow: false, align: "left", ...note(layout) }];
  });
}

function markSpots(data, pixel) {
  const spots = data.filter((trace) => trace.mode === "markers" && trace.hoverinfo !== "skip").flatMap((trace) => trace.x.map((x, at) => pixel(x, trace.y[at])));
  const every = Math.ceil(spots.length / MOST_MARKS);
  return spots.filter((_, at) => at % every === 0);
}

// What the marks cover: [left, top, right, bottom].
function markBoxes(data, pixel) {
  const boxes = data.filter((trace) => trace.mode === "markers").flatMap((trace) => trace.x.map((x, at) => boxAround(pixel(x, trace.y[at]), trace.marker.size / 2)));
  // Of marks on each other, all of a size, the first stands for the others.
  return [...new Map(boxes.map((box) => [box.map((side) => Math.round(side / 4)).join(), box])).values()];
}

const boxAround = ([x, y], half) => [x - half, y - half, x + half, y + half];

function lineSpots(data, pixel) {
  const lines = data.filter((trace) => trace.mode === "lines" && trace.x.length <= MOST_SEGMENTS);
  return lines.flatMap(({ x, y }) => x.flatMap((position, at) => (at && x[at - 1] !== null && position !== null ? between(pixel(x[at - 1], y[at - 1]), pixel(position, y[at])) : [])));
}

// Points every few pixels between two.
function between([ax, ay], [bx, by]) {
  const steps = Math.min(Math.ceil(Math.hypot(bx - ax, by - ay) / 12), ROOM_LINES);
  return Array.from({ length: steps }, (_, at) => [ax + ((bx - ax) * at) / steps, ay + ((by - ay) * at) / steps]);
}

function isSeen([px, py], [width, height]) {
  return px >= -1 && px <= width + 1 && py >= -1 && py <= height + 1;
}

// In the right margin at the height of its line; the next one keeps clear of it. A phone has no margin.
function inMargin(label, plane) {
  const at = plane.pixel(label.x, label.y)[1];
  if (plane.narrow || at < 0 || at > plane.size[1]) return null;
  const placed = Math.max(at, plane.bottom + 15 * label.lines.length);
  plane.bottom = placed;
  const lines = label.lines.map((line, place) => (place === 0 && label.is_bold ? `<b>${line}</b>` : line));
  return () => ({ x: 1, xref: "paper", xshift: 8, yshift: at - placed, xanchor: "left", yanchor: "middle", text: lines.join("<br>"), font: { size: 11.5, color: label.color } });
}

function atTop(label) {
  return () => ({ y: 1, yref: "paper", xanchor: "center", yanchor: "bottom", text: label.lines[0], font: { size: 11, color: label.color } });
}

// Along its line where that is farthest from any mark; nowhere where too little of the line is seen. On a phone the others than the first only where marks leave them room.
function alongLine(label, plane, labels) {
  const [start, stop] = [plane.pixel(label.x, label.y), plane.pixel(...label.toward)];
  const angle = Math.atan2(stop[1] - start[1], stop[0] - start[0]);
  const spots = Array.from({ length: 41 }, (_, at) => [start[0] + ((stop[0] - start[0]) * at) / 40, start[1] + ((stop[1] - start[1]) * at) / 40]).filter((spot) => isSeen(spot, plane.size));
  if (spots.length < 2 || Math.hypot(spots[0][0] - spots.at(-1)[0], spots[0][1] - spots.at(-1)[1]) < 150) return null;
  const half = [3 * label.lines[0].length * Math.cos(angle), 3 * label.lines[0].length * Math.sin(angle)];
  const lifted = ([x, y]) => [x + 10 * Math.sin(angle), y - 10 * Math.cos(angle)];
  const lettersAt = (spot) => [-1, -0.5, 0, 0.5, 1].map((share) => lifted(spot).map((at, axis) => at + share * half[axis]));
  const clear = (spot) => {
    const letters = lettersAt(spot);
    if (!letters.every((letter) => isSeen(letter, plane.size))) return -1;
    return [...plane.marks, ...plane.letters].reduce((least, [px, py]) => Math.min(least, ...letters.map(([lx, ly]) => Math.hypot(px - lx, py - ly))), 24);
  };
  const shares = [0.3, 0.38, 0.22, 0.46, 0.54, 0.62, 0.15, 0.7, 0.78, 0.86, 0.1].map((share) => spots[Math.round(share * (spots.length - 1))]);
  const [x, y] = shares.reduce((a, b) => (clear(b) > clear(a) + 1 ? b : a));
  const isFirst = labels.find((candidate) => candidate.place === "along") === label;
  if (plane.narrow && !isFirst && clear([x, y]) < 12) return null;
  plane.letters.push(...lettersAt([x, y]));
  const value = (axis, share) => axis.range[0] + share * (axis.range[1] - axis.range[0]);
  return (layout) => ({
    x: value(layout.xaxis, x / plane.size[0]), y: value(layout.yaxis, 1 - y / plane.size[1]), textangle: (angle * 180) / Math.PI, xanchor: "center", yanchor: "middle",
    xshift: 10 * Math.sin(angle), yshift: 10 * Math.cos(angle), text: label.lines[0], font: { size: plane.narrow ? 9.5 : 11, color: label.color },
  });
}

// Beside, below or above its mark, on the nearest side that is free, off all lines; nowhere where none is. The only one has its place anywhere: near, on few lines and fewer marks.
function aroundMark(label, plane, labels) {
  const isOnlyOne = labels.filter((candidate) => candidate.place === "around").length === 1; // others would be taken for each other's
  const [x, y] = plane.pixel(label.x, label.y);
  const long = label.lines[0].length * 6.4;
  const away = 5 + Math.max(...plane.taken.filter(([left, top, right, bottom]) => Math.abs(left + right - 2 * x) < 1 && Math.abs(top + bottom - 2 * y) < 1).map(([left, , right]) => (right - left) / 2), 0);
  const beside = [[away, 0, "left"], [-away, 0, "right"], [0, away + 7, "center"], [0, -away - 7, "center"], [away, 15, "left"], [away, -15, "left"], [-away, 15, "right"], [-away, -15, "right"]];
  const cellAt = ([across, down, anchor]) => {
    const left = x + across - (anchor === "right" ? long : anchor === "center" ? long / 2 : 0);
    return [left, y + down - 8, left + long, y + down + 8];
  };
  const isInside = (spot) => {
    const [left, top, right, bottom] = cellAt(spot);
    return left > 2 && right < plane.size[0] - 2 && top > 0 && bottom < plane.size[1];
  };
  const covered = (spot) => {
    const [left, top, right, bottom] = cellAt(spot);
    return plane.taken.filter((box) => right >= box[0] && left <= box[2] && bottom >= box[1] && top <= box[3]).length;
  };
  const crossings = (spot) => {
    const [left, top, right, bottom] = cellAt(spot);
    return plane.lines.filter(([px, py]) => px >= left && px <= right && py >= top && py <= bottom).length;
  };
  const cost = (spot) => 200 * covered(spot) + 12 * crossings(spot) + Math.hypot(spot[0], spot[1]);
  const cheapest = (spots) => spots.filter(isInside).map((spot) => [spot, cost(spot)]).reduce((best, next) => (next[1] < best[1] ? next : best), [null, Infinity])[0];
  const place = beside.filter((spot) => isInside(spot) && !covered(spot) && !crossings(spot))[0] ?? (isOnlyOne ? cheapest([...beside, ...everySpot(plane.size, long, [x, y])]) : null);
  if (!place) return null;
  plane.taken.push(cellAt(place));
  // From far away a thin line says which mark is meant.
  const [left, top, right, bottom] = cellAt(place);
  const isFar = Math.hypot(Math.max(left - x, x - right, 0), Math.max(top - y, y - bottom, 0)) > FAR;
  const middle = place[0] + ({ left: 0.5, center: 0, right: -0.5 }[place[2]] * long);
  const spot = isFar ? { showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: label.color, standoff: away, ax: middle, ay: place[1], xanchor: "center" } : { xanchor: place[2], xshift: place[0], yshift: -place[1] };
  return () => ({ ...(crossings(place) || covered(place) > 1 ? { bgcolor: plane.ground } : {}), ...spot, yanchor: "middle", text: label.lines[0], font: { size: 11.5, color: label.color } });
}

// Middles of a text all over the plane, as distances from a mark.
function everySpot([width, height], long, [x, y]) {
  const middles = Array.from({ length: Math.max(1, Math.ceil((width - long) / 24)) }, (_, at) => Math.min(4 + long / 2 + 24 * at, width - 4 - long / 2));
  return middles.flatMap((across) => Array.from({ length: Math.floor(height / 16) }, (_, at) => [across - x, 12 + 16 * at - y, "center"]));
}

// --- legend: a small drawing of each look, and its meaning

const DRAWN = {
  circle: "M2,6a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z", square: "M2.5,2.5h7v7h-7Z", diamond: "M6,1.5L10.5,6L6,10.5L1.5,6Z", plus: "M4.5,2h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5Z", cross: "M2,4l2-2l2,2l2-2l2,2l-2,2l2,2l-2,2l-2-2l-2,2l-2-2l2-2Z",
  up: "M6,2L10.5,10H1.5Z", down: "M6,10L10.5,2H1.5Z", pentagon: "M6,1.5l4.5,3.3l-1.7,5.2h-5.6l-1.7-5.2Z", hexagon: "M3.8,2h4.4l2.2,4l-2.2,4h-4.4l-2.2-4Z", left: "M2,6L10,1.5V10.5Z", right: "M10,6L2,1.5V10.5Z",
  star: "M6,1l1.5,3.2l3.5,.4l-2.6,2.4l.7,3.5l-3.1,-1.8l-3.1,1.8l.7,-3.5l-2.6,-2.4l3.5,-.4Z",
  dash: "M1,6H11", bar: "M6,1V11", "thin-plus": "M6,3V9M3,6H9", "thin-cross": "M4,4L8,8M8,4L4,8",
};
const STROKES = new Set(["dash", "bar", "thin-plus", "thin-cross"]);

/** Return the legend of a figure as entries with their drawing (`mark`), in the colours of the theme. */
export function legendOf(figure, isDark) {
  return painted(figure.legend, figure.palette, isDark).map((entry) => ({ ...entry, mark: legendMark(entry, painted(figure.ground, figure.palette, isDark)) }));
}

function legendMark(entry, ground) {
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const isLine = entry.kind === "line";
  const made = svg("svg", { viewBox: isLine ? "0 0 20 12" : "0 0 12 12", width: isLine ? 20 : entry.is_large ? 16 : 12, height: entry.is_large ? 16 : 12, "aria-hidden": "true" });
  const stroke = { stroke: entry.color, "stroke-width": entry.is_large ? 1.6 : 1.5 };
  if (isLine) made.append(svg("path", { d: "M0,6H20", fill: "none", ...stroke, "stroke-dasharray": entry.dash.map((length) => (length * 4) / 3).join(" ") }));
  else if (entry.kind === "swatch") {
    made.append(svg("rect", { x: 1, y: 1, width: 10, height: 10, rx: 2, fill: entry.color }));
    if (entry.is_hatched) made.append(svg("path", { d: "M1,7L7,1M1,11L11,1M5,11L11,5", stroke: ground, "stroke-width": 1.2 }));
  }
  else {
    const fill = STROKES.has(entry.shape) || entry.fill === "ring" ? "none" : entry.fill === "hollow" ? ground : entry.color;
    made.append(svg("path", { d: DRAWN[entry.shape], fill, ...stroke }));
    if (entry.sign) made.append(svg("path", { d: DRAWN[entry.sign], fill: "none", stroke: ground, "stroke-width": 1.4 }));
  }
  return made;
}
