// The page: state → questions → answers → views. Every change asks anew, the first at once; overtaken answers are dropped.

import { adviceErrors, askChip, askCompared, askRecommendation, askTiling, focusedRow, withPick } from "./answers.js";
import { ApiProblem, get, keepToken } from "./api.js";
import { byId, fill, say } from "./dom.js";
import { startForm } from "./form.js";
import { counted } from "./numbers.js";
import { keepNames, OPERATORS, SLIDERS } from "./operators.js";
import { askReading, askVerdicts } from "./reading.js";
import { AUTO, nearestChips, resolved, startState } from "./state.js";
import { startTheme } from "./theme.js";
import { showAdvice, startStored } from "./views/advice.js";
import { showAnswer } from "./views/answer.js";
import { startBatches } from "./views/batches.js";
import { showCompare, startCompare } from "./views/compare.js";
import { showDetail } from "./views/detail.js";
import { startGpu } from "./views/gpu.js";
import { startMeasured } from "./views/measured.js";
import { showTake } from "./views/take.js";
import { drawRoofline, explain, isNarrow, redraw } from "./views/plot.js";
import { COMPARE, fit, FORM, PAGE } from "./words.js";

/** Between two questions while key follows key: the first is asked at once. */
const PAUSE_MS = 80;
/** A ranking that comes later (a model's, while the server is busy) is not waited for: until then no format is the best. */
const RANKING_WAIT_MS = 250;
const waited = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds, null));
/** A size that was just emptied is about to be typed: the answer stays so long before the page says that it is missing. */
const EMPTY_PAUSE_MS = 700;
/** While a slider is drawn along, the curves follow at this pace. */
const SLIDE_PAUSE_MS = 40;

async function start() {
  keepToken();
  let timer = null;
  let sliding = null;
  let askedAt = -Infinity;
  let controller = null;
  let last = null; // what is shown now: {state, main, focus}
  let views = null; // until the catalog is read
  startFolding();
  const store = startState((state, changed) => {
    if (views === null) return;
    if (last && changed.length && changed.every((name) => SLIDERS.includes(name))) {
      clearTimeout(sliding);
      sliding = setTimeout(() => slide(resolved(catalog, state)).catch(report), SLIDE_PAUSE_MS);
      return;
    }
    views.form.show(state);
    clearTimeout(timer);
    const pause = isBeingTyped(state) ? EMPTY_PAUSE_MS : askedAt + PAUSE_MS - performance.now();
    timer = setTimeout(() => refresh(state), Math.max(0, pause));
  });
  startTheme(byId("theme"), () => {
    if (last) draw();
    redraw();
  });
  startCopy();
  const catalog = await readCatalog();
  views = {
    form: startForm(store, catalog),
    compare: startCompare(store, catalog),
    measured: startMeasured(store, catalog),
    stored: startStored(catalog),
    batches: startBatches(store),
  };
  views.form.show(store.get());
  startGpu();
  views.measured.show(store.get());
  views.measured.loadRuns().then(() => {
    views.measured.show(store.get());
    return views.stored.show(store.get(), views.measured.chips());
  }, report);
  await refresh(store.get());

  /** Ask everything for a state and show it, the chosen chip first. */
  async function refresh(inAddress) {
    const state = resolved(catalog, inAddress);
    controller?.abort();
    controller = new AbortController();
    askedAt = performance.now();
    const { signal } = controller;
    const address = location.search;
    const results = byId("results");
    results.setAttribute("aria-busy", "true");
    try {
      const advice = askRecommendation(state, state.hw, signal);
      const cases = views.measured.loadCases(state, signal);
      advice.catch(() => {});
      cases.catch(() => {});
      const answers = await mainAnswer(state, signal);
      let isTaken = false;
      const picked = advice.then((ranking) => withPick(state, answers, ranking, signal));
      if (answers.rows.some((row) => !row.error)) {
        const show = (ranking) => {
          if (signal.aborted) return;
          isTaken = true;
          showTake(ranking);
        };
        advice.then(show, () => {}); // its first lines need nothing else
      }
      picked.catch(() => {});
      const soon = await Promise.race([picked, waited(RANKING_WAIT_MS)]);
      const first = soon ?? { ...answers, best: null };
      const [firstReading] = await Promise.all([read(state, first, signal), cases]);
      if (signal.aborted) return;
      say(byId("fault"), "");
      results.classList.remove("stale");
      if (Object.keys(answers.errors).length) byId("question").open = true; // the marked input is inside
      if (Object.keys(answers.errors).length) views.form.showErrors(answers.errors); // what else stands there goes with the ranking
      views.form.showNearest(answers.chip ? [] : nearestChips(catalog, answers.problem));
      views.compare(state);
      showMain(state, first, firstReading, soon !== null);
      if (last.focus && !isTaken) showTake(null);
      views.measured.show(state);
      const unlessOvertaken = (show) => (answer) => signal.aborted || show(answer);
      const [ranking, main] = await Promise.all([advice, picked]);
      const reading = soon === null ? await read(state, main, signal) : firstReading;
      if (signal.aborted) return;
      if (soon === null) showMain(state, main, reading, true);
      showAdvice(state.op, ranking);
      views.form.showErrors({ ...adviceErrors(state, ranking), ...main.errors });
      const { focus } = last;
      await Promise.all([
        (focus ? askTiling(state, main.chip, focus, signal) : Promise.resolve(null)).then(
          unlessOvertaken((tiling) => showDetail(focus, reading, tiling)),
        ),
        views.stored.show(state, views.measured.chips(), signal),
        views.batches.show(state, signal),
        askCompared(state, main, signal)
          .then(async (chips) => [chips, chips.length > 1 ? await askVerdicts(chips, focus, signal) : []])
          .then(unlessOvertaken(([chips, sentences]) => showCompare(chips, sentences, store, catalog))),
        draw(),
      ]);
      if (signal.aborted) return;
      results.setAttribute("aria-busy", "false");
      results.dataset.drawn = address;
    } catch (error) {
      if (error.name !== "AbortError") report(error);
    }
  }

  /** Hold the curves against other limits of time; everything else stays. */
  async function slide(state) {
    byId("results").setAttribute("aria-busy", "true");
    await views.batches.show(state, controller.signal);
    byId("results").dataset.drawn = location.search;
    byId("results").setAttribute("aria-busy", "false");
  }

  /** Show the answer of the chosen chip: its sentence, figures and table. */
  function showMain(state, main, reading, isRanked) {
    const measured = views.measured.fastest(state);
    const focus = showAnswer(state, main, reading, store, measured, isRanked);
    last = { state, main, focus };
    say(byId("asked"), focus ? fit(FORM.asked, { question: OPERATORS[state.op].title(focus.answer), chip: main.chip.name }) : FORM.change);
    document.title = focus ? fit(PAGE.titled, { question: byId("answer-title").textContent }) : PAGE.title;
  }

  async function draw() {
    const { state, main, focus } = last;
    const place = byId("plot");
    const cases = views.measured.overlay(state);
    const label = focus
      ? fit(PAGE.plot, { chip: main.chip.name, headline: byId("headline").textContent })
      : "";
    try {
      if (!focus && !cases.length) {
        place.hidden = true;
        fill(byId("plot-key"));
        say(byId("plot-note"), PAGE.noPlot);
      } else {
        place.hidden = false;
        place.setAttribute("role", "img");
        place.setAttribute("aria-label", label);
        const measured = cases.length ? views.measured.question(state) : null;
        explain(byId("plot-key"), await drawRoofline(place, { rows: main.rows, focus, measured }, (key) => pick(key, state)));
        say(byId("plot-note"), note(main, cases));
      }
      await views.measured.draw(state);
    } catch (error) {
      say(byId("plot-note"), error.message);
    }
  }

  function pick(key, state) {
    if (key.startsWith("case:")) {
      views.measured.pick(key, state);
    } else store.set({ focus: key });
  }
}

/** Return what the server says of the row that the page is about; null where there is none. */
const read = (state, main, signal) => askReading(state, focusedRow(main, state.focus), Boolean(main.misfit), signal);

/** Return whether the field that has the focus is a size that must not be empty, and is. */
function isBeingTyped(state) {
  const name = document.activeElement?.name;
  const field = OPERATORS[state.op].fields.find((input) => input.name === name && input.kind === "size" && !input.optional);
  return field !== undefined && state[name].trim() === "";
}

/** An unknown chip is an error of its field, not of the page. */
async function mainAnswer(state, signal) {
  try {
    return await askChip(state, state.hw, signal);
  } catch (problem) {
    if (!(problem instanceof ApiProblem) || (problem.fields.length === 0 && problem.status !== 404)) throw problem;
    const error = problem.status === 404 && state.hw !== AUTO ? fit(COMPARE.unknown, { name: state.hw }) : problem.message;
    return { key: state.hw, chip: null, rows: [], errors: { hw: error }, problem };
  }
}

function note(main, cases) {
  const left = main.rows.filter((row) => row.error).map((row) => row.label);
  return [
    isNarrow() ? PAGE.tap : PAGE.drag,
    cases.length ? fit(PAGE.cases, { cases: counted(cases.length, "measured case") }) : "",
    left.length ? fit(PAGE.notDrawn, { chip: main.chip.name, formats: left.join(", ") }) : "",
  ]
    .filter(Boolean)
    .join(" ");
}

async function readCatalog() {
  const [hardware, formats, models, names] = await Promise.all([
    get("api/hardware"),
    get("api/formats"),
    get("api/models"),
    get("api/explorer/names"),
  ]);
  keepNames(names);
  return {
    hardware: hardware.hardware,
    thisMachine: hardware.this_machine,
    formats: formats.formats,
    models: models.models,
  };
}

/** Beside the answer the form is always open; over it, on a narrow page, it is one line until somebody opens it. */
function startFolding() {
  const wide = window.matchMedia("(min-width: 62.01rem)");
  const follow = () => {
    byId("question").open = wide.matches;
  };
  wide.addEventListener("change", follow);
  follow();
}

function startCopy() {
  byId("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say(byId("copied"), PAGE.copied);
    } catch {
      say(byId("copied"), PAGE.copyYourself);
    }
    setTimeout(() => say(byId("copied"), ""), 3000);
  });
}

/** Say what stopped the page; a wrong token has its own way out. */
function report(error) {
  const isToken = error instanceof ApiProblem && error.status === 401;
  say(
    byId("fault"),
    isToken ? PAGE.token : error.message,
  );
  byId("results").classList.add("stale"); // what stands there was asked before
  byId("results").setAttribute("aria-busy", "false");
}

start().catch(report);
