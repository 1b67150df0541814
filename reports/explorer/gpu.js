// The sensors of the server's GPU, asked each second for as long as the page is visible and the server has a GPU.

import { ask } from "./api.js";
import { showSections } from "./blocks.js";

const EACH_MS = 1000;
const AGAIN_MS = 5000;
const KEPT_READINGS = 120;
const LEAST_DRAWN = 8; // fewer are a dot, not a course
const powers = [];
let timer = null;

export async function watchGpu() {
  clearTimeout(timer);
  if (document.hidden) return;
  const state = document.getElementById("gpu-state");
  try {
    const answer = await (await ask("api/explorer/gpu")).json();
    showSections(answer.sections);
    if (!answer.name) return;
    state.textContent = `${answer.name} · live`;
    drawPower(answer.power_w);
    timer = setTimeout(watchGpu, EACH_MS);
  } catch (problem) {
    state.textContent = `not live: ${problem.message}`;
    timer = setTimeout(watchGpu, AGAIN_MS);
  }
}

/** Draw the power of the last two minutes. */
function drawPower(power) {
  powers.push(power);
  if (powers.length > KEPT_READINGS) powers.shift();
  const known = powers.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const points = powers.map((value, at) => (value === null ? "" : `${2 * at},${33 - (30 * (value - low)) / (high - low || 1)}`));
  const spark = document.getElementById("gpu-power");
  spark.toggleAttribute("hidden", known.length < LEAST_DRAWN);
  spark.firstElementChild.setAttribute("points", points.join(" "));
}

document.addEventListener("visibilitychange", watchGpu);
