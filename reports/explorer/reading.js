// What the server says of the answers that are shown: sentences come with the numbers handed back, and are placed as they are.

import { post } from "./api.js";
import { judgedS } from "./answers.js";

/** What is missing to run a row: "", "kernel", or "engine" where a library has the kernel and no serving engine has. */
export const gapOf = ({ kernelGap }) => (!kernelGap ? "" : kernelGap.values.library === undefined ? "kernel" : "engine");

/** Return {headline, why, remarks, largest_part, traffic} of a row; null for none. */
export function askReading(state, row, isMisfit, signal) {
  if (!row) return null;
  return post("api/explorer/reading", { answer: facts(state.op, row), is_misfit: isMisfit }, signal);
}

/** Return the sentences about {chip, rows, best, misfit} of several chips, the chosen one first. */
export async function askVerdicts(chips, focus, signal) {
  const present = chips.filter(({ chip }, index) => index === 0 || chip);
  const body = {
    chips: present.map(({ key, chip, rows, best, misfit }) => ({
      name: chip?.name ?? key,
      recommended: best ? chipTime(best) : null,
      chosen: chipTime(rows.find((row) => row.format === focus?.format && !row.error)),
      misfit: misfit ?? "",
    })),
    focus: focus ? { label: focus.label, is_added: Boolean(focus.isAdded) } : null,
  };
  return (await post("api/explorer/verdicts", body, signal)).sentences;
}

const chipTime = (row) =>
  row
    ? { label: row.label, time_s: judgedS(row), is_expected: Boolean(row.expected), gap: gapOf(row), fits: row.memory?.fits ?? null }
    : null;

function facts(operator, row) {
  const { expected, memory, answer } = row;
  const findings = [answer.coverage, answer.engine_gap, expected?.beside_ideal, ...(expected?.findings ?? []), ...row.findings].filter(Boolean);
  return {
    operator,
    label: row.label,
    weight: row.weight,
    activation: row.activation,
    is_baseline: row.format === row.baseline,
    baseline: row.baseline,
    time_s: row.timeS,
    bound: row.bound,
    intensity_flop_per_byte: row.intensity,
    ridge_flop_per_byte: row.ridge,
    flops: row.flops,
    moved_bytes: row.movedBytes,
    path: row.path,
    compute_format: row.computeFormat,
    is_placeholder: row.isPlaceholder,
    speedup_ratio: row.speedup,
    expected_speedup_ratio: row.expectedSpeedup,
    expected: expected && {
      time_s: expected.time_s,
      low_s: expected.low_s,
      high_s: expected.high_s,
      provenance: expected.provenance,
      parts_s: expected.parts_s,
    },
    memory: memory ? { total_bytes: memory.total_bytes, usable_bytes: memory.usable_bytes, fits: memory.fits } : null,
    gap: gapOf(row),
    gap_text: row.kernelGap?.text ?? "",
    codes: row.findings.map(({ code }) => code),
    notes: [...findings.map(({ text }) => text), ...(!expected && row.expectedReason ? [row.expectedReason] : [])],
  };
}
