// Elements made without markup: every text is set as text, so nothing from a database or an API is ever parsed.

/** Return an element; `props` are attributes (true: present, null/false: left out), `on…` functions are listeners. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in node && tag !== "data") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map(asNode),
  );
  return node;
}

/** Return the element with this id. */
export const byId = (id) => document.getElementById(id);

/** Replace everything inside `node`; texts stay texts. */
export function fill(node, ...children) {
  node.replaceChildren(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map(asNode),
  );
}

/** Set a text only where it differs, so that a screen reader is not told twice. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
  node.hidden = node.hasAttribute("data-hides") && text === "";
}

/** Return a text whose lines never break between a number and its unit. */
export const unbroken = (text) => text.replace(/(\d) (?=%|[pnµm]?s\b|[kMGT]?B\b)/g, "$1\u00a0");

/** Return a text with its first letter large. */
export const capitalized = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

/** Return a text as a sentence: a capital first, a full stop last. */
export const sentence = (text) => `${capitalized(text)}${/[.!?]$/.test(text) ? "" : "."}`;

/** Return a text as nodes, what stands between backticks as code. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));

/** Return the name of a plan as nodes: a line may break behind each of its dots. */
export const withBreaks = (text) => text.split(/(?<=\.)/).flatMap((part, index) => (index ? [el("wbr"), part] : [part]));

/** Return a number as readers see it, with the whole value in its `value` attribute. */
export function number(value, text, className = "") {
  return el(
    "data",
    { value: value === null || value === undefined ? "" : String(value), class: className || null },
    text,
  );
}

/** Return options of a select; `chosen` is selected. */
export function options(pairs, chosen) {
  return pairs.map(([value, text]) => {
    const option = el("option", { value }, text);
    option.selected = value === chosen;
    return option;
  });
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}
