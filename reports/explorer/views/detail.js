// Where the expected time of one format goes, and the tile that its product gets.

import { byId, el, fill, number, sentence } from "../dom.js";
import { bytes, count, counted, percent, significant, time } from "../numbers.js";
import { drawOther } from "./plot.js";
import { DETAIL, fit, MEMORY, PARTS, TILE } from "../words.js";

const LEAST_SHARE = 0.005;
/** Less than a picosecond is no time: what is left of a formula whose term is zero. */
const LEAST_S = 1e-12;

/** Show the parts of the focused row's time and, for a product, its tiling ({answer} or {problem}). */
export function showDetail(row, reading, tiling) {
  if (!row) return fill(byId("detail"), el("p", { class: "quiet" }, DETAIL.nothing));
  const parts = row.expected?.parts_s ? Object.entries(row.expected.parts_s) : modelParts(row);
  fill(
    byId("detail"),
    el("p", { class: "quiet" }, fit(DETAIL.traffic, { format: row.label, traffic: reading.traffic })),
    parts ? partsList(parts, row.memory ? DETAIL.kernels : DETAIL.parts) : el("p", {}, DETAIL.noParts),
    tiling ? tilingNodes(tiling) : null,
    row.memory ? memoryList(row.memory) : null,
  );
  const place = byId("tiling-plot");
  return place ? drawOther(place, byId("tiling-key"), tiling.figure) : null;
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
  const rows = [...shown, ...(rest.length ? [[shown.length ? fit(DETAIL.more, { count: rest.length }) : DETAIL.all, left]] : [])];
  return el(
    "table",
    { class: "parts" },
    el("caption", { class: "hidden" }, fit(DETAIL.caption, { kind })),
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
            PARTS[name] ? el("span", { class: "quiet meaning" }, PARTS[name]) : null,
            el("span", { class: "rail" }, bar),
          ),
          el("td", { class: "n" }, number(seconds, time(seconds))),
          el("td", { class: "n share" }, percent(seconds / total, 1)),
        );
      }),
    ),
  );
}

function tilingNodes({ answer, problem, figure }) {
  const title = el("h3", {}, DETAIL.tiling);
  if (problem) return [title, el("p", {}, problem.message)];
  const { tiling } = answer;
  if (!tiling) return [title, el("p", {}, sentence(answer.tiling_reason.text))];
  const { occupancy } = tiling;
  const split = tiling.split_count > 1 ? fit(TILE.split, { count: tiling.split_count }) : "";
  const units = counted(tiling.sm_count, "SM");
  const facts = [
    [TILE.tile, `${tiling.tile_m} × ${tiling.tile_n} × ${occupancy.tile_k}`, { family: tiling.kernel_family, split }],
    [
      TILE.blocks,
      number(tiling.block_count, count(tiling.block_count)),
      { rows: count(tiling.grid_m_count), columns: count(tiling.grid_n_count), units },
    ],
    [TILE.waves, number(tiling.wave_count, count(tiling.wave_count)), { share: percent(tiling.tail_ratio) }],
    [TILE.padding, number(tiling.padding_ratio, percent(tiling.padding_ratio)), {}],
    [
      TILE.occupancy,
      counted(occupancy.block_count, "block"),
      { limiter: occupancy.limiter, share: percent(occupancy.warp_ratio) },
    ],
    ...(tiling.l2_hit_ratio === null
      ? []
      : [[TILE.l2, number(tiling.l2_hit_ratio, percent(tiling.l2_hit_ratio)), { size: bytes(tiling.requested_bytes) }]]),
    ...(tiling.efficiency_ratio === null
      ? []
      : [[TILE.peak, number(tiling.efficiency_ratio, percent(tiling.efficiency_ratio, 1)), { bound: tiling.bound }]]),
  ];
  return [
    title,
    el(
      "p",
      {},
      fit(DETAIL.waves, {
        blocks: counted(tiling.block_count, "block"),
        units,
        each: significant(tiling.blocks_per_sm_ratio, 3),
        waves: counted(tiling.wave_count, "wave"),
      }),
    ),
    waves(tiling),
    (tiling.findings ?? []).map((finding) => el("p", { class: "quiet" }, sentence(finding.text))),
    el(
      "dl",
      { class: "facts" },
      facts.map(([[name, text], value, values]) => [
        el("dt", {}, name),
        el("dd", {}, el("b", {}, value), " ", fit(text, values)),
      ]),
    ),
    figure
      ? [
          el("h3", {}, DETAIL.efficiency),
          el("div", { class: "plot small", id: "tiling-plot", role: "img", "aria-label": DETAIL.efficiencyLabel }),
          el("p", { class: "quiet", id: "tiling-key" }),
        ]
      : null,
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
      "aria-label": fit(DETAIL.waveLabel, { waves: counted(tiling.wave_count, "wave"), share: percent(last) }),
    },
    Array.from({ length: tiling.wave_count }, (_, index) => {
      const level = el("span", {});
      level.style.width = `${index === tiling.wave_count - 1 ? Math.max(2, last * 100) : 100}%`;
      return el("span", {}, level);
    }),
  );
}

function memoryList(memory) {
  const facts = Object.entries(MEMORY).map(([key, name]) => [name, memory[key]]);
  return [
    el("h3", {}, DETAIL.memory),
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => [
        el("dt", {}, name),
        el("dd", {}, value === null ? DETAIL.unknown : number(value, bytes(value))),
      ]),
    ),
  ];
}
