// Up to four chips side by side: every chosen format on each, drawn to one scale.

import { judgedS } from "../answers.js";
import { byId, el, fill, number, options, withBreaks } from "../dom.js";
import { byteRate, bytes, interval, time } from "../numbers.js";
import { gapOf } from "../reading.js";
import { chipOf, comparedOf, MOST_CHIPS, nearestChips } from "../state.js";
import { COMPARE, fit, GAPS, TABLE } from "../words.js";

/** Connect the list of further chips. */
export function startCompare(store, catalog) {
  const select = byId("compare-add");
  select.addEventListener("change", () => {
    const key = select.value;
    if (key) store.set({ compare: [...comparedOf(store.get()), key].join(",") });
    select.focus();
  });
  let shown = ""; // the chips that the list leaves out
  return (state) => {
    const compared = comparedOf(state);
    const about = [state.hw, ...compared].join();
    if (about === shown) return;
    shown = about;
    const left = catalog.hardware.filter((chip) => chip.key !== chipOf(catalog, state.hw)?.key && !compared.includes(chip.key));
    const isFull = compared.length >= MOST_CHIPS - 1;
    fill(
      select,
      options(
        [
          ["", isFull ? fit(COMPARE.full, { count: MOST_CHIPS }) : COMPARE.choose],
          ...(isFull ? [] : left.map((chip) => [chip.key, chip.name])),
        ],
        "",
      ),
    );
    select.disabled = isFull;
  };
}

/** Show the answers of all chips, the main one first, with what the server says of them; `catalog` knows what an unknown one may
 *  have meant. */
export function showCompare(chips, sentences, store, catalog) {
  const rows = chips.flatMap((chip) => chip.rows).filter((row) => !row.error);
  const scale = timeScale(rows);
  const shown = chips.filter((chip, index) => index || chip.chip);
  fill(
    byId("compare"),
    chips.length === 1
      ? el("p", { class: "quiet" }, COMPARE.onlyChip)
      : sentences.map((text) => el("p", {}, text)),
    el(
      "div",
      { class: "chips-row" },
      shown.map((chip) => card(chip, chip === chips[0], scale, store, catalog)),
    ),
    rows.length
      ? el(
          "p",
          { class: "quiet" },
          fit(COMPARE.scale, { low: time(scale.low), high: time(scale.high) }),
        )
      : null,
  );
}

/** Remove from the list of compared chips. */
function remove(store, key) {
  store.set({
    compare: comparedOf(store.get())
      .filter((other) => other !== key)
      .join(","),
  });
  byId("compare-add").focus();
}

function card({ key, chip, rows, errors, problem, best, misfit }, isMain, scale, store, catalog) {
  const name = chip?.name ?? key;
  return el(
    "article",
    { class: "chip-card", "data-chip": key, "aria-label": name },
    el(
      "div",
      { class: "title-row" },
      el("h3", {}, name),
      isMain
        ? el("span", { class: "quiet" }, COMPARE.chosen)
        : el(
            "button",
            { type: "button", class: "small", "aria-label": fit(COMPARE.remove, { chip: name }), onclick: () => remove(store, key) },
            "×",
          ),
    ),
    chip
      ? el(
          "p",
          { class: "quiet" },
          [
            byteRate(chip.bandwidth_bytes_per_s),
            chip.capacity_bytes === null ? "" : bytes(chip.capacity_bytes),
            chip.is_placeholder ? COMPARE.placeholder : "",
          ]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
    chip ? null : unknown(key, problem, store, catalog),
    misfit ? el("p", { class: "quiet" }, fit(COMPARE.misfit, { reason: misfit })) : null,
    chip && problem && !rows.some((row) => !row.error) ? el("p", { class: "error" }, problem.message) : null,
    rows.length && !Object.keys(errors).length // an input that is wrong is wrong on every chip
      ? el(
          "table",
          {},
          el("caption", { class: "hidden" }, fit(COMPARE.times, { chip: name })),
          el(
            "tbody",
            {},
            rows.flatMap((row) => formatRows(row, row === best, scale)),
          ),
        )
      : null,
  );
}

/** Return the row of a format and, below it, the row of its bar. */
function formatRows(row, isBest, scale) {
  const head = el("th", { scope: "row" }, withBreaks(row.label));
  if (row.error) return [el("tr", {}, head, el("td", { class: "why", title: row.error }, COMPARE.cannot))];
  const seconds = judgedS(row);
  const bar = el("span", { class: row.expected ? "bar" : "bar ideal" });
  bar.style.width = `${scale.at(seconds)}%`;
  const spread = row.expected ? el("span", { class: "spread" }) : null;
  if (spread) {
    const [start, end] = [row.expected.low_s, row.expected.high_s].map(scale.at);
    spread.style.left = `${start}%`;
    spread.style.width = `${end - start}%`;
  }
  const lane = el("span", { class: "lane" }, bar, spread);
  lane.style.backgroundSize = `${scale.decade}% 100%`;
  const title = fit(row.expected ? COMPARE.expected : COMPARE.ideal, {
    time: time(seconds),
    interval: row.expected ? interval(row.expected.low_s, row.expected.high_s) : "",
    ideal: time(row.timeS),
    bound: row.bound,
  });
  const gap = row.kernelGap ? `; ${row.kernelGap.text}` : "";
  return [
    el(
      "tr",
      { title: title + gap },
      head,
      el(
        "td",
        { class: isBest ? "n strongest" : "n" },
        number(seconds, time(seconds)),
        el("span", { class: "quiet source" }, mark(row)),
      ),
    ),
    el("tr", { class: "track", title: title + gap, "aria-hidden": "true" }, el("td", { colspan: "2" }, lane)),
  ];
}

function mark(row) {
  if (row.kernelGap) return ` ${GAPS[gapOf(row)]}`;
  if (row.memory?.fits === false) return ` ${TABLE.tooBig}`;
  return row.expected ? "" : ` ${TABLE.isIdeal}`;
}

/** Say of a chip of the link that it is not known, and offer those whose names come near in its place. */
function unknown(key, problem, store, catalog) {
  const others = comparedOf(store.get());
  const near = nearestChips(catalog, problem).filter((chip) => !others.includes(chip.key));
  const instead = (chip) => store.set({ compare: others.map((other) => (other === key ? chip.key : other)).join(",") });
  return [
    el("p", { class: "error" }, fit(COMPARE.unknown, { name: key })),
    near.length
      ? el(
          "div",
          { class: "presets nearest" },
          el("span", { class: "hint" }, COMPARE.meant),
          near.map((chip) => el("button", { type: "button", onclick: () => instead(chip) }, chip.name)),
        )
      : null,
  ];
}

/** Return {low, high, decade, at}: a logarithmic scale from the power of ten below the shortest time; `at` gives percent. */
function timeScale(rows) {
  const high = Math.max(...rows.map((row) => row.expected?.high_s ?? row.timeS));
  const shortest = Math.min(...rows.map((row) => row.expected?.low_s ?? row.timeS));
  const low = 10 ** Math.floor(Math.log10(shortest * 0.8)); // the fastest keeps a bar that can be seen
  const decades = Math.log10(high / low);
  return { low, high, decade: 100 / decades, at: (seconds) => (Math.log10(seconds / low) / decades) * 100 };
}
