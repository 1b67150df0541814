// The table of all cases: sorted by any column, searched by any word, a page at a time.
const PAGE_ROWS = 100;
const TABLE_COLUMNS = DATA.table_columns.map(([key, title, form]) => [key, title, form ? show[form] : null]);
const ALWAYS = new Set(["name", "measured_s", "total_ratio", "ideal_s", "bound"]);
const SAID_ONCE = new Set(["regime", "path"]); // where all cases have the same, a sentence says it instead of a column

function caseTable(chip, place, label) {
  const has = (row, key) => (Array.isArray(row[key]) ? row[key].length : row[key] !== "" && isKnown(row[key]));
  const same = TABLE_COLUMNS.filter(([key]) => SAID_ONCE.has(key) && chip.rows.length > 1 && distinct(chip.rows.map((row) => row[key]).filter(Boolean)).length === 1);
  const total = TABLE_COLUMNS.find(([key]) => key === "total_ratio");
  const isUnknown = chip.rows.every((row) => !isKnown(row.total_ratio)); // fresh processes: of no case, so that a column would say nothing
  if (isUnknown) same.push(total);
  const columns = TABLE_COLUMNS.filter((column) => !same.includes(column) && (ALWAYS.has(column[0]) || chip.rows.some((row) => has(row, column[0]))));
  const words = new Map(chip.rows.map((row) => [row, [row.name, row.op, row.format, row.kernel, row.status, row.bound, row.regime, row.flags.join(" "), row.remarks].join(" ").toLowerCase()]));
  const search = el("input", { type: "search", placeholder: WORDS.search, "aria-label": WORDS.search, autocomplete: "off", spellcheck: "false" });
  const status = el("span", { class: "quiet", role: "status" });
  const body = el("tbody", {});
  const heads = new Map();
  let sorted = null; // [column, 1 or -1]
  let page = 0;
  let rows = [];

  const head = el("tr", {}, columns.map(([key, title, form]) => {
    const cell = el("th", { scope: "col", class: form ? "n" : null, "aria-sort": "none" }, button(title, () => sortBy(key), { class: "sort" }));
    heads.set(key, cell);
    return cell;
  }));

  function sortBy(key) {
    sorted = !sorted || sorted[0] !== key ? [key, 1] : sorted[1] === 1 ? [key, -1] : null;
    heads.forEach((cell, name) => cell.setAttribute("aria-sort", sorted && sorted[0] === name ? (sorted[1] === 1 ? "ascending" : "descending") : "none"));
    page = 0;
    update();
  }

  function order(a, b) {
    const [key, direction] = sorted;
    const [left, right] = [a[key], b[key]].map((value) => (Array.isArray(value) ? value.join(" ") : value));
    const [lacksLeft, lacksRight] = [!isKnown(left) || left === "", !isKnown(right) || right === ""];
    if (lacksLeft || lacksRight) return lacksLeft - lacksRight || a.number - b.number; // what is missing is last either way
    const by = typeof left === "number" ? left - right : left.localeCompare(right, "en", { numeric: true });
    return by * direction || a.number - b.number;
  }

  function update() {
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows = chip.filter.rows().filter((row) => terms.every((word) => words.get(row).includes(word)));
    if (sorted) rows.sort(order);
    page = Math.min(page, Math.max(Math.ceil(rows.length / PAGE_ROWS) - 1, 0));
    show_page();
  }

  function show_page() {
    const shown = rows.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
    body.replaceChildren(...shown.map(tableRow));
    const pages = Math.ceil(rows.length / PAGE_ROWS);
    status.textContent = fit(WORDS.shown, { count: show.count(rows.length), total: show.count(chip.rows.length) }) + (pages > 1 ? fit(WORDS.page, { page: page + 1, pages }) : "");
    pager.hidden = pages < 2;
    before.disabled = page === 0;
    after.disabled = page >= pages - 1;
  }

  function tableRow(row) {
    const made = el("tr", { id: `row-${row.number}`, "data-number": row.number, class: row.number === chip.selected ? "is-selected" : row.is_best ? "best" : null });
    for (const [key, , form] of columns) {
      if (key === "name") {
        const open = button(row.name, () => chip.select(row.number, true), { class: "open", "aria-pressed": String(row.number === chip.selected), title: WORDS.inPlot });
        made.append(el("th", { scope: "row" }, open, row.remarks ? el("span", { class: "remark" }, prose(row.remarks)) : null));
      } else if (key === "measured_s" && !isKnown(row.measured_s)) made.append(el("td", { class: "n" }, el("span", { class: `status ${row.status}` }, row.status)));
      else if (key === "flags") made.append(el("td", {}, row.flags.length ? row.flags.map((flag) => [flagMark(flag), " "]) : "–"));
      else if (key === "total_ratio") made.append(el("td", { class: "n", "data-column": key, "data-value": row[key] }, isKnown(row[key]) ? `${form(row[key])} ` : null, el("span", { class: "quiet basis" }, row.total_basis || "–")));
      else if (form) made.append(el("td", { class: "n", "data-column": key, "data-value": isKnown(row[key]) ? row[key] : null }, form(row[key])));
      else made.append(el("td", {}, row[key] || "–"));
    }
    return made;
  }

  const before = button(WORDS.previous, () => turn(-1), {});
  const after = button(WORDS.next, () => turn(1), {});
  const pager = el("div", { class: "tools pager" }, before, after);
  function turn(by) {
    page += by;
    show_page();
  }

  chip.reveal = (number) => {
    if (!rows.some((row) => row.number === number)) {
      search.value = "";
      chip.filter.clear();
    }
    page = Math.floor(Math.max(rows.findIndex((row) => row.number === number), 0) / PAGE_ROWS);
    show_page();
    const line = document.getElementById(`row-${number}`);
    line.classList.add("is-selected");
    line.scrollIntoView({ block: "center" });
    line.querySelector("button").focus({ preventScroll: true });
  };
  chip.selectWatchers.push((row, isFromTable) => {
    body.querySelectorAll("tr").forEach((line) => {
      const isIt = row !== undefined && Number(line.dataset.number) === row.number;
      line.classList.toggle("is-selected", isIt);
      line.querySelector(".open").setAttribute("aria-pressed", String(isIt));
    });
    if (row && isFromTable && chip.plot) chip.plot.scrollIntoView({ block: "center" });
  });
  search.addEventListener("input", () => {
    page = 0;
    update();
  });
  const tools = toolbar("cases", () => rows, null);
  tools.prepend(search);
  tools.append(status);
  const reasons = distinct(chip.rows.map((row) => row.total_basis).filter(Boolean)).join(WORDS.or) || WORDS.nothing;
  const facts = same.map(([key, title]) => (key === "total_ratio" ? fit(WORDS.noTotal, { reasons }) : `${title.toLowerCase()}: ${chip.rows.map((row) => row[key]).find(Boolean)}`));
  if (same.length) place.append(el("p", { class: "quiet" }, fit(WORDS.same, { facts: facts.join("; ") })));
  place.append(tools, el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, el("table", { class: "cases" }, el("thead", {}, head), body)), pager);
  chip.filter.watch(update);
  update();
}

function flagMark(flag) {
  const about = DATA.flags[flag];
  return el("abbr", { class: about && about.is_doubtful ? "flag doubt" : "flag", title: about ? about.meaning : WORDS.unknownFlag }, flag);
}

// Tables wider than the page: their edge fades while there is more to the side, so that nobody takes them for the whole.
function fadeWhereMore(box) {
  const mark = () => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("has-more", left > 4);
    box.classList.toggle("has-before", box.scrollLeft > 4);
  };
  box.addEventListener("scroll", mark, { passive: true });
  const watcher = new ResizeObserver(mark);
  watcher.observe(box);
  if (box.firstElementChild) watcher.observe(box.firstElementChild);
}
