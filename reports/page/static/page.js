// Builds what is live in front of what is still: a part that cannot be built leaves its static figure or table in place.
const chips = DATA.chips.map((chip) => ({ ...chip, rows: unpacked(chip.cases), samples: (chip.samples.series || []).map((sample) => ({ ...sample, samples_s: floats(sample.samples_s), figure: overlaid(chip.samples.figure, sample.figure) })), pareto: chip.pareto.map((front) => ({ ...front, points: unpacked(front.points), figure: { ...chip.pareto[0].figure, ...front.figure } })), selected: null, selectWatchers: [] }));

function build(place) {
  const kind = place.dataset.live;
  const chip = chips[Number(place.dataset.chip || 0)];
  if (kind === "roofline") {
    drawRoofline(chip, place);
    chip.plot = place.querySelector(".figure");
  } else if (kind === "cases") caseTable(chip, place, fit(WORDS.allCases, { chip: chip.name }));
  else if (kind === "errors") drawErrors(chip, place);
  else if (kind === "pareto") drawPareto(chip, place);
  else if (kind === "samples") drawSamples(chip, place);
  else if (kind === "gaps") drawGaps(chip, place);
  else if (kind === "timeline") drawTimeline(place);
  else if (kind === "history") drawHistories(place);
}

function start() {
  document.querySelector("header").append(themeSwitch());
  document.body.append(tip);
  for (const chip of chips) {
    chip.filter = caseFilter(chip);
    chip.select = () => {};
  }
  const places = [...document.querySelectorAll("[data-live]")];
  const attempt = (place) => {
    place.parentElement.classList.add("is-live"); // before it is drawn: a hidden place has no width
    try {
      build(place);
    } catch (error) {
      place.replaceChildren();
      place.parentElement.classList.remove("is-live");
      console.error(error);
    }
  };
  const now = new Set(["roofline", "cases"]);
  places.filter((place) => now.has(place.dataset.live)).forEach(attempt);
  // What is farther down is drawn when somebody comes near it, or when the browser has nothing else to do.
  const later = new Set(places.filter((place) => !now.has(place.dataset.live)));
  const draw = (place) => {
    watcher.unobserve(place);
    if (later.delete(place)) attempt(place);
  };
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)), { rootMargin: "600px" });
  later.forEach((place) => {
    place.parentElement.classList.add("is-live");
    watcher.observe(place);
  });
  const whenIdle = window.requestIdleCallback || ((react) => setTimeout(react, 200));
  const drawNext = () => {
    const [next] = later;
    if (!next) return;
    draw(next);
    whenIdle(drawNext);
  };
  if (chips.every((chip) => chip.rows.length <= SVG_LIMIT)) whenIdle(drawNext);
  document.querySelectorAll(".scroll").forEach(fadeWhereMore);
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#case-"]');
    if (!link) return;
    const number = Number(link.getAttribute("href").slice(6));
    const chip = chips.find((candidate) => candidate.reveal && candidate.rows.some((row) => row.number === number));
    if (!chip) return;
    event.preventDefault();
    chip.reveal(number);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  addEventListener("scroll", hideTip, { passive: true });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
