// Everything that is known of a case, beside the pointer and in the card under the plot.
const tip = el("div", { class: "tip", hidden: true, role: "presentation" });

function caseFacts(row) {
  const basis = row.total_basis ? ` (${row.total_basis})` : "";
  const span = isKnown(row.expected_low_s) && isKnown(row.expected_high_s) ? ` (${fit(WORDS.span, { low: show.time(row.expected_low_s), high: show.time(row.expected_high_s) })})` : "";
  const path = row.path && row.path !== "native" ? `${row.path} (${row.compute_format})` : row.path;
  return [
    [FACTS.standing, row.standing],
    [FACTS.measured_s, isKnown(row.measured_s) ? `${show.time(row.measured_s)} ± ${show.width(isKnown(row.total_ratio) ? row.total_ratio : row.within_ratio)}${basis}` : row.status, row.measured_s],
    [FACTS.expected_s, isKnown(row.expected_s) ? show.time(row.expected_s) + span : "", row.expected_s],
    [FACTS.ideal_s, isKnown(row.ideal_s) ? show.time(row.ideal_s) : "", row.ideal_s],
    [FACTS.error_expected_ratio, isKnown(row.error_expected_ratio) ? show.signed(row.error_expected_ratio) : "", row.error_expected_ratio],
    [FACTS.error_ideal_ratio, isKnown(row.error_ideal_ratio) ? show.signed(row.error_ideal_ratio) : "", row.error_ideal_ratio],
    [FACTS.roof_share_ratio, isKnown(row.roof_share_ratio) ? show.percent(row.roof_share_ratio) : "", row.roof_share_ratio],
    [FACTS.achieved_flops_per_s, isKnown(row.achieved_flops_per_s) ? show.flops(row.achieved_flops_per_s) : "", row.achieved_flops_per_s],
    [FACTS.achieved_bytes_per_s, isKnown(row.achieved_bytes_per_s) ? show.bandwidth(row.achieved_bytes_per_s) : "", row.achieved_bytes_per_s],
    [FACTS.intensity_flop_per_byte, isKnown(row.intensity_flop_per_byte) ? fit(WORDS.intensity, { value: show.plain(row.intensity_flop_per_byte) }) : "", row.intensity_flop_per_byte],
    [FACTS.bound, [row.bound, row.memory_level].filter(Boolean).join(", ")],
    [FACTS.path, path],
    [FACTS.power_w, isKnown(row.power_w) ? show.watts(row.power_w) : "", row.power_w],
    [FACTS.energy_j, isKnown(row.energy_j) ? show.energy(row.energy_j) : "", row.energy_j],
    [FACTS.regime, row.regime],
    [FACTS.flags, row.flags.join(", ")],
    [FACTS.constants, distinct([row.provenance, row.expected_provenance].filter(Boolean)).join(", ")],
    [FACTS.remarks, row.remarks && prose(row.remarks)],
  ].filter(([, text]) => text !== "");
}

function factList(facts) {
  return el("dl", { class: "card-facts" }, facts.map(([name, text, value]) => el("div", {}, el("dt", {}, name), el("dd", { "data-value": isKnown(value) ? value : null }, text))));
}

function caseCard(row) {
  const head = `${row.format} · ${row.kernel}`;
  return [el("p", { class: "card-title" }, el("strong", {}, head), " ", el("span", { class: "quiet" }, `${row.op} ${row.shape}`)), factList(caseFacts(row))];
}

function showTip(content, event) {
  tip.replaceChildren(...content.flat(Infinity));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 18 + box.width > innerWidth ? event.clientX - 18 - box.width : event.clientX + 18;
  const top = Math.min(Math.max(event.clientY - box.height / 2, 8), innerHeight - box.height - 8);
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${Math.max(top, 8)}px`;
}

function hideTip() {
  tip.hidden = true;
}
