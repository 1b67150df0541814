// Blocks of the server (reports/present/blocks.py) as elements. Every text is set as text: nothing from a database is ever parsed.

/** Return an element; attributes that say nothing are left out, true ones are present. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "value" || (value ?? "") !== "" && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Return a text of blocks as nodes: spans in their look, commands in backticks as code, no line end inside `12 µs`. */
function rich(text = "") {
  if (Array.isArray(text)) return text.map(rich);
  if (typeof text === "object") return span(text);
  const unbroken = text.replace(/(\d) (?=%|[pnµm]?s\b|[kMGT]?B\b)/g, "$1\u00a0");
  return unbroken.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));
}

function span({ text, look = "", title = "", anchor = "", medium = "any" }) {
  if (medium === "text") return null;
  if (look === "swatch") return el("span", { class: "swatch", "data-format": title });
  const shown = { class: look, title };
  if (anchor) return el("a", { ...shown, href: anchor.startsWith("?") || anchor.startsWith("api/") ? anchor : `#${anchor}`, "aria-label": look === "button" ? title : "" }, text);
  return el({ bold: "b", code: "code" }[look] ?? "span", shown, text);
}

const plain = (text) => [text].flat().map((part) => (typeof part === "string" ? part : part.text)).join("");
const TONES = { verdict: "headline", failed: "headline", warning: "notice", plain: "" };
const classes = ({ look = "", tone = "plain" }) => [look, TONES[tone] ?? tone].filter(Boolean).join(" ");

const MAKERS = {
  Heading: (block) => el(`h${block.rank}`, { class: block.look }, rich(block.text)),
  Paragraph: (block) => el("p", { class: classes(block) }, rich(block.text)),
  Bullets: (block) => (block.items.length ? el("ul", { class: classes(block) }, block.items.map((item) => el("li", {}, rich(item)))) : null),
  Command: (block) => (block.text ? el("p", { class: "next" }, "Next: ", el("code", {}, block.text), ` ${block.effect ?? ""}`) : null),
  Definitions: (block) => el("dl", { class: block.look }, block.pairs.map(([term, text]) => el("div", {}, el("dt", {}, rich(term)), el("dd", {}, rich(text))))),
  Folded: (block) => el("details", { open: block.is_open ?? false }, el("summary", {}, rich(block.title)), elements(block.blocks)),
  Cards: (block) => el("div", { class: "cards" }, block.cards.map((card) => el("article", { class: "card" }, elements(card)))),
  FigureBlock: (block) => {
    // The one that stands there is kept: Plotly changes it to the new figure.
    const plot = document.getElementById(`figure-${block.name}`) ?? el("div", { id: `figure-${block.name}`, class: `plot ${block.name}`, role: "img" });
    plot.setAttribute("aria-label", block.label);
    return [el("p", { class: "legend quiet", id: `legend-${block.name}` }), plot];
  },
  TableBlock: table,
};

function table({ label, columns, rows, look }) {
  const isNumber = columns.map((column) => column.kind === "number");
  const head = columns.map((column, at) => el("th", { scope: "col", class: isNumber[at] ? "n" : "" }, rich(column.header) ?? ""));
  const body = rows.map((row) =>
    el("tr", { class: row.look, id: row.anchor }, row.cells.map((cell, at) => tableCell(cell, columns[at], isNumber[at]))),
  );
  const made = el("table", { class: look }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, made);
}

function tableCell(cell, column, isNumber) {
  const kind = isNumber ? "n" : column.kind === "prose" ? "prose" : "";
  const attributes = { class: [kind, cell.look].filter(Boolean).join(" "), title: cell.title, "data-head": column.is_head ? "" : plain(column.header), "data-value": cell.value === undefined ? "" : String(cell.value) };
  const made = column.is_head ? el("th", { scope: "row", ...attributes }, rich(cell.content)) : el("td", attributes, rich(cell.content));
  if (cell.bar_ratio !== undefined) {
    const bar = el("span", { class: "fill", "aria-hidden": "true" });
    bar.style.width = `${100 * cell.bar_ratio}%`;
    made.append(el("span", { class: "rail" }, bar));
  }
  return made;
}

/** Return blocks as elements; those for texts alone are left out. */
export const elements = (blocks) => blocks.filter((block) => block.medium !== "text" || block.type === "Command").flatMap((block) => MAKERS[block.type](block) ?? []);

/** Show sections by name: what had the focus keeps it, an opened table stays open, and a section without blocks goes. */
export function showSections(sections) {
  for (const [name, blocks] of Object.entries(sections)) {
    const place = document.querySelector(`[data-section="${name}"]`);
    const told = JSON.stringify(blocks);
    if (place.told === told) continue;
    place.told = told;
    const focused = place.contains(document.activeElement) ? document.activeElement.textContent : null;
    const open = [...place.querySelectorAll("details")].map((details) => details.open);
    place.replaceChildren(...elements(blocks));
    place.querySelectorAll("details").forEach((details, at) => (details.open = open[at] ?? details.open));
    if (focused !== null) [...place.querySelectorAll("a")].find((link) => link.textContent === focused)?.focus();
    const section = place.closest("section");
    section.hidden = [...section.querySelectorAll("[data-section]")].every((part) => part.childElementCount === 0);
  }
}
