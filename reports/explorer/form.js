// The form is the page's state: its inputs stand in the address, and a link shows what its sender saw.

import { el } from "./blocks.js";

const form = document.getElementById("inputs");

/** Return the inputs that the chosen operator has, as an address. */
export function address() {
  const given = [...form.elements].filter((input) => input.name && !isOther(input) && (input.type !== "radio" || input.checked));
  const query = new URLSearchParams(given.map((input) => [input.name, input.type === "checkbox" ? (input.checked ? "yes" : "") : input.value]));
  return `?${query}`.replaceAll("%2C", ",");
}

/** Whether an element belongs to another operator than the chosen one. */
function isOther(element) {
  const holder = element.closest("[data-op]");
  return holder !== null && !(holder.dataset.op.split(" ").includes(form.elements.op.value) && (holder.parentElement === null || !isOther(holder.parentElement)));
}

/** Fill the form from an address; what it does not say has its default, what no list has is added to it until an answer knows better. */
export function fillForm(search) {
  form.reset();
  for (const [name, value] of new URLSearchParams(search)) {
    const input = form.elements.namedItem(name);
    if (!input) continue;
    if (input.type === "checkbox") input.checked = value === "yes";
    else setInput(input, value);
  }
  for (const hidden of form.querySelectorAll("input[type=hidden]")) {
    const value = new URLSearchParams(search).get(hidden.name);
    hidden.value = value ?? hidden.defaultValue;
  }
  showOperator();
}

function setInput(input, value) {
  if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === value)) input.append(el("option", { value, "data-unknown": true }, value));
  input.value = value;
  if (input instanceof RadioNodeList && input.value !== value) input.value = "product";
}

/** Show an answer's names in place of those that were asked: a key for an alias. */
export function settle(names) {
  for (const [name, value] of Object.entries(names)) {
    const select = form.elements.namedItem(name);
    if (!value || select.value === value) continue;
    select.querySelectorAll("[data-unknown]").forEach((option) => option.remove());
    select.value = value;
  }
}

/** Fill a select with [value, text] pairs; what is chosen stays so. */
export function fillSelect(select, pairs) {
  const chosen = select.value || select.dataset.first || "";
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
  if (select.dataset.first) [...select.options].forEach((option) => (option.defaultSelected = option.value === select.dataset.first));
  setInput(select, chosen);
}

export function showOperator() {
  for (const part of document.querySelectorAll("[data-op]")) part.hidden = isOther(part);
  document.getElementById("only").hidden = form.elements.run.value === "";
}

/** Show {input: message}; every other message goes. The first one opens the form where it is folded away. */
export function showErrors(errors) {
  form.querySelectorAll(".error:not(#error-hw)").forEach((node) => node.remove());
  document.getElementById("error-hw").textContent = errors.hw ?? "";
  for (const input of form.elements) {
    const message = errors[input.name];
    input.toggleAttribute("aria-invalid", false);
    if (!message || input.type === "hidden") continue;
    input.setAttribute("aria-invalid", "true");
    if (input.name === "hw") continue;
    const note = el("small", { class: "error", id: `error-${input.name}`, role: "alert" }, input.value.trim() === "" ? "Give a number." : message);
    input.after(note);
    input.setAttribute("aria-describedby", note.id);
  }
  if (Object.keys(errors).length) document.getElementById("question").open = true;
}

/** Show the formats that can be chosen: [{key, label, is_chosen}]. */
export function showFormats(formats, onChange) {
  const place = document.getElementById("format-chips");
  const focused = place.contains(document.activeElement) ? document.activeElement.value : null;
  place.replaceChildren(
    ...formats.map(({ key, label, is_chosen: isChosen }) => {
      const box = el("input", { type: "checkbox", value: key });
      box.checked = isChosen;
      box.addEventListener("change", () => onChange([...place.querySelectorAll(":checked")].map((each) => each.value)));
      return el("label", {}, box, el("span", {}, label));
    }),
  );
  [...place.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
}

const STEPS = { ArrowUp: (n) => n + 1, ArrowDown: (n) => n - 1, PageUp: (n) => n * 2, PageDown: (n) => Math.floor(n / 2) };

/** Double or halve a size with Page Up and Page Down, one more or less with the arrows. */
export function stepSize(event) {
  const size = Number(event.target.value.replaceAll(",", ""));
  if (!event.target.matches("label input:not([type])") || !Object.hasOwn(STEPS, event.key) || !Number.isInteger(size)) return;
  event.preventDefault();
  event.target.value = String(Math.max(1, STEPS[event.key](size)));
  event.target.dispatchEvent(new Event("input", { bubbles: true }));
}
