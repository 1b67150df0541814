// Plotly, loaded when the first figure is wanted, and the page's colours for it.

import { isDark } from "./theme.js";
import { rooflineFigure } from "./roofline_figure.js";

const BUNDLE = "vendor/plotly-report.min.js";
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = BUNDLE;
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () =>
      reject(
        new Error(
          "The plot cannot be drawn: the server has no copy of plotly.js. The table below has the same numbers.",
        ),
      ),
    );
    document.head.append(script);
  });
  return loading;
}

/** Return whether the page is as narrow as a phone; the same width as in explorer.css. */
export const isNarrow = () => window.matchMedia("(max-width: 44rem)").matches;

/** Draw a roofline into `place`; `onPick` gets the custom data of a clicked point. Returns the figure; throws without plotly. */
export async function drawRoofline(place, contents, onPick) {
  const figure = rooflineFigure({ ...contents, ink: pageInk(), isDark: isDark(), isNarrow: isNarrow() });
  const library = await plotly();
  await library.react(place, figure.data, figure.layout, CONFIG);
  if (!place.dataset.listens) {
    place.dataset.listens = "yes";
    place.on("plotly_click", (event) => event.points[0]?.customdata && place.pick?.(event.points[0].customdata));
  }
  place.pick = onPick;
  return figure;
}

/** Colour the format marks of the page as the plot does. */
export function paintSwatches(inks) {
  for (const mark of document.querySelectorAll("[data-format].swatch"))
    mark.style.backgroundColor = inks[mark.dataset.format] ?? "transparent";
}

const inks = new Map(); // theme → colours: asking for them makes the browser work out every style anew

function pageInk() {
  const theme = isDark();
  if (!inks.has(theme)) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    inks.set(theme, { ink: read("--ink"), muted: read("--quiet"), grid: read("--line"), card: read("--card") });
  }
  return inks.get(theme);
}
