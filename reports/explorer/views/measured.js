// Runs of the database: choose one, see its measured points on the roofline, and follow them to the report.

import { ApiProblem, ask, get, hasToken } from "../api.js";
import { byId, el, fill, number, options, withCode } from "../dom.js";
import { counted, count, flopRate, interval, MISSING, moment, percent, signedPercent, time } from "../numbers.js";
import { pairKey, typed } from "../operators.js";
import { drawOther, drawRoofline } from "./plot.js";
import { chipOf } from "../state.js";
import { fit, MEASURED, TABLE } from "../words.js";

const MOST_RUNS = 100;
const MOST_CASES = 500;

/** Return {load, cases, draw}: the runs once, the cases of the chosen run, and their own figure. */
export function startMeasured(store, catalog) {
  let runs = null;
  let listProblem = null;
  let chosenRun = null; // {run, page, cases} of the chosen run
  let caseProblem = null;
  let fastest = {}; // format → the fastest case of the product asked for, as the server picks it
  let shownQuestion = "";
  let picked = null;
  let drawn = null;

  async function loadRuns() {
    try {
      if ((await get("api/health")).has_database === false) // null: not known yet, so ask
        listProblem = new ApiProblem(
          404,
          MEASURED.noDatabase,
        );
      else runs = await get(`api/runs?limit=${MOST_RUNS}`);
    } catch (problem) {
      if (!(problem instanceof ApiProblem)) throw problem;
      listProblem = problem;
    }
  }

  async function loadCases(state, signal) {
    await loadRun(state, signal);
    fastest = chosenRun === null ? {} : await askFastest(chosenRun.run.run_id, state, signal);
  }

  async function loadRun(state, signal) {
    const wanted = JSON.stringify([state.run, state.words]);
    if (wanted === shownQuestion) return;
    let [cases, refused] = [null, null]; // kept apart until they are here: an overtaken question changes nothing
    if (state.run !== "") {
      const words = state.words.trim() ? `&words=${encodeURIComponent(state.words.trim())}` : "";
      try {
        cases = await get(
          `api/runs/${encodeURIComponent(state.run)}/cases?limit=${MOST_CASES}&status=measured${words}`,
          signal,
        );
      } catch (problem) {
        if (!(problem instanceof ApiProblem)) throw problem;
        refused = problem;
      }
    }
    [chosenRun, caseProblem, shownQuestion, picked] = [cases, refused, wanted, null];
  }

  function show(state) {
    const place = byId("measured");
    const about = JSON.stringify([state.run, state.words, state.hw, runs !== null, shownQuestion, listProblem?.message]);
    if (about === drawn) return showPicked(state); // what stands there is about this very state: tables stay open
    drawn = about;
    const hadFocus = place.contains(document.activeElement) ? document.activeElement.id : null;
    const caret = hadFocus === "words" ? byId("words").selectionStart : null;
    if (listProblem) return fill(place, el("p", {}, withCode(listProblem.message)));
    if (runs === null) return fill(place, el("p", { class: "quiet" }, MEASURED.reading));
    if (runs.runs.length === 0 && state.run === "") {
      return fill(
        place,
        el("p", {}, withCode(MEASURED.noRun)),
      );
    }
    fill(
      place,
      controls(state),
      caseProblem ? el("p", { class: "error" }, caseProblem.message) : null,
      chosenRun
        ? results(state)
        : state.run === ""
          ? el(
              "p",
              { class: "quiet" },
              fit(MEASURED.runs, {
                runs: counted(runs.runs.length, "run"),
                chips: [...new Set(runs.runs.map((run) => run.hardware))].join(", "),
              }),
            )
          : null,
    );
    showPicked(state);
    if (hadFocus) byId(hadFocus)?.focus();
    if (caret !== null) byId("words")?.setSelectionRange(caret, caret);
  }

  /** Whether the chosen run was measured on the chosen chip. */
  const isOfChip = (state) => chosenRun !== null && chosenRun.run.hardware === (chipOf(catalog, state.hw)?.key ?? state.hw);

  /** Under the plot that has the point: the main one, or that of a run of another chip. */
  function showPicked(state) {
    const isHere = isOfChip(state);
    const card = picked ? caseCard(picked, chosenRun.run) : [];
    fill(byId("picked"), isHere ? card : []);
    if (byId("picked-here")) fill(byId("picked-here"), isHere ? [] : card);
  }

  function controls(state) {
    const named = runs.runs.map((run) => [
      run.run_id,
      `${moment(run.started_at)} · ${run.hardware} · ${run.label || run.run_id.slice(0, 8)}${run.status === "complete" ? "" : ` (${run.status})`}`,
    ]);
    const name = chosenRun ? chosenRun.run.run_id : state.run; // a link may name a run by label or prefix
    const isListed = name === "" || runs.runs.some((run) => run.run_id === name);
    const choices = [["", MEASURED.none], ...(isListed ? [] : [[name, name]]), ...named];
    const select = el(
      "select",
      { id: "run", onchange: () => store.set({ run: select.value, words: "" }) },
      options(choices, name),
    );
    const words = el("input", {
      id: "words",
      type: "search",
      value: state.words,
      maxlength: "200",
      placeholder: MEASURED.example,
      oninput: () => store.set({ words: words.value }, { typing: true }),
    });
    return el(
      "div",
      { class: "row" },
      el("div", { class: "field wide" }, el("label", { for: "run" }, MEASURED.run), select),
      state.run === "" ? null : el("div", { class: "field" }, el("label", { for: "words" }, MEASURED.only), words),
    );
  }

  function results(state) {
    const { run, page, cases } = chosenRun;
    const here = isOfChip(state);
    const total = counted(page.total_count, "measured case");
    if (cases.length === 0)
      return [
        runLine(run),
        el(
          "p",
          {},
          state.words ? MEASURED.noMatch : MEASURED.nothing,
        ),
      ];
    return [
      runLine(run),
      el(
        "p",
        { class: "quiet" },
        fit(page.total_count > cases.length ? MEASURED.first : MEASURED.all, { total, count: count(cases.length) }),
        " ",
        fit(here ? MEASURED.above : MEASURED.elsewhere, {
          measuredOn: run.hardware,
          chip: chipOf(catalog, state.hw)?.key ?? state.hw,
        }),
      ),
      cases.some((stored) => stored.flags.includes("simulated"))
        ? el("p", { class: "notice" }, MEASURED.simulated)
        : null,
      here
        ? null
        : el("div", {
            class: "plot",
            id: "measured-plot",
            role: "img",
            "aria-label": fit(MEASURED.plot, { chip: run.hardware, total }),
          }),
      here ? null : el("div", { id: "picked-here", role: "status" }),
      caseTable(cases, run),
      figureChoice(run),
    ];
  }

  const question = (state) => ({ run: chosenRun.run.run_id, words: state.words.trim() });

  return {
    loadRuns,
    loadCases,
    show,
    /** Measured cases that belong over the roofs of the chosen chip. */
    overlay: (state) => (isOfChip(state) ? chosenRun.cases : []),
    /** The question that these cases answer. */
    question,
    /** The fastest case of that very product, by format of the page. */
    fastest: (state) => (isOfChip(state) ? fastest : {}),
    /** Chips that runs are stored of. */
    chips: () => [...new Set((runs?.runs ?? []).map((run) => run.hardware))],
    pick(key, state) {
      picked = chosenRun?.cases.find((stored) => `case:${stored.case_key}` === key) ?? null;
      showPicked(state);
    },
    async draw(state) {
      const place = byId("measured-plot");
      if (place && chosenRun)
        await drawRoofline(place, { rows: [], focus: null, measured: question(state) }, (key) => {
          this.pick(key, state);
          this.draw(state);
        });
    },
  };
}

/** Ask for the fastest measured case of the product asked for, by format; none of what is no product. */
async function askFastest(run, state, signal) {
  const sizes = Object.fromEntries(["M", "N", "K"].map((name) => [name, typed(state[name])]));
  if (state.op !== "product" || !Object.values(sizes).every(Number.isInteger)) return {};
  try {
    const query = new URLSearchParams({ ...sizes, cache: state.cache });
    const { cases } = await get(`api/runs/${encodeURIComponent(run)}/fastest?${query}`, signal);
    return Object.fromEntries(cases.map((fast) => [pairKey(fast.formats.b, fast.formats.a), fast]));
  } catch (problem) {
    if (!(problem instanceof ApiProblem)) throw problem;
    return {}; // the form says what is wrong with a size
  }
}

/** Return the choice among the figures of a run's report, and the place where one is drawn. */
function figureChoice(run) {
  const path = `api/runs/${encodeURIComponent(run.run_id)}/figures`;
  const select = el("select", { id: "run-figure" }, options([["", MEASURED.noFigure]], ""));
  const place = el("div", {});
  const fault = (problem) => {
    if (!(problem instanceof ApiProblem)) throw problem;
    fill(place, el("p", { class: "error" }, problem.message));
  };
  select.addEventListener("change", async () => {
    if (select.value === "") return fill(place);
    try {
      const { alternative, figure } = await get(`${path}/${encodeURIComponent(select.value)}`);
      const plot = el("div", { class: "plot", role: "img", "aria-label": alternative });
      const key = el("p", { class: "quiet", id: "run-figure-key" });
      fill(place, plot, key);
      await drawOther(plot, key, figure);
    } catch (problem) {
      fault(problem);
    }
  });
  get(path).then(({ figures }) => {
    const planes = figures.filter(({ kind }) => kind === "plane").map(({ name, title }) => [name, title]);
    fill(select, options([["", MEASURED.noFigure], ...planes], ""));
  }, fault);
  return [el("div", { class: "field" }, el("label", { for: "run-figure" }, MEASURED.figure), select), place];
}

function runLine(run) {
  const facts = [
    run.label || MEASURED.noLabel,
    run.hardware,
    run.machine,
    moment(run.started_at),
    run.git_branch,
    run.status === "complete" ? null : run.status,
    run.is_forced ? MEASURED.forced : null,
  ];
  return el("p", { class: "run-line" }, facts.filter(Boolean).join(" · "), " · ", reportLink(run));
}

function reportLink(run) {
  const path = `api/runs/${encodeURIComponent(run.run_id)}/report`;
  if (!hasToken()) return el("a", { href: path, target: "_blank", rel: "noopener" }, MEASURED.report);
  // A link cannot send the token: the report comes as a file.
  return el(
    "button",
    {
      type: "button",
      class: "small",
      onclick: async () => {
        const address = URL.createObjectURL(await (await ask(path)).blob());
        el("a", { href: address, download: `report-${run.run_id.slice(0, 8)}.html` }).click();
        URL.revokeObjectURL(address);
      },
    },
    MEASURED.download,
  );
}

function caseCard(stored, run) {
  const facts = [
    [
      TABLE.measured,
      number(stored.measured_s, time(stored.measured_s)),
      stored.interval_half_width_ratio === null ? "" : `± ${percent(stored.interval_half_width_ratio, 1)}`,
    ],
    [
      TABLE.expected,
      stored.expected_s === null ? MISSING : number(stored.expected_s, time(stored.expected_s)),
      stored.expected_s === null
        ? ""
        : fit(MEASURED.offBy, {
            interval: interval(stored.expected_low_s, stored.expected_high_s),
            error: signedPercent(stored.error_expected_ratio),
          }),
    ],
    [
      TABLE.ideal,
      stored.ideal_s === null ? MISSING : number(stored.ideal_s, time(stored.ideal_s)),
      stored.roof_share_ratio === null ? "" : fit(MEASURED.ofRoof, { share: percent(stored.roof_share_ratio) }),
    ],
    [MEASURED.rate, flopRate(stored.achieved_flops_per_s), stored.bound ? fit(MEASURED.bound, { bound: stored.bound }) : ""],
  ];
  return el(
    "div",
    { class: "case-card" },
    el(
      "p",
      {},
      el("b", {}, stored.title),
      ` · ${stored.precision} · ${stored.kernel} · ${stored.cache} · ${counted(stored.process_count, "process", "processes")} · `,
      reportLink(run),
    ),
    el(
      "dl",
      { class: "figures" },
      facts.map(([name, value, note]) =>
        el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "quiet" }, note)),
      ),
    ),
    stored.doubts.length ? el("p", { class: "notice" }, fit(MEASURED.doubtful, { doubts: stored.doubts.join(", ") })) : null,
  );
}

function caseTable(cases, run) {
  const heads = MEASURED.heads;
  const words = ["Case", "Format", "Kernel", "Bound"];
  const rows = cases.map((stored) => {
    const cell = (head, value, text) => el("td", { class: "n", "data-head": head }, number(value, text));
    return el(
      "tr",
      { "data-case": stored.case_key },
      el("th", { scope: "row" }, stored.title),
      el("td", { "data-head": "Format" }, stored.precision),
      el("td", { "data-head": "Kernel" }, `${stored.kernel}, ${stored.cache}`),
      cell("Measured", stored.measured_s, time(stored.measured_s)),
      cell("±", stored.interval_half_width_ratio, percent(stored.interval_half_width_ratio, 1)),
      cell("Expected", stored.expected_s, time(stored.expected_s)),
      cell("Error", stored.error_expected_ratio, signedPercent(stored.error_expected_ratio)),
      cell("Ideal", stored.ideal_s, time(stored.ideal_s)),
      cell("Of roof", stored.roof_share_ratio, percent(stored.roof_share_ratio)),
      el("td", { "data-head": "Bound" }, stored.bound ?? MISSING),
    );
  });
  return el(
    "details",
    { open: cases.length <= 12 },
    el("summary", {}, fit(MEASURED.table, { cases: counted(cases.length, "case") })),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": fit(MEASURED.tableOf, { run: run.label || run.run_id }) },
      el(
        "table",
        { class: "stacks" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            heads.map((head) => el("th", { scope: "col", class: words.includes(head) ? null : "n" }, head)),
          ),
        ),
        el("tbody", {}, rows),
      ),
    ),
  );
}
