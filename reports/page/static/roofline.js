// The dual roofline: lines are what the chip allows, hollow marks what is predicted, filled ones what was measured.
function selectionRing(chip, palette) {
  const marks = chip.roofline.data.filter((trace) => trace.mode === "markers" && trace.hoverinfo !== "skip" && trace.customdata.includes(chip.selected));
  const trace = marks.at(-1);
  if (!trace) return [];
  const at = trace.customdata.indexOf(chip.selected);
  return [{ type: "scatter", mode: "markers", hoverinfo: "skip", x: [trace.x[at]], y: [trace.y[at]], marker: { symbol: "circle-open", size: 26, color: palette.ink, line: { width: 2.5, color: palette.ink } } }];
}

function drawRoofline(chip, place) {
  const plot = el("div", { class: "figure tall", role: "img", "aria-label": fit(WORDS.roofline, { chip: chip.name }) });
  const card = el("div", { class: "selected", role: "status" });
  const legend = el("div", {});
  let ranges = null; // of a zoom

  function draw() {
    const passes = (key) => typeof key !== "number" || chip.filter.passing.has(key);
    return drawFigure(plot, chip.roofline, { isDark: isDark(), passes, ranges, extra: selectionRing(chip, inks()), layout: POINTED });
  }

  function select(number, isFromTable) {
    chip.selected = number;
    const row = chip.rows.find((candidate) => candidate.number === number);
    card.replaceChildren(...(row ? [...caseCard(row), button(WORDS.close, () => select(null), { class: "close" })] : []));
    card.classList.toggle("is-open", Boolean(row));
    draw();
    chip.selectWatchers.forEach((react) => react(row, isFromTable));
  }

  chip.select = select;
  place.append(plot, legend, card, chip.filter.element, toolbar("roofline", () => chip.filter.rows(), plot));
  const first = draw();
  explain(legend, () => chip.roofline);
  plot.on("plotly_hover", (event) => {
    const key = event.points[0].customdata;
    showTip(typeof key === "number" ? caseCard(chip.rows.find((candidate) => candidate.number === key)) : figureCard(chip.roofline.cards[key]), event.event);
  });
  plot.on("plotly_unhover", hideTip);
  plot.on("plotly_click", (event) => {
    const key = event.points[0].customdata;
    if (typeof key === "number") select(key);
  });
  plot.on("plotly_relayout", (event) => {
    if (event["xaxis.range[0]"] === undefined && !event["xaxis.autorange"] && event["yaxis.range[0]"] === undefined) return;
    ranges = event["xaxis.autorange"] ? null : { xaxis: [...plot.layout.xaxis.range], yaxis: [...plot.layout.yaxis.range] };
    draw();
  });
  plot.addEventListener("reset-zoom", () => {
    ranges = null;
    draw();
  });
  chip.filter.watch(draw);
  themeWatchers.push(draw);
  resized(plot, draw);
  return first;
}
