// The sensors of the server's GPU, live; closed while nobody looks.

import { ApiProblem, get } from "../api.js";
import { byId, el, fill, say, sentence } from "../dom.js";
import { bytes, MISSING, percent, prefixed } from "../numbers.js";
import { fit, GPU } from "../words.js";

const EACH_MS = 1000;
const AGAIN_MS = 5000;
const KEPT_READINGS = 120;
const LEAST_DRAWN = 8; // fewer are a dot, not a course
const SPARK = { width: 240, height: 36 };

/** Ask for the sensors each second for as long as the page is visible and the server has a GPU. */
export function startGpu() {
  let controller = null;
  let isUnavailable = false;
  let timer = null;
  const powers = [];

  async function watch() {
    clearTimeout(timer);
    controller = new AbortController();
    try {
      const status = await get("api/nvml/status", controller.signal);
      isUnavailable = !status.available;
      if (isUnavailable) return showNone(status.reason);
      powers.push(status.reading.power_w);
      if (powers.length > KEPT_READINGS) powers.shift();
      showReading(status, powers);
      timer = setTimeout(watch, EACH_MS);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      again(problem instanceof ApiProblem ? problem.message : GPU.broke);
    }
  }

  function again(why) {
    say(byId("gpu-state"), GPU.notLive);
    fill(byId("gpu"), el("p", { class: "quiet" }, why));
    timer = setTimeout(watch, AGAIN_MS);
  }

  document.addEventListener("visibilitychange", () => {
    if (isUnavailable) return;
    if (document.hidden) {
      clearTimeout(timer);
      controller?.abort();
    } else watch();
  });
  fill(byId("gpu"), el("p", { class: "quiet" }, GPU.asking));
  watch();
}

function showNone(reason) {
  say(byId("gpu-state"), "");
  fill(
    byId("gpu"),
    el("p", {}, GPU.none),
    reason ? el("p", { class: "quiet" }, fit(GPU.refused, { reason: sentence(reason) })) : null,
  );
}

function showReading({ name, reading }, powers) {
  say(byId("gpu-state"), fit(GPU.live, { name: name ?? GPU.gpu }));
  const facts = [
    [GPU.power, prefixed(reading.power_w, "W", 3), null],
    [GPU.smClock, prefixed(reading.sm_clock_hz, "Hz", 4), null],
    [GPU.memoryClock, prefixed(reading.memory_clock_hz, "Hz", 4), null],
    [GPU.temperature, reading.temperature_c === null ? MISSING : `${reading.temperature_c} °C`, null],
    [GPU.load, percent(reading.utilization_ratio), GPU.loadNote],
    [GPU.memory, reading.memory_used_bytes === null ? MISSING : bytes(reading.memory_used_bytes), null],
  ];
  const reasons = reading.throttle_reasons;
  fill(
    byId("gpu"),
    el(
      "dl",
      { class: "figures" },
      facts.map(([label, value, note]) =>
        el("div", {}, el("dt", {}, label), el("dd", {}, value), note ? el("dd", { class: "quiet" }, note) : null),
      ),
    ),
    el(
      "p",
      { class: "quiet" },
      reasons === null
        ? GPU.untold
        : reasons.length
          ? fit(GPU.held, { reasons: reasons.join(", ") })
          : GPU.free,
    ),
    spark(powers),
  );
}

/** Draw the power of the last two minutes. */
function spark(values) {
  const readings = values.filter((value) => value !== null);
  if (readings.length < LEAST_DRAWN) return null;
  const [low, high] = [Math.min(...readings), Math.max(...readings)];
  const x = (index) => (index / (KEPT_READINGS - 1)) * SPARK.width;
  const y = (value) => SPARK.height - 3 - ((value - low) / (high - low || 1)) * (SPARK.height - 6);
  const shapes = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(shapes, "svg");
  for (const [key, value] of Object.entries({
    viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
    class: "spark",
    role: "img",
    "aria-label": fit(GPU.spark, { count: values.length, low: prefixed(low, "W", 3), high: prefixed(high, "W", 3) }),
  }))
    svg.setAttribute(key, value);
  const line = document.createElementNS(shapes, "polyline");
  line.setAttribute(
    "points",
    values
      .map((value, index) => (value === null ? "" : `${x(index).toFixed(1)},${y(value).toFixed(1)}`))
      .filter(Boolean)
      .join(" "),
  );
  svg.append(line);
  return svg;
}
