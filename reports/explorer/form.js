// The inputs: built for the operator, filled from the state, and telling it what changed. Errors stand beside their field.

import { byId, capitalized, el, fill, options, say } from "./dom.js";
import { byteRate, bytes } from "./numbers.js";
import { formatLabel, GEMV_ROWS, OPERATORS, pairKey, typed } from "./operators.js";
import { AUTO, baseOf, chipOf, formatsOf, modelOf, MOST_FORMATS, resolved } from "./state.js";
import { fit, FORM } from "./words.js";

const USUAL_FORMATS = ["FP16", "BF16", "FP8_E4M3", "INT8.INT8", "NVFP4", "MXFP4"];
const USUAL_WEIGHTS = ["INT4", "INT8"];
/** A browser says of an input that it changed when it is taken away in the middle of typing: nobody entered that. */
let isRebuilding = false;
const M_OF = { gemv: "1", gemm: "2048" };

/** Build the form over `store`; `catalog` has hardware, formats and models of the API. Returns {show, showErrors}. */
export function startForm(store, catalog) {
  const form = byId("inputs");
  form.addEventListener("submit", (event) => event.preventDefault());
  fillChips(store, catalog);
  for (const radio of form.elements.operator)
    radio.addEventListener("change", () => chooseOperator(store, radio.value));
  startPairs(store, catalog);
  let shown = null; // which operator's inputs stand there
  return {
    show(state) {
      if (shown !== state.op) {
        isRebuilding = true;
        buildFields(byId("sizes"), OPERATORS[state.op].fields, store, catalog, OPERATORS[state.op].presets);
        buildLimits(byId("limits"), OPERATORS[state.op].limits, store, catalog);
        isRebuilding = false;
        const [weight, activation] = OPERATORS[state.op].operands;
        say(byId("label-pair-weight"), capitalized(weight));
        say(byId("label-pair-activation"), capitalized(activation));
        say(
          byId("hint-formats"),
          fit(FORM.formats, { weight, activation, count: MOST_FORMATS }),
        );
        shown = state.op;
      }
      showValues(state, catalog);
      showFormats(store, catalog);
    },
    showErrors,
    showNearest: (chips) => showNearest(store, chips),
  };
}

/** Offer the chips whose names come near one that is not known. */
function showNearest(store, chips) {
  fill(
    byId("nearest-hw"),
    chips.length ? el("span", { class: "hint" }, FORM.meant) : null,
    chips.map((chip) => el("button", { type: "button", onclick: () => store.set({ hw: chip.key }) }, chip.name)),
  );
}

function fillChips(store, catalog) {
  const select = byId("hw");
  const named = catalog.hardware.map((chip) => [
    chip.key,
    chip.is_placeholder ? fit(FORM.placeholder, { chip: chip.name }) : chip.name,
  ]);
  const here = catalog.thisMachine && [[AUTO, fit(FORM.thisMachine, { chip: catalog.thisMachine.name })]];
  const none = el("option", { value: "", disabled: true, hidden: true }, FORM.choose);
  fill(select, none, options([...(here ?? []), ...named], store.get().hw));
  select.addEventListener("change", () => store.set({ hw: select.value }));
}

function chooseOperator(store, operator) {
  if (operator === "attention" || operator === "model") return store.set({ op: operator });
  const rows = typed(store.get().M);
  const fits = operator === "gemv" ? rows >= 1 && rows <= GEMV_ROWS : rows > GEMV_ROWS;
  return store.set({ op: "product", ...(fits ? {} : { M: M_OF[operator] }) });
}

function buildFields(place, fields, store, catalog, presets) {
  fill(
    place,
    el(
      "div",
      { class: "presets", role: "group", "aria-label": FORM.examples },
      presets.map(([text, patch]) => el("button", { type: "button", onclick: () => store.set(patch) }, text)),
    ),
    el(
      "div",
      { class: "grid" },
      fields.map((field) => fieldNode(field, store, catalog)),
    ),
  );
}

function buildLimits(place, fields, store, catalog) {
  fill(
    place,
    fields.length
      ? el(
          "fieldset",
          {},
          el("legend", {}, FORM.limits),
          el(
            "div",
            { class: "grid" },
            fields.map((field) => fieldNode(field, store, catalog)),
          ),
        )
      : [],
  );
}

function fieldNode(field, store, catalog) {
  const id = field.name;
  const described = { id, name: id, "aria-describedby": `hint-${id} error-${id}` };
  const wide = field.kind === "choice" || field.kind === "model";
  let input;
  if (field.kind === "size") {
    input = el("input", {
      ...described,
      type: "text",
      inputmode: "numeric",
      spellcheck: "false",
      maxlength: "24",
      placeholder: field.optional ? FORM.none : null,
    });
    input.addEventListener("input", () => store.set({ [id]: input.value }, { typing: true }));
    input.addEventListener("change", () => isRebuilding || store.set({ [id]: input.value }));
    input.addEventListener("keydown", (event) => step(event, input, store));
  } else if (field.kind === "check") {
    input = el("input", {
      ...described,
      type: "checkbox",
      onchange: () => store.set({ [id]: input.checked ? "yes" : "" }),
    });
    return el("div", { class: "field check" }, input, el("label", { for: id }, field.label), errorNode(id));
  } else {
    const choices = field.kind === "model" ? catalog.models.map((model) => [model.key, model.key]) : field.choices;
    input = el(
      "select",
      { ...described, onchange: () => store.set({ [id]: input.value }) },
      options(choices, store.get()[id]),
    );
  }
  return el(
    "div",
    { class: wide ? "field wide" : "field" },
    el("label", { for: id }, field.label),
    input,
    el("p", { class: "hint", id: `hint-${id}` }, field.hint ?? ""),
    errorNode(id),
  );
}

const errorNode = (id) => el("p", { class: "error", id: `error-${id}`, "aria-live": "polite" });

/** Double or halve a size with Page Up and Page Down, one more or less with the arrows. */
function step(event, input, store) {
  const steps = {
    ArrowUp: (n) => n + 1,
    ArrowDown: (n) => n - 1,
    PageUp: (n) => n * 2,
    PageDown: (n) => Math.floor(n / 2),
  };
  const size = typed(input.value);
  if (!Object.hasOwn(steps, event.key) || !Number.isInteger(size)) return;
  event.preventDefault();
  input.value = String(Math.max(1, steps[event.key](size)));
  store.set({ [input.name]: input.value }, { typing: true });
}

function showValues(state, catalog) {
  const form = byId("inputs");
  const rows = typed(state.M);
  const shown = form.elements.operator.value; // stays while M is being typed
  const ofRows = typeof rows === "number" ? (rows <= GEMV_ROWS ? "gemv" : "gemm") : shown.startsWith("gem") ? shown : "gemm";
  const operator = state.op === "product" ? ofRows : state.op;
  for (const radio of form.elements.operator) radio.checked = radio.value === operator;
  for (const field of [...OPERATORS[state.op].fields, ...OPERATORS[state.op].limits]) {
    const input = byId(field.name);
    if (field.kind === "check") input.checked = state[field.name] === "yes";
    else if (field.kind === "model") input.value = modelOf(catalog, state[field.name])?.key ?? "";
    else if (input.value !== state[field.name]) input.value = state[field.name];
  }
  const chip = chipOf(catalog, state.hw);
  const isListed = state.hw !== AUTO && catalog.hardware.includes(chip);
  byId("hw").value = chip ? (isListed ? chip.key : AUTO) : "";
  const facts = chip && [
    byteRate(chip.bandwidth_bytes_per_s),
    chip.capacity_bytes === null ? "" : bytes(chip.capacity_bytes),
    chip.is_placeholder ? FORM.invented : "",
  ];
  say(byId("hint-hw"), facts ? facts.filter(Boolean).join(" · ") : "");
}

function showFormats(store, catalog) {
  const state = store.get();
  const chosen = formatsOf(resolved(catalog, state));
  const usual = [...USUAL_FORMATS, ...USUAL_WEIGHTS.map((weight) => `${weight}.${baseOf(catalog, state)}`)];
  const all = [...usual, ...chosen.filter((format) => !usual.includes(format))];
  const place = byId("format-chips");
  const listedFormats = `${state.op}:${all.join()}`;
  if (place.dataset.formats !== listedFormats) {
    const focused = document.activeElement?.value;
    const hadFocus = place.contains(document.activeElement);
    fill(
      place,
      all.map((format) => {
        const box = el("input", { type: "checkbox", value: format, onchange: () => toggle(store, catalog, format, box.checked) });
        return el("label", {}, box, el("span", {}, formatLabel(state.op, format)));
      }),
    );
    place.dataset.formats = listedFormats;
    if (hadFocus) [...place.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }
  for (const box of place.querySelectorAll("input")) box.checked = chosen.includes(box.value);
}

function toggle(store, catalog, format, isOn) {
  const chosen = formatsOf(resolved(catalog, store.get()));
  const next = isOn ? [...chosen, format] : chosen.filter((other) => other !== format);
  say(byId("error-formats"), "");
  if (next.length === 0 || next.length > MOST_FORMATS) {
    say(
      byId("error-formats"),
      next.length ? fit(FORM.tooMany, { count: MOST_FORMATS }) : FORM.keepOne,
    );
    showFormats(store, catalog);
    return;
  }
  store.set({ formats: next.join(",") });
}

function startPairs(store, catalog) {
  const names = catalog.formats.map((format) => [format.key, format.key]);
  fill(byId("pair-weight"), options(names, "NF4"));
  fill(byId("pair-activation"), options(names, "BF16"));
  byId("pair-add").addEventListener("click", () => {
    const [weight, activation] = [byId("pair-weight").value, byId("pair-activation").value];
    toggle(store, catalog, pairKey(weight, activation), true);
  });
}

/** Show {input name: message}; every other message goes. */
function showErrors(errors) {
  for (const node of document.querySelectorAll("#inputs .error")) {
    const name = node.id.slice("error-".length);
    if (name === "formats") continue;
    const isEmpty = byId(name)?.type === "text" && byId(name).value.trim() === "";
    say(node, errors[name] ? (isEmpty ? FORM.number : errors[name]) : "");
    byId(name)?.toggleAttribute("aria-invalid", false);
    if (errors[name]) byId(name)?.setAttribute("aria-invalid", "true");
  }
}
