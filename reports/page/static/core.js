// The page's data and the making of elements. Whatever comes from a run goes into the page as text, never as markup.
const DATA = JSON.parse(document.getElementById("report-data").textContent);
const SVG_LIMIT = DATA.svg_limit_count; // points beyond which WebGL draws them

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) made.append(child); // strings become text nodes
  }
  return made;
}

// What stands in backticks is a command; strings become text nodes, in it as outside of it.
function prose(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? el("code", {}, part) : part)) : text;
}

function button(label, action, attributes) {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", action);
  return made;
}

// {columns, texts, floats, rows} as one object per row, its names in the order of columns, texts looked up.
function unpacked(table) {
  const texts = new Set(table.texts);
  const text = (cell) => (cell === null ? "" : DATA.texts[cell]);
  const number = (value) => (Number.isNaN(value) ? null : value);
  let place = 0;
  const columns = table.columns.map((name) => ({ name, isText: texts.has(name), values: name in table.floats ? floats(table.floats[name]) : null, place: name in table.floats ? null : place++ }));
  return table.rows.map((cells, at) => {
    const row = {};
    for (const { name, isText, values, place } of columns) {
      const cell = values ? number(values[at]) : cells[place];
      row[name] = isText ? (Array.isArray(cell) ? cell.map(text) : text(cell)) : Array.isArray(cell) ? [] : cell;
    }
    return row;
  });
}

// Numbers as base64 of little-endian doubles.
function floats(text) {
  const view = new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  return Array.from({ length: view.byteLength / 8 }, (_, at) => view.getFloat64(8 * at, true));
}

// A value with what differs from it laid over (`difference` of page_data.py).
function overlaid(base, changes) {
  if (changes === undefined) return base;
  const isObject = (value) => value !== null && typeof value === "object";
  if (Array.isArray(base) && Array.isArray(changes) && base.length === changes.length && changes.every(isObject)) return base.map((item, at) => overlaid(item, changes[at]));
  if (!isObject(base) || !isObject(changes) || Array.isArray(changes)) return changes;
  return { ...base, ...Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, overlaid(base[name], value)])) };
}

function isKnown(value) {
  return value !== null && value !== undefined;
}

function distinct(values) {
  return [...new Set(values)];
}

// Text that Plotly takes for text: it reads a few tags and entities, so that these are written out.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function csvText(columns, rows) {
  const cell = (value) => {
    if (!isKnown(value)) return "";
    if (Array.isArray(value)) value = value.join(" ");
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value; // a spreadsheet would run it
    return /[",\n\r']/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [columns.join(","), ...rows.map((row) => columns.map((name) => cell(row[name])).join(","))].join("\r\n") + "\r\n";
}

function download(name, text, type) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The buttons under a figure: its data as CSV, its picture as SVG, its zoom back.
function toolbar(name, rowsOf, plot) {
  const made = el("div", { class: "tools" });
  made.append(
    button(WORDS.csv, () => {
      const rows = rowsOf();
      download(`${DATA.run}-${name}.csv`, csvText(rows.length ? Object.keys(rows[0]) : [], rows), "text/csv;charset=utf-8");
    }),
  );
  if (plot) {
    made.append(
      button(WORDS.svg, () => Plotly.downloadImage(plot, { format: "svg", filename: `${DATA.run}-${name}`, width: 1160, height: 720 })),
      button(WORDS.reset, () => plot.dispatchEvent(new CustomEvent("reset-zoom"))),
    );
  }
  return made;
}
