// Up to four chips side by side: every chosen format on each, drawn to one scale.

import { fastest, judgedS } from "./answers.js";
import { byId, el, fill, number, options, say } from "./dom.js";
import { byteRate, bytes, interval, time, times } from "./numbers.js";
import { comparedOf, MOST_CHIPS } from "./state.js";

/** Connect the list of further chips. */
export function startCompare(store, catalog) {
  const select = byId("compare-add");
  select.addEventListener("change", () => {
    const key = select.value;
    if (key) store.set({ compare: [...comparedOf(store.get()), key].join(",") });
    select.focus();
  });
  return (state) => {
    const compared = comparedOf(state);
    const left = catalog.hardware.filter((chip) => chip.key !== state.hw && !compared.includes(chip.key));
    const isFull = compared.length >= MOST_CHIPS - 1;
    fill(
      select,
      options(
        [
          ["", isFull ? `${MOST_CHIPS} at most` : "choose…"],
          ...(isFull ? [] : left.map((chip) => [chip.key, chip.name])),
        ],
        "",
      ),
    );
    select.disabled = isFull;
  };
}

/** Show the answers of all chips, the main one first. */
export function showCompare(state, chips, focus, store) {
  const rows = chips.flatMap((chip) => chip.rows).filter((row) => !row.error);
  const longest = Math.max(...rows.map((row) => row.expected?.high_s ?? row.timeS));
  fill(
    byId("compare"),
    chips.length === 1
      ? el("p", { class: "quiet" }, "Only one chip so far: add up to three others.")
      : el("p", {}, verdict(chips, focus)),
    el(
      "div",
      { class: "chips-row" },
      chips.map((chip, index) => card(state, chip, index, longest, store)),
    ),
    rows.length
      ? el(
          "p",
          { class: "quiet" },
          "Bars to one scale, shorter is faster: expected time with its 80 % interval; outlined: ideal time where no expected one is known.",
        )
      : null,
  );
}

/** Remove from the list of compared chips. */
function remove(store, key) {
  store.set({
    compare: comparedOf(store.get())
      .filter((one) => one !== key)
      .join(","),
  });
  byId("compare-add").focus();
}

function verdict(chips, focus) {
  if (!focus) return "Nothing to compare until there is a prediction.";
  const same = chips
    .map((chip) => ({ chip, row: chip.rows.find((row) => row.format === focus.format && !row.error) }))
    .filter(({ row }) => row);
  if (same.length < 2) return `No other chip here computes ${focus.label}.`;
  const sameSource = same.filter(({ row }) => Boolean(row.expected) === Boolean(same[0].row.expected));
  const best = sameSource.reduce((found, one) => (judgedS(one.row) < judgedS(found.row) ? one : found));
  const main = same[0];
  const source = main.row.expected ? "expected" : "ideal";
  if (best === main) {
    const rest = sameSource.slice(1);
    if (!rest.length) return `Expected times of ${focus.label} are known for ${main.chip.chip.name} only.`;
    const next = rest.reduce((found, one) => (judgedS(one.row) < judgedS(found.row) ? one : found));
    return `In ${focus.label}, ${main.chip.chip.name} is the fastest here: ${times(judgedS(next.row) / judgedS(main.row))} as fast as ${next.chip.chip.name} (${source}).`;
  }
  return `In ${focus.label}, ${best.chip.chip.name} is ${times(judgedS(main.row) / judgedS(best.row))} as fast as ${main.chip.chip.name} (${source}).`;
}

function card(state, { key, chip, rows, problem }, index, longest, store) {
  const best = fastest(rows);
  const name = chip?.name ?? key;
  return el(
    "article",
    { class: "chip-card", "data-chip": key, "aria-label": name },
    el(
      "div",
      { class: "title-row" },
      el("h3", {}, name),
      index
        ? el(
            "button",
            { type: "button", class: "small", "aria-label": `Remove ${name}`, onclick: () => remove(store, key) },
            "×",
          )
        : el("span", { class: "quiet" }, "chosen"),
    ),
    chip
      ? el(
          "p",
          { class: "quiet" },
          [
            byteRate(chip.bandwidth_bytes_per_s),
            chip.capacity_bytes === null ? "" : bytes(chip.capacity_bytes),
            chip.is_placeholder ? "placeholder" : "",
          ]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
    problem && !rows.some((row) => !row.error) ? el("p", { class: "error" }, problem.message) : null,
    rows.length
      ? el(
          "table",
          {},
          el("caption", { class: "hidden" }, `Times on ${name}`),
          el(
            "tbody",
            {},
            rows.map((row) => formatRow(row, row === best, longest, state)),
          ),
        )
      : null,
  );
}

function formatRow(row, isBest, longest, state) {
  const head = el("th", { scope: "row" }, row.label);
  if (row.error) return el("tr", {}, head, el("td", { class: "why", title: row.error }, "cannot compute it"));
  const seconds = judgedS(row);
  const bar = el("span", { class: row.expected ? "bar" : "bar ideal" });
  bar.style.width = `${(seconds / longest) * 100}%`;
  const spread = row.expected ? el("span", { class: "spread" }) : null;
  if (spread) {
    spread.style.left = `${(row.expected.low_s / longest) * 100}%`;
    spread.style.width = `${((row.expected.high_s - row.expected.low_s) / longest) * 100}%`;
  }
  const title = row.expected
    ? `expected ${time(seconds)} (${interval(row.expected.low_s, row.expected.high_s)}), ideal ${time(row.timeS)}, ${row.bound}-bound`
    : `ideal ${time(row.timeS)}, ${row.bound}-bound; no expected time`;
  return el(
    "tr",
    { class: row.format === state.focus ? "chosen" : null, title },
    head,
    el(
      "td",
      { class: isBest ? "n strongest" : "n" },
      number(seconds, time(seconds)),
      el("span", { class: "quiet source" }, row.memory?.fits === false ? " too big" : row.expected ? "" : " ideal"),
    ),
    el("td", { class: "track" }, el("span", { class: "lane", "aria-hidden": "true" }, bar, spread)),
  );
}

/** Say that chips of the link are not known. */
export function showCompareErrors(chips) {
  say(
    byId("error-compare"),
    chips
      .slice(1)
      .filter((chip) => !chip.chip && chip.problem)
      .map((chip) => chip.problem.message)
      .join(" "),
  );
}
