// The run over time: power, clock and temperature, the interval of each case, and where the clock was held down.
const SPAN_VALUES = {
  power_w: (value) => show.watts(value),
  clock_hz: (value) => scaled(value, "Hz", 4, "", "G"),
  temperature_c: (value) => `${significant(value, 3)} °C`,
  energy_j: (value) => show.energy(value),
};

function timelineSpans(timeline) {
  const rows = new Map(chips.flatMap((chip) => chip.rows.map((row) => [row.number, [chip, row]])));
  return timeline.spans.map((cells) => {
    const span = Object.fromEntries(timeline.columns.map((name, at) => [name, cells[at]]));
    const [chip, row] = rows.get(span.ordinal);
    return { ...span, chip, row };
  });
}

function spanCard(timeline, span) {
  const steps = Object.keys(SPAN_VALUES).filter((name) => isKnown(span[name])).map((name) => [FACTS[name === "clock_hz" ? `${timeline.has_sm_clock ? "sm" : "cpu"}_clock_hz` : name], SPAN_VALUES[name](span[name]), span[name]]);
  const clock = SPAN_VALUES.clock_hz;
  const facts = [
    timeline.has_time_axis ? [FACTS.begin_s, fit(WORDS.sinceBegin, { begin: show.time(span.begin_s, 4), end: show.time(span.end_s, 4) })] : null,
    ...steps,
    isKnown(span.idle_power_w) ? [FACTS.idle_power_w, show.watts(span.idle_power_w), span.idle_power_w] : null,
    isKnown(span.clock_low_hz) ? [FACTS.clock_low_hz, fit(WORDS.span, { low: clock(span.clock_low_hz), high: clock(span.clock_high_hz) })] : null,
    isKnown(span.rated_clock_hz) ? [FACTS.rated_clock_hz, clock(span.rated_clock_hz), span.rated_clock_hz] : null,
    span.throttled_text !== "–" ? [FACTS.throttled_text, span.throttled_text] : null,
    isKnown(span.row.measured_s) ? [FACTS.measured_s, show.time(span.row.measured_s), span.row.measured_s] : null,
  ].filter(Boolean);
  return [el("p", { class: "card-title" }, el("strong", {}, span.row.name), span.row.process_count > 1 ? fit(WORDS.process, { number: span.process }) : null), factList(facts)];
}

function drawTimeline(place) {
  const timeline = DATA.timeline;
  const notes = timeline.notes.map((text) => el("p", { class: "quiet" }, text));
  if (!timeline.figure) {
    place.append(...notes);
    return;
  }
  const spans = timelineSpans(timeline);
  const box = el("div", {});
  const legend = el("div", {});
  place.append(legend, box, ...notes);
  const data = () => spans.map(({ chip, row, ...span }) => ({ case: row.name, ...span }));
  const made = drawnFigure(box, "timeline", WORDS.timeline, data, () => timeline.figure, "bars");
  explain(legend, () => timeline.figure);
  made.plot.on("plotly_hover", (event) => {
    const key = event.points[0].customdata;
    if (spans[key]) showTip(spanCard(timeline, spans[key]), event.event);
    else if (timeline.figure.cards[key]) showTip(figureCard(timeline.figure.cards[key]), event.event);
  });
  made.plot.on("plotly_click", (event) => {
    const span = spans[event.points[0].customdata];
    if (span) toRow(span.chip, span.ordinal);
  });
}
