// Batch against latency of a model: two limits of time as sliders. The server holds the curves against them, names the best and words it.

import { askBatches } from "../answers.js";
import { byId, el, fill, say, unbroken, withCode } from "../dom.js";
import { SLIDERS } from "../operators.js";
import { BATCHES } from "../words.js";
import { drawOther } from "./plot.js";

/** Return {show(state, signal)}: the section of the curves, empty and hidden for what is no model. */
export function startBatches(store) {
  const steps = { token: [], first: [] };
  for (const name of SLIDERS) {
    const slider = byId(`slider-${name}`);
    slider.addEventListener("input", () => {
      const step = steps[name][Number(slider.value)];
      if (step) store.set({ [name]: step.value_s === null ? "" : String(step.value_s) }, { typing: true });
    });
  }

  function showSlider(name, offered, value) {
    steps[name] = offered;
    const slider = byId(`slider-${name}`);
    const place = offered.findIndex(({ value_s: limit }) => (limit === null ? "" : String(limit)) === value);
    const step = offered.at(place); // a limit that no step has stands at the last place
    slider.max = String(offered.length - 1);
    slider.value = String(place < 0 ? offered.length - 1 : place);
    slider.setAttribute("aria-valuetext", place < 0 ? value : step.text);
    say(byId(`limit-${name}`), place < 0 ? `${value} s` : step.text);
  }

  return {
    async show(state, signal) {
      const section = byId("batches");
      const reply = await askBatches(state, signal);
      if (signal?.aborted) return;
      section.hidden = reply === null || reply.answer === undefined;
      if (section.hidden) return fill(byId("batch-table")); // what is hidden is nobody's answer
      const { answer } = reply;
      showSlider("token", answer.token_steps, state.token);
      showSlider("first", answer.first_token_steps, state.first);
      say(byId("batch-answer"), unbroken(answer.sentence));
      fill(byId("batch-basis"), withCode(answer.basis));
      fill(byId("batch-table"), answer.rows.length ? table(answer) : []);
      const place = byId("batch-plot");
      place.hidden = answer.figure.data.length === 0;
      place.setAttribute("aria-label", answer.sentence);
      try {
        if (!place.hidden) await drawOther(place, byId("batch-key"), answer.figure);
      } catch (error) {
        fill(byId("batch-key"), error.message);
      }
    },
  };
}

function table({ columns, rows }) {
  const heads = columns.map((head, index) => el("th", { scope: "col", class: index ? "n" : null }, head));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": BATCHES.table },
    el(
      "table",
      { class: "stacks" },
      el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, rows.map((row) => batchRow(row, columns))),
    ),
  );
}

function batchRow({ cells, is_choice: isChoice }, columns) {
  const [name, ...texts] = cells;
  return el(
    "tr",
    { class: isChoice ? "chosen" : null },
    el("th", { scope: "row" }, name),
    texts.map((text, index) => el("td", { class: "n", "data-head": columns[index + 1] }, text)),
  );
}
