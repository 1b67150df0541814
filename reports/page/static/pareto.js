// Speed against loss, memory or energy: the figure of the question and of the two axes that are chosen, its table and its notes.
function axisButtons(legend, options, state, key, react) {
  const made = el("div", { class: "facet", role: "group", "aria-label": legend }, el("span", { class: "facet-name" }, legend));
  const buttons = options.map(({ key: value, text }) => button(text, () => {
    state[key] = value;
    react();
  }, { class: "pill", "data-value": value }));
  made.append(...buttons);
  return { element: made, update: (isUsable) => buttons.forEach((option) => {
    option.setAttribute("aria-pressed", String(option.dataset.value === state[key]));
    option.hidden = !isUsable(option.dataset.value);
  }) };
}

const PARETO_COLUMNS = ["label", "time_source", "time_s", "speedup_ratio", "speedup_basis", "loss_pct", "loss_low_pct", "loss_high_pct", "loss_source", "loss_text", "memory_bytes", "energy_j", "is_best", "is_doubtful", "is_on_front"];
const PARETO_NUMBERS = ["time_s", "speedup_ratio", "loss_pct", "memory_bytes", "energy_j"]; // in the order of a point's texts

function drawPareto(chip, place) {
  const groups = chip.pareto;
  const state = { at: Math.max(groups.findIndex((group) => group.points.some((point) => point.loss_source === "measured")), 0), x: "", y: "" };
  const group = () => groups[state.at];
  const every = (name) => [...new Map(groups.flatMap((member) => member[name]).map((axis) => [axis.key, axis])).values()];
  const box = el("div", {});
  const legend = el("div", {});
  const table = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": WORDS.points });
  const note = el("p", { class: "quiet", role: "status" });
  const rows = () => group().points.map((point) => ({ question: group().title, origin: group().origin, baseline: group().baseline, baseline_doubts: group().baseline_doubts.join(" "), energy_per: group().per, ...Object.fromEntries(PARETO_COLUMNS.map((name) => [name, point[name]])) }));
  const choose = () => {
    for (const name of ["x", "y"]) if (!group()[`${name}_axes`].some((axis) => axis.key === state[name])) state[name] = group()[`${name}_axes`][0].key;
  };
  choose();
  const drawn = () => overlaid(group().figure, group().figures[`${state.x}|${state.y}`]);
  const made = drawnFigure(box, "pareto", WORDS.pareto, rows, drawn, "tall");
  const update = () => {
    choose();
    across.update((key) => group().x_axes.some((axis) => axis.key === key));
    up.update((key) => group().y_axes.some((axis) => axis.key === key));
    made.redraw();
    note.textContent = drawn().notes.join(" ");
    table.replaceChildren(paretoTable(group(), state));
  };
  const across = axisButtons(WORDS.across, every("x_axes"), state, "x", update);
  const up = axisButtons(WORDS.upwards, every("y_axes"), state, "y", update);
  if (groups.length > 1) {
    const pick = choice(WORDS.question, groups.map((member, at) => [at, member.choice]), (value) => {
      state.at = Number(value);
      update();
    });
    pick.select.value = state.at;
    place.append(pick.element);
  } else place.append(el("p", { class: "quiet" }, groups[0].title));
  place.append(
    el("div", { class: "pareto-axes" }, across.element, up.element), ...box.childNodes,
    legend, note, el("details", {}, el("summary", {}, WORDS.pointTable), table),
  );
  explain(legend, drawn);
  update();
  const pointAt = (event) => group().points[Number(event.points[0].customdata.split(":")[1])];
  made.plot.on("plotly_hover", (event) => showTip(figureCard(drawn().cards[event.points[0].customdata]), event.event));
  made.plot.on("plotly_click", (event) => {
    const { number } = pointAt(event);
    if (isKnown(number)) chip.select(number);
  });
}

function paretoTable(group, state) {
  const { labels } = group;
  const columns = [labels.label, labels.time_s, labels.time_source, ...PARETO_NUMBERS.slice(1).map((key) => labels[key]), group.y_axes.find((axis) => axis.key === state.y).front, labels.is_on_front];
  const tick = (isSo) => el("td", {}, isSo ? "✓" : "–");
  const body = group.points.map((point) => {
    const [time, ...others] = PARETO_NUMBERS.map((key, at) => el("td", { class: "n", "data-value": point[key] }, point.texts[at]));
    const name = isKnown(point.number) ? el("a", { href: `#case-${point.number}` }, point.label) : point.label;
    return el("tr", { class: point.is_best ? "best" : null }, el("th", { scope: "row" }, name), time, el("td", {}, point.time_source), others, tick(point.fronts.includes(state.y)), tick(point.is_on_front));
  });
  return el("table", {}, el("caption", {}, group.title), el("thead", {}, el("tr", {}, columns.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, body));
}
