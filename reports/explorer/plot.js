// Figures of the server, drawn by the script that reports share, and drawn anew when the page's colours or width change.

import { drawFigure, legendOf } from "../figures/figure.js";
import { el } from "./blocks.js";
import { isDark } from "./theme.js";

const BUNDLE = "vendor/plotly-report.min.js";
const NO_BUNDLE = "The plot cannot be drawn: the server has no copy of plotly.js. The tables have the same numbers.";
const figures = new Map(); // name → figure
let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = el("script", { src: BUNDLE });
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(NO_BUNDLE)));
    document.head.append(script);
  });
  return loading;
}

/** Draw figures by name into the places that the blocks made for them; `onPick` gets the key of a point that is clicked. */
export async function drawFigures(named, onPick) {
  for (const [name, figure] of Object.entries(named)) figures.set(name, figure);
  if (!Object.keys(named).length) return;
  try {
    await plotly();
  } catch (error) {
    for (const name of Object.keys(named)) document.getElementById(`legend-${name}`)?.replaceChildren(error.message);
    return;
  }
  for (const name of Object.keys(named)) {
    const plot = document.getElementById(`figure-${name}`);
    if (!plot) continue; // overtaken
    const isFirst = !plot.on;
    draw(name);
    if (!isFirst) continue;
    plot.on("plotly_click", ({ points }) => points[0]?.customdata && onPick(points[0].customdata));
    new ResizeObserver(() => plot.clientWidth && plot.clientWidth !== plot.drawnWidth && draw(name)).observe(plot);
  }
}

/** Draw every figure anew, in the colours that the page has now. */
export function redraw() {
  for (const name of figures.keys()) if (document.getElementById(`figure-${name}`)?.on) draw(name);
}

function draw(name) {
  const [plot, figure] = [document.getElementById(`figure-${name}`), figures.get(name)];
  const { font, xaxis } = figure.layout;
  const isNarrow = window.matchMedia("(max-width: 44rem)").matches;
  const hover = { bgcolor: figure.ground, bordercolor: xaxis.linecolor, font: { color: font.color, size: 12 }, align: "left", namelength: 0 };
  const axis = { fixedrange: isNarrow };
  plot.drawnWidth = plot.clientWidth;
  drawFigure(plot, figure, { isDark: isDark(), layout: { hovermode: "closest", hoverdistance: 16, hoverlabel: hover, dragmode: isNarrow ? false : "pan", xaxis: axis, yaxis: axis } });
  document.getElementById(`legend-${name}`).replaceChildren(...legendOf(figure, isDark()).map((entry) => el("span", { class: "mark" }, entry.mark, entry.text)));
  if (!figure.colours) return;
  for (const mark of document.querySelectorAll(".swatch"))
    if (figure.colours[mark.dataset.format]) mark.style.backgroundColor = figure.colours[mark.dataset.format][isDark() ? 1 : 0];
}
