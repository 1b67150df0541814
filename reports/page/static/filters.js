// Which cases are shown: by operator, format, phase, bound, cache state; nothing pressed is no restriction. Figures and table follow.
const FACETS = DATA.facets;

function caseFilter(chip) {
  const pressed = Object.fromEntries(FACETS.map(([key]) => [key, new Set()]));
  const watchers = [];
  const filter = {
    watch: (react) => watchers.push(react),
    passes: (row) => FACETS.every(([key]) => !pressed[key].size || pressed[key].has(row[key])),
    rows: () => chip.rows.filter(filter.passes),
    passing: new Set(), // the numbers of the cases that pass
    clear: () => {
      for (const key of Object.keys(pressed)) pressed[key].clear();
      buttons.forEach((pill) => pill.setAttribute("aria-pressed", "false"));
      changed();
    },
  };
  const buttons = [];
  const status = el("p", { class: "quiet shown", role: "status" });
  const reset = button(WORDS.showAll, filter.clear, { class: "reset" });

  function changed() {
    filter.passing = new Set(filter.rows().map((row) => row.number));
    const count = filter.passing.size;
    status.textContent = fit(WORDS.shown, { count: show.count(count), total: show.count(chip.rows.length) });
    reset.hidden = !FACETS.some(([key]) => pressed[key].size);
    watchers.forEach((react) => react());
  }

  function facet(key, title) {
    const counts = new Map();
    chip.rows.forEach((row) => counts.set(row[key], (counts.get(row[key]) || 0) + 1));
    if (counts.size < 2) return null;
    const box = el("div", { class: "facet", role: "group", "aria-label": fit(WORDS.filterBy, { facet: title.toLowerCase() }) }, el("span", { class: "facet-name" }, title));
    for (const [value, count] of counts) {
      const pill = button("", () => {
        if (!pressed[key].delete(value)) pressed[key].add(value);
        pill.setAttribute("aria-pressed", String(pressed[key].has(value)));
        changed();
      }, { class: "pill", "aria-pressed": "false", "data-value": value });
      if (key === "format") pill.append(swatch(chip, value));
      if (key === "op") pill.append(marker(chip, value));
      pill.append(el("span", { class: "pill-name" }, value || "–"), el("span", { class: "pill-count" }, show.count(count)));
      buttons.push(pill);
      box.append(pill);
    }
    return box;
  }

  const facets = FACETS.map(([key, title]) => facet(key, title)).filter(Boolean);
  const folded = el("details", { class: "filters", open: false }, el("summary", {}, WORDS.filter), el("div", { class: "facets" }, facets));
  filter.element = el("div", { class: "filter" }, facets.length ? folded : null, el("div", { class: "facet" }, status, reset));
  changed();
  return filter;
}

function swatch(chip, format) {
  const made = el("span", { class: "swatch", "aria-hidden": "true" });
  const paint = () => {
    const pair = chip.colours[format];
    made.style.background = pair ? ink(pair) : "transparent";
  };
  themeWatchers.push(paint);
  paint();
  return made;
}

const GLYPHS = { circle: "●", square: "■", diamond: "◆", plus: "✚", cross: "✖", up: "▲", down: "▼", pentagon: "⬟", hexagon: "⬢", left: "◀", right: "▶", star: "★" };

function marker(chip, op) {
  return el("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[chip.shapes[op]] || "●");
}
