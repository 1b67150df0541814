// Where the expected time of one format goes, and the tile that its product gets.

import { trafficLine } from "./answer_view.js";
import { MEANINGS } from "./binding.js";
import { byId, el, fill, number } from "./dom.js";
import { bytes, count, counted, percent, significant, time } from "./numbers.js";

const LEAST_SHARE = 0.005;
/** Less than a picosecond is no time: what is left of a formula whose term is zero. */
const LEAST_S = 1e-12;

/** Show the parts of the focused row's time and, for a product, its tiling ({answer} or {problem}). */
export function showDetail(row, tiling) {
  if (!row)
    return fill(byId("detail"), el("p", { class: "quiet" }, "Nothing to take apart until there is a prediction."));
  const parts = row.expected?.parts_s ? Object.entries(row.expected.parts_s) : modelParts(row);
  return fill(
    byId("detail"),
    el("p", { class: "quiet" }, `${row.label}. ${trafficLine(row)}`),
    parts ? partsList(parts, row.memory ? "kernels" : "parts") : el("p", {}, "No expected time, so no parts of it."),
    tiling ? tilingNodes(tiling) : null,
    row.memory ? memoryList(row.memory) : null,
  );
}

function modelParts(row) {
  if (!row.answer.kernels) return null;
  const isExpected = row.answer.kernels.every((kernel) => kernel.expected_s !== null);
  return row.answer.kernels.map((kernel) => [
    `${kernel.name}${kernel.calls_count > 1 ? ` ×${count(kernel.calls_count)}` : ""}`,
    isExpected ? kernel.expected_s : kernel.time_s,
  ]);
}

function partsList(all, kind) {
  const parts = all.filter(([, seconds]) => Math.abs(seconds) >= LEAST_S);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  const shown = parts.filter(([, seconds]) => Math.abs(seconds) >= LEAST_SHARE * total).sort((a, b) => b[1] - a[1]);
  const rest = parts.filter(([, seconds]) => Math.abs(seconds) < LEAST_SHARE * total);
  const left = rest.reduce((sum, [, seconds]) => sum + seconds, 0);
  const rows = [...shown, ...(rest.length ? [[shown.length ? `${rest.length} more` : "all", left]] : [])];
  return el(
    "table",
    { class: "parts" },
    el("caption", { class: "hidden" }, `Time by ${kind}`),
    el(
      "tbody",
      {},
      rows.map(([name, seconds]) => {
        const bar = el("span", { class: "bar", "aria-hidden": "true" });
        bar.style.width = `${Math.max(0, Math.min(100, (seconds / total) * 100))}%`;
        return el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            name,
            MEANINGS[name] ? el("span", { class: "quiet meaning" }, MEANINGS[name]) : null,
            el("span", { class: "rail" }, bar),
          ),
          el("td", { class: "n" }, number(seconds, time(seconds))),
          el("td", { class: "n share" }, percent(seconds / total, 1)),
        );
      }),
    ),
  );
}

function tilingNodes({ answer, problem }) {
  const title = el("h3", {}, "Tiling");
  if (problem) return [title, el("p", {}, problem.message)];
  const { tiling } = answer;
  if (!tiling) {
    const { text } = answer.tiling_reason;
    return [title, el("p", {}, `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`)];
  }
  const { occupancy } = tiling;
  const facts = [
    [
      "Tile",
      `${tiling.tile_m} × ${tiling.tile_n} × ${occupancy.tile_k}`,
      `${tiling.kernel_family} kernels${tiling.split_count > 1 ? `, k cut into ${tiling.split_count}` : ""}`,
    ],
    [
      "Blocks",
      number(tiling.block_count, count(tiling.block_count)),
      `${count(tiling.grid_m_count)} × ${count(tiling.grid_n_count)} on ${counted(tiling.sm_count, "SM")}`,
    ],
    [
      "Waves",
      number(tiling.wave_count, count(tiling.wave_count)),
      `with a tail that leaves ${percent(tiling.tail_ratio)} of the SM time idle`,
    ],
    [
      "Padding",
      number(tiling.padding_ratio, percent(tiling.padding_ratio)),
      "of the tiles' area lies outside the output",
    ],
    [
      "Occupancy",
      counted(occupancy.block_count, "block"),
      `per SM, limited by ${occupancy.limiter}; ${percent(occupancy.warp_ratio)} of the warps`,
    ],
    [
      "L2 hits",
      number(tiling.l2_hit_ratio, percent(tiling.l2_hit_ratio)),
      `of ${bytes(tiling.requested_bytes)} that the blocks ask for`,
    ],
    [
      "Of peak",
      number(tiling.efficiency_ratio, percent(tiling.efficiency_ratio, 1)),
      `expected; bound by ${tiling.bound}`,
    ],
  ];
  return [
    title,
    el(
      "p",
      {},
      `${counted(tiling.block_count, "block")} on ${counted(tiling.sm_count, "SM")}: ${significant(tiling.blocks_per_sm_ratio, 3)} each on average, so ${counted(tiling.wave_count, "wave")}.`,
    ),
    waves(tiling),
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value, text]) => [el("dt", {}, name), el("dd", {}, el("b", {}, value), ` ${text}`)]),
    ),
  ];
}

/** Draw how full the waves are: each box is a wave, the last one as full as it is. Many waves are left to the words. */
function waves(tiling) {
  if (tiling.wave_count > 24) return null;
  const last = tiling.block_count / tiling.sm_count - (tiling.wave_count - 1);
  return el(
    "div",
    {
      class: "waves",
      role: "img",
      "aria-label": `${counted(tiling.wave_count, "wave")}, the last ${percent(last)} full`,
    },
    Array.from({ length: tiling.wave_count }, (_, index) => {
      const level = el("span", {});
      level.style.width = `${index === tiling.wave_count - 1 ? Math.max(2, last * 100) : 100}%`;
      return el("span", {}, level);
    }),
  );
}

function memoryList(memory) {
  const facts = [
    ["Weights", memory.weights_bytes],
    ["KV cache", memory.kv_bytes],
    ["Activations", memory.activation_bytes],
    ["Together", memory.total_bytes],
    ["The chip has", memory.capacity_bytes],
  ];
  return [
    el("h3", {}, "Memory"),
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => [
        el("dt", {}, name),
        el("dd", {}, value === null ? "unknown" : number(value, bytes(value))),
      ]),
    ),
  ];
}
