// The page: its address goes to the server, and the blocks and figures that come back are shown. Overtaken answers are dropped.

import { ApiProblem, ask, hasToken, keepToken } from "./api.js";
import { showSections } from "./blocks.js";
import { address, fillForm, fillSelect, settle, showErrors, showFormats, showOperator, stepSize } from "./form.js";
import { watchGpu } from "./gpu.js";
import { drawFigures, redraw } from "./plot.js";
import { startTheme } from "./theme.js";

/** Between two questions while key follows key: the first is asked at once. */
const PAUSE_MS = 80;
/** A size that was just emptied is about to be typed: the answer stays so long before the page says that it is missing. */
const EMPTY_PAUSE_MS = 700;
const PARTS = ["answer", "measured", "chips", "batches"];
const TOKEN_NEEDED = "This server asks for its token: open the page as /#token=… with the token that `roofline serve` printed.";
const form = document.getElementById("inputs");
const results = document.getElementById("results");
const byId = (id) => document.getElementById(id);
const get = async (path, signal) => (await ask(path, { signal })).json();

let controller = new AbortController();
let timer = null;
let askedAt = -Infinity;
let isTyping = false; // a run of keystrokes is one entry of the history
let sliders = {};

/** Ask for every part of the page and show each as it comes, the answer first. */
async function refresh() {
  controller.abort();
  controller = new AbortController();
  askedAt = performance.now();
  const { signal } = controller;
  const asked = location.search;
  results.setAttribute("aria-busy", "true");
  try {
    await Promise.all(PARTS.map((part) => showPart(part, signal)));
    results.setAttribute("aria-busy", "false");
    results.dataset.drawn = asked;
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

async function showPart(part, signal) {
  if (part === "batches" && form.elements.op.value !== "model") return showSections({ batches: [] });
  const answer = await get(`api/explorer/${part}${location.search}`, signal);
  if (signal.aborted) throw new DOMException("overtaken", "AbortError");
  showSections(answer.sections);
  if (part === "answer") showAnswer(answer);
  else if (part === "batches") showSliders(answer.sliders);
  else if (part === "chips") showCompared(answer.compared);
  else fillSelect(form.elements.run, [["", "none"], ...answer.runs]);
  showOperator();
  await drawFigures(answer.figures ?? {}, pick);
}

function showAnswer(answer) {
  byId("fault").hidden = true;
  results.classList.remove("stale");
  byId("answer-title").textContent = answer.title ?? "Prediction";
  byId("asked").textContent = answer.asked ?? "Change the question";
  document.title = answer.title ? `${answer.title} · Roofline explorer` : "Roofline explorer";
  byId("hint-hw").textContent = answer.chip_facts ?? "";
  settle({ hw: answer.hw, model: answer.model });
  showErrors(answer.errors);
  if (answer.formats) showFormats(answer.formats, (formats) => change({ formats: formats.join(",") }));
}

/** Offer the limits of time that the server has steps for. */
function showSliders(offered) {
  sliders = offered;
  for (const slider of document.querySelectorAll("[data-limit]")) {
    const steps = offered[slider.dataset.limit] ?? [];
    const value = form.elements[slider.dataset.limit].value;
    const place = steps.findIndex(([limit]) => (limit === null ? "" : String(limit)) === value);
    slider.max = steps.length - 1;
    slider.value = place < 0 ? steps.length - 1 : place; // a limit that no step has stands at the last place
    const text = place < 0 ? `${value} s` : steps[place][1];
    slider.setAttribute("aria-valuetext", text);
    slider.nextElementSibling.textContent = text;
  }
}

function showCompared(compared) {
  const select = byId("compare-add");
  const isFull = compared.length >= 3;
  const left = [...form.elements.hw.options].filter(({ value }) => value !== form.elements.hw.value && !compared.includes(value));
  fillSelect(select, [["", isFull ? "4 at most" : "choose…"], ...(isFull ? [] : left.map(({ value, text }) => [value, text]))]);
  select.disabled = isFull;
}

/** A click on a point of a figure: a format is looked at, a case is shown in its table. */
function pick(key) {
  if (!key.startsWith("case:")) {
    if (document.getElementById(`format-${key}`)) change({ focus: key });
    return;
  }
  const row = byId(key.replace(":", "-"));
  if (!row) return;
  document.querySelectorAll("tr.picked").forEach((other) => other.classList.remove("picked"));
  row.classList.add("picked");
  row.closest("details").open = true;
  row.scrollIntoView({ block: "center" });
}

/** Change inputs and ask anew. */
function change(values, { typing = false } = {}) {
  for (const [name, value] of Object.entries(values)) {
    const input = form.elements.namedItem(name);
    if (input.type === "checkbox") input.checked = value === "yes";
    else input.value = value;
  }
  go(address(), typing);
}

function go(next, typing = false) {
  showOperator();
  if (next !== location.search) history[isTyping && typing ? "replaceState" : "pushState"](null, "", next);
  else if (!typing) isTyping = false;
  isTyping = typing;
  const { activeElement: input } = document;
  const isEmptied = typing && input.required && input.value.trim() === "";
  clearTimeout(timer);
  if (next !== results.dataset.drawn || results.getAttribute("aria-busy") === "true")
    timer = setTimeout(refresh, isEmptied ? EMPTY_PAUSE_MS : Math.max(0, askedAt + PAUSE_MS - performance.now()));
}

/** Follow a link to another state of the page; the report of a server with a token comes as a file, as no link can send it. */
async function follow(event) {
  const link = event.target.closest("a[href]");
  const href = link?.getAttribute("href") ?? "";
  if (href.startsWith("?")) {
    event.preventDefault();
    fillForm(href);
    go(address());
  } else if (href.startsWith("api/runs/") && hasToken()) {
    event.preventDefault();
    const file = URL.createObjectURL(await (await ask(href)).blob());
    Object.assign(document.createElement("a"), { href: file, download: "report.html" }).click();
    URL.revokeObjectURL(file);
  }
}

function listen() {
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("input", ({ target }) => {
    const { limit } = target.dataset;
    if (limit) change({ [limit]: sliders[limit][Number(target.value)][0] ?? "" }, { typing: true });
    else if (target.form === form && target.name && target.matches("input:not([type=radio], [type=checkbox])")) go(address(), true);
  });
  document.addEventListener("change", ({ target }) => {
    if (target.form === form && target.name && target.matches("select, [type=radio], [type=checkbox]")) {
      if (target.name === "run") form.elements.words.value = "";
      go(address());
    }
  });
  form.addEventListener("keydown", stepSize);
  form.addEventListener("click", ({ target }) => target.dataset.set && change(Object.fromEntries(new URLSearchParams(target.dataset.set))));
  byId("pair-add").addEventListener("click", () => {
    const chosen = [...document.querySelectorAll("#format-chips :checked")].map((box) => box.value);
    change({ formats: [...chosen, `${byId("pair-weight").value}.${byId("pair-activation").value}`].join(",") });
  });
  byId("compare-add").addEventListener("change", ({ target }) => {
    const others = form.elements.compare.value.split(",").filter(Boolean);
    if (target.value) change({ compare: [...others, target.value].join(",") });
  });
  byId("copy").addEventListener("click", async () => {
    const told = await navigator.clipboard.writeText(location.href).then(() => "Copied.", () => "Copy it from the address bar.");
    byId("copied").textContent = told;
    setTimeout(() => (byId("copied").textContent = ""), 3000);
  });
  results.addEventListener("click", (event) => follow(event).catch(report));
  window.addEventListener("popstate", () => {
    fillForm(location.search);
    refresh();
  });
}

/** Beside the answer the form is always open; over it, on a narrow page, it is one line until somebody opens it. */
function startFolding() {
  const wide = window.matchMedia("(min-width: 62.01rem)");
  const follow = () => (byId("question").open = wide.matches);
  wide.addEventListener("change", follow);
  follow();
}

/** Say what stopped the page; a wrong token has its own way out. */
function report(error) {
  byId("fault").textContent = error instanceof ApiProblem && error.status === 401 ? TOKEN_NEEDED : error.message;
  byId("fault").hidden = false;
  results.classList.add("stale"); // what stands there was asked before
  results.setAttribute("aria-busy", "false");
}

async function start() {
  keepToken();
  startFolding();
  startTheme(byId("theme"), redraw);
  const [hardware, formats, models] = await Promise.all(["hardware", "formats", "models"].map((list) => get(`api/${list}`)));
  const here = hardware.this_machine ? [["auto", `This machine: ${hardware.this_machine.name}`]] : [];
  form.elements.hw.dataset.first = hardware.default_key;
  fillSelect(form.elements.hw, [...here, ...hardware.hardware.map((chip) => [chip.key, `${chip.name}${chip.is_placeholder ? " (placeholder)" : ""}`])]);
  fillSelect(form.elements.model, models.models.map(({ key }) => [key, key]));
  for (const id of ["pair-weight", "pair-activation"]) fillSelect(byId(id), formats.formats.map(({ key }) => [key, key]));
  fillForm(location.search);
  history.replaceState(null, "", address());
  listen();
  watchGpu();
  await refresh();
}

start().catch(report);
