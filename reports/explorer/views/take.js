// The first lines of the answer, as the command line prints them: what to take, the options by name, what to type next.

import { byId, el, fill, say, unbroken, withCode } from "../dom.js";
import { ADVICE, ANSWER, TABLE } from "../words.js";

/** Show the ranking ({answer} or {problem}) of the question; null: it is still being computed. */
export function showTake(ranking) {
  if (ranking === null) return showReason(ANSWER.unranked, []);
  if (ranking.problem) return showReason(ranking.problem.fields.length ? ADVICE.mend : ranking.problem.message, []);
  const { short_answer: short } = ranking.answer;
  say(byId("take"), unbroken(short.sentence));
  fill(byId("options"), short.rows.length ? optionTable(short) : null);
  fill(byId("notes"), [...short.notes, short.basis, short.borrowed].filter(Boolean).map((text) => el("li", {}, withCode(text))));
  fill(byId("next"), short.next_command ? [`${ADVICE.next} `, el("code", {}, short.next_command), ` ${short.next_effect}`] : []);
}

/** Show why there is no answer, with the reason of each format where they differ. */
export function showReason(text, reasons) {
  say(byId("take"), text);
  fill(byId("options"));
  fill(byId("notes"), reasons.map((reason) => el("li", {}, withCode(reason))));
  fill(byId("next"));
}

function optionTable({ columns, rows }) {
  const heads = [el("th", { scope: "col" }, el("span", { class: "hidden" }, TABLE.role)), ...columns.map((head, index) => el("th", { scope: "col", class: index ? "n" : null }, head))];
  return el("table", { class: "short" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows.map((row) => optionRow(row, columns))));
}

function optionRow({ role, key, cells }, columns) {
  const [name, ...texts] = cells;
  return el(
    "tr",
    { class: role === "take" ? "chosen" : null, "data-option": key },
    el("td", {}, role ? el("span", { class: "role" }, role) : null),
    el("th", { scope: "row" }, el("span", { class: "swatch", "data-format": name }), name),
    texts.map((text, index) => el("td", { class: "n", "data-head": columns[index + 1] }, text)),
  );
}
