// Up to four chips side by side: every chosen format on each, drawn to one scale.

import { isOfEngines, judgedS } from "./answers.js";
import { verdicts } from "./chip_verdict.js";
import { nearestChips, unknownChip } from "./chip_names.js";
import { byId, el, fill, number, options, withBreaks } from "./dom.js";
import { byteRate, bytes, interval, time } from "./numbers.js";
import { chipOf, comparedOf, MOST_CHIPS } from "./state.js";

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
          ["", isFull ? `${MOST_CHIPS} at most` : "choose…"],
          ...(isFull ? [] : left.map((chip) => [chip.key, chip.name])),
        ],
        "",
      ),
    );
    select.disabled = isFull;
  };
}

/** Show the answers of all chips, the main one first; `catalog` knows what an unknown one may have meant. */
export function showCompare(chips, focus, store, catalog) {
  const rows = chips.flatMap((chip) => chip.rows).filter((row) => !row.error);
  const scale = timeScale(rows);
  const shown = chips.filter((chip, index) => index || chip.chip);
  fill(
    byId("compare"),
    chips.length === 1
      ? el("p", { class: "quiet" }, "Only one chip so far: add up to three others.")
      : verdicts(chips, focus).map((text) => el("p", {}, text)),
    el(
      "div",
      { class: "chips-row" },
      shown.map((chip) => card(chip, chip === chips[0], scale, store, catalog)),
    ),
    rows.length
      ? el(
          "p",
          { class: "quiet" },
          `Bars to one logarithmic scale from ${time(scale.low)} to ${time(scale.high)}, a line for each factor of ten; shorter is faster. Filled: expected time with its 80 % interval; outlined: ideal time where no expected one is known.`,
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
        ? el("span", { class: "quiet" }, "chosen")
        : el(
            "button",
            { type: "button", class: "small", "aria-label": `Remove ${name}`, onclick: () => remove(store, key) },
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
            chip.is_placeholder ? "placeholder" : "",
          ]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
    chip ? null : unknown(key, problem, store, catalog),
    misfit ? el("p", { class: "quiet" }, `Nothing is recommended: ${misfit}`) : null,
    chip && problem && !rows.some((row) => !row.error) ? el("p", { class: "error" }, problem.message) : null,
    rows.length && !Object.keys(errors).length // an input that is wrong is wrong on every chip
      ? el(
          "table",
          {},
          el("caption", { class: "hidden" }, `Times on ${name}`),
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
  if (row.error) return [el("tr", {}, head, el("td", { class: "why", title: row.error }, "cannot compute it"))];
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
  const title = row.expected
    ? `expected ${time(seconds)} (${interval(row.expected.low_s, row.expected.high_s)}), ideal ${time(row.timeS)}, ${row.bound}-bound`
    : `ideal ${time(row.timeS)}, ${row.bound}-bound; no expected time`;
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
  if (row.kernelGap) return isOfEngines(row) ? " no engine" : " no kernel";
  if (row.memory?.fits === false) return " too big";
  return row.expected ? "" : " ideal";
}

/** Say of a chip of the link that it is not known, and offer those whose names come near in its place. */
function unknown(key, problem, store, catalog) {
  const others = comparedOf(store.get());
  const near = nearestChips(catalog, problem).filter((chip) => !others.includes(chip.key));
  const instead = (chip) => store.set({ compare: others.map((one) => (one === key ? chip.key : one)).join(",") });
  return [
    el("p", { class: "error" }, unknownChip(key)),
    near.length
      ? el(
          "div",
          { class: "presets nearest" },
          el("span", { class: "hint" }, "Did you mean"),
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
