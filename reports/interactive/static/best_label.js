// The name of the best configuration beside a wide plot: the box covers no mark, and its line to the mark crosses none.
const LABEL_COLUMNS = 30;
const LABEL_ROWS = 24; // places that are tried
const MARK_AIR = 9; // pixels around a mark that stay free
const MOST_MARKS = 400;

// Pixels between a point and the line from one place to another.
function awayFrom([px, py], [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const along = Math.min(Math.max(((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1), 0), 1);
  return Math.hypot(px - ax - along * dx, py - ay - along * dy);
}

// Points every few pixels along the roofs and slopes: what a label covers only where there is no better place.
function lineSpots(chip, ranges, pixel) {
  const view = chip.roofline;
  const spots = [];
  const at = (x, y) => spots.push(pixel(x, y));
  const steps = Array.from({ length: 60 }, (_, step) => ranges.x[0] + ((ranges.x[1] - ranges.x[0]) * step) / 59);
  const slopes = [view.memory_bandwidth_bytes_per_s, ...view.levels.map((level) => level.bandwidth_bytes_per_s)].filter(Boolean);
  for (const x of steps) {
    for (const slope of slopes) at(x, x + Math.log10(slope / view.unit_flops_per_s));
    for (const roof of view.roofs) if (10 ** x >= roof.ridge_flop_per_byte) at(x, Math.log10(roof.peak_flops_per_s / view.unit_flops_per_s));
  }
  return spots;
}

// Where a line from the middle of a box leaves the box towards a target.
function edgeOf([cx, cy], half, [tx, ty]) {
  const share = 1 / Math.max(Math.abs(tx - cx) / half[0], Math.abs(ty - cy) / half[1], 1);
  return [cx + (tx - cx) * share, cy + (ty - cy) * share];
}

// The places for a box, the nearest first: once its way alone costs more than the best place, no farther one is better.
function labelPlaces(target, half, size) {
  const places = [];
  for (let column = 0; column <= LABEL_COLUMNS; column += 1) {
    for (let row = 0; row <= LABEL_ROWS; row += 1) {
      const place = [half[0] + 4 + ((size[0] - 2 * half[0] - 8) * column) / LABEL_COLUMNS, half[1] + 4 + ((size[1] - 2 * half[1] - 8) * row) / LABEL_ROWS];
      const isClear = Math.abs(place[0] - target[0]) >= half[0] + 22 || Math.abs(place[1] - target[1]) >= half[1] + 22;
      if (isClear) places.push({ place, away: Math.hypot(place[0] - target[0], place[1] - target[1]) });
    }
  }
  return places.sort((a, b) => a.away - b.away);
}

function bestPlace(target, half, size, marks, lines) {
  const others = marks.filter(([px, py]) => Math.hypot(px - target[0], py - target[1]) > 5);
  const covers = (spots, [cx, cy], air) => spots.filter(([px, py]) => Math.abs(px - cx) < half[0] + air && Math.abs(py - cy) < half[1] + air).length;
  let best = null;
  for (const { place, away } of labelPlaces(target, half, size)) {
    if (best && away >= best.cost) break;
    const edge = edgeOf(place, half, target);
    const crossed = others.filter((spot) => awayFrom(spot, edge, target) < MARK_AIR).length;
    const cost = 400 * covers(marks, place, MARK_AIR) + 150 * crossed + 12 * covers(lines, place, 3) + away;
    if (!best || cost < best.cost) best = { cost, place };
  }
  return best && best.place;
}

function bestLabel(chip, rows, ranges, palette, plot) {
  const top = chip.roofline.highlight;
  if (!top || isNarrow(plot)) return [];
  const margin = plotMargin(plot);
  const x = Math.log10(top.intensity_flop_per_byte);
  const y = Math.log10(top.rate_flops_per_s / chip.roofline.unit_flops_per_s);
  if (x < ranges.x[0] || x > ranges.x[1] || y < ranges.y[0] || y > ranges.y[1]) return [];
  const size = [plot.clientWidth - margin.l - margin.r, plot.clientHeight - margin.t - margin.b];
  const pixel = (px, py) => [((px - ranges.x[0]) / (ranges.x[1] - ranges.x[0])) * size[0], ((ranges.y[1] - py) / (ranges.y[1] - ranges.y[0])) * size[1]];
  const target = pixel(x, y);
  const spots = pointSpots(chip, rows);
  const every = Math.ceil(spots.length / MOST_MARKS); // of very many, a part tells where they are
  const marks = spots.filter((_, at) => at % every === 0).map(([px, py]) => pixel(px, py));
  const half = [8 + 3.4 * Math.max(...top.lines.map((line) => line.length)), 8 + 8 * top.lines.length];
  const place = bestPlace(target, half, size, marks, lineSpots(chip, ranges, pixel));
  if (!place) return [];
  return [{
    x, y, xref: "x", yref: "y", ax: place[0] - target[0], ay: place[1] - target[1], axref: "pixel", ayref: "pixel", align: "left",
    text: top.lines.map(plain).join("<br>"), font: { size: 11.5, color: palette.accent }, bgcolor: palette.surface, bordercolor: palette.accent, borderwidth: 1, borderpad: 6,
    showarrow: true, arrowhead: 2, arrowsize: 0.9, arrowwidth: 1.2, arrowcolor: palette.accent, standoff: 13,
  }];
}
