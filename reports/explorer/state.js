// Every input of the page as one flat record of texts, in the address: a link shows what its sender saw.

import { DEFAULT_INPUTS, OPERATORS, SLIDERS } from "./operators.js";

export const MOST_FORMATS = 8;
export const MOST_CHIPS = 4;
const LONGEST_VALUE = 200;

/** The chip of the machine that serves. */
export const AUTO = "auto";

/** Names are the same to the API where they differ in capitals, dashes and blanks alone (chip_lookup.py, model_registry.py). */
const squeezed = (name) => name.toLowerCase().replace(/[-_\s]/g, "");

/** Return the chip of the catalog that a key, an alias or `auto` means; undefined where it means none. */
export function chipOf(catalog, name) {
  const wanted = squeezed(name);
  const here = catalog.thisMachine ?? undefined;
  if (wanted === AUTO) return here;
  return (
    catalog.hardware.find((chip) => squeezed(chip.key) === wanted) ??
    catalog.hardware.find((chip) => chip.aliases.some((alias) => squeezed(alias) === wanted)) ??
    (here && squeezed(here.key) === wanted ? here : undefined)
  );
}

/** Return the chips of the catalog that a problem of the API names as near, each once. */
export function nearestChips(catalog, problem) {
  const names = problem.fields.flatMap((field) => field.nearest ?? []);
  return [...new Set(names.map((name) => chipOf(catalog, name)).filter(Boolean))];
}

/** Return the model of the catalog that a name means; undefined where it means none. */
export function modelOf(catalog, name) {
  return catalog.models.find((model) => squeezed(model.key) === squeezed(name));
}

/** Return the name by which the API knows a chip: a machine that no catalog has is `auto`, as stored runs name it by its key. */
function apiName(catalog, name) {
  const chip = chipOf(catalog, name);
  if (!chip) return name;
  return chip === catalog.thisMachine ? AUTO : chip.key;
}

/** Return the 16-bit format that the answers of a chip refer to: a model has its own where the chip computes in it. */
export function baseOf(catalog, state) {
  const chip = chipOf(catalog, state.hw);
  const wide = modelOf(catalog, state.model)?.wide_format;
  const base = state.op === "model" ? chip?.model_baseline_formats[wide] : chip?.baseline_format;
  return base ?? "FP16";
}

/** Return the state as it is asked: the API's name of the chip, and formats where the address leaves the choice to the page. */
export function resolved(catalog, state) {
  const base = baseOf(catalog, state);
  const usual = `${base},FP8_E4M3,INT8.INT8,NVFP4,INT4.${base}`;
  const hw = apiName(catalog, state.hw);
  const compare = listed(state.compare, Infinity).filter((name) => apiName(catalog, name) !== hw).join();
  const model = modelOf(catalog, state.model)?.key ?? state.model;
  return { ...state, base, hw, model, compare, formats: state.formats.trim() === "" ? usual : state.formats };
}

const DEFAULTS = {
  hw: "gb10",
  op: "product",
  ...DEFAULT_INPUTS,
  formats: "", // the usual ones of the chip
  ...Object.fromEntries(SLIDERS.map((name) => [name, ""])),
  focus: "",
  compare: "h200-sxm,b200",
  run: "",
  words: "",
};
const ALWAYS = ["hw", "op", "formats", "focus", "compare", "run", "words"];

/** What cannot be seen, or turns the text around it, is shown as such. */
const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "\ufffd");

/** Return the state of a query string; what it leaves out has its default, what it has too much of is cut. */
export function readState(search) {
  const query = new URLSearchParams(search);
  const state = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    if (query.has(name)) state[name] = visible(query.get(name)).slice(0, LONGEST_VALUE * (name === "formats" ? 2 : 1));
  }
  if (!Object.hasOwn(OPERATORS, state.op)) state.op = DEFAULTS.op;
  if (state.hw.trim() === "") state.hw = DEFAULTS.hw;
  return state;
}

/** Return the query string with every input that the chosen operator has. */
export function writeState(state) {
  const spec = OPERATORS[state.op];
  const names = [
    ...ALWAYS.slice(0, 2),
    ...[...spec.fields, ...spec.limits].map((field) => field.name),
    ...(spec.sliders ?? []),
    ...ALWAYS.slice(2),
  ];
  const query = new URLSearchParams(names.map((name) => [name, state[name]]));
  return `?${query}`.replaceAll("%2C", ",");
}

/** Split a list of the state: no blanks, nothing twice. */
export const listed = (text, most) =>
  [
    ...new Set(
      text
        .split(",")
        .map((part) => part.trim())
        .filter(Boolean),
    ),
  ].slice(0, most);
export const formatsOf = (state) => listed(state.formats, MOST_FORMATS);
export const comparedOf = (state) => listed(state.compare, MOST_CHIPS - 1).filter((key) => key !== state.hw);

/** Keep the state and the address together; `onChange(state, changedNames)` after every change, back and forward included. */
export function startState(onChange) {
  let state = readState(location.search);
  let isTyping = false; // a run of keystrokes is one entry of the history
  history.replaceState(null, "", writeState(state));
  window.addEventListener("popstate", () => {
    const before = state;
    state = readState(location.search);
    isTyping = false;
    onChange(
      state,
      Object.keys(state).filter((name) => state[name] !== before[name]),
    );
  });
  return {
    get: () => state,
    set(patch, { typing = false } = {}) {
      const changed = Object.keys(patch).filter((name) => patch[name] !== state[name]);
      if (changed.length) {
        state = { ...state, ...patch };
        const address = writeState(state);
        if (address !== location.search) history[isTyping && typing ? "replaceState" : "pushState"](null, "", address);
        isTyping = typing;
        onChange(state, changed);
      } else if (!typing) isTyping = false;
    },
  };
}
