// The page's words: labels and the fixed sentences, one catalog without logic. What a number says of an answer comes from the server
// (reports/text/answer_words.py and the findings of the answers).

/** Put values into the braces of a text: fit("{count} more", { count: 3 }). */
export const fit = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

export const ANSWER = {
  none: "Prediction",
  mend: "No prediction until the marked input is mended.",
  shared: "No prediction. {reason}",
  noFormat: "No prediction: the chip computes in none of these formats.",
  nothing: "Nothing to compare until there is a prediction.",
  unranked: "The recommendation is still being computed.",
  title: "{question} on {chip}",
};

export const FIGURES = {
  expected: "Expected",
  noExpected: "no model for this",
  ideal: "Ideal",
  roof: "Roof",
  intensity: "Intensity",
  ridge: "Ridge",
  perByte: "FLOP per byte",
  peakOver: "{peak} over {bandwidth}",
  tokens: "Tokens/s",
  memory: "Memory",
  unfused: "Unfused",
  unfusedNote: "ideal of three kernels",
};
export const ROOF_OF = { memory: "bytes / bandwidth", compute: "FLOPs / peak" };
export const KNOWN_BY = { true: "expected", false: "ideal" };
export const FITS = { true: "fits in {capacity} usable", false: "does not fit in {capacity} usable", null: "capacity unknown" };

export const TABLE = {
  label: "Table of formats",
  role: "Advice",
  format: "Format",
  expected: "Expected",
  interval: "80 % of times",
  ideal: "Ideal",
  measured: "Measured",
  against: "vs {baseline}",
  noBaseline: "16 bit",
  tokens: "Tokens/s",
  memory: "Memory",
  bound: "Bound",
  intensity: "FLOP/byte",
  ridge: "Ridge",
  path: "Path",
  notKnown: "not known",
  doubtful: "doubtful",
  best: "best",
  recommended: "recommended",
  tooBig: "too big",
  isIdeal: "ideal",
  wideQuery: " With a 16-bit query: ",
  add: "Add {format}",
};
export const GAPS = { kernel: "no kernel", engine: "no engine" };
export const PATHS = { native: "native", emulated: "emulated in {format}", dequantize: "via {format}" };

export const BATCHES = {
  table: "Best batch of each format within the limits",
};

export const DETAIL = {
  nothing: "Nothing to take apart until there is a prediction.",
  traffic: "{format}. {traffic}",
  noParts: "No expected time, so no parts of it.",
  caption: "Time by {kind}",
  kernels: "kernels",
  parts: "parts",
  more: "{count} more",
  all: "all",
  tiling: "Tiling",
  waves: "{blocks} on {units}: {each} each on average, so {waves}.",
  waveLabel: "{waves}, the last {share} full",
  efficiency: "Efficiency over N",
  efficiencyLabel: "Share of the tensor peak over N; the table above has the numbers at the N asked for.",
  memory: "Memory",
  unknown: "unknown",
};
/** What each part of an expected time is. */
export const PARTS = {
  launch: "the shortest this kernel can be",
  tensor: "tensor pipe",
  dram: "DRAM traffic",
  l2: "operands refetched from L2, output written",
  sm: "load path of one SM",
  latency: "steps that wait for each other",
  waves: "prologue and epilogue of further waves",
  dequantize: "widening the weights",
  widen_kv: "widening the cache",
  split: "split work: partial results written, read and added",
  cast: "quantising the activations",
  serial: "serial part of the GEMV kernel",
  kernel: "this kernel beyond the machine's ceilings, as calibrated",
  library: "what this chip's library takes beyond the formulas",
  append: "appending to the cache",
};
/** Facts of a tile: [name, what its number is]. */
export const TILE = {
  tile: ["Tile", "{family} kernels{split}"],
  split: ", k cut into {count}",
  blocks: ["Blocks", "{rows} × {columns} on {units}"],
  waves: ["Waves", "with a tail that leaves {share} of the SM time idle"],
  padding: ["Padding", "of the tiles' area lies outside the output"],
  occupancy: ["Occupancy", "per SM, limited by {limiter}; {share} of the warps"],
  l2: ["L2 hits", "of {size} that the blocks ask for"],
  peak: ["Of peak", "expected; bound by {bound}"],
};
export const MEMORY = {
  weights_bytes: "Weights",
  kv_bytes: "KV cache",
  activation_bytes: "Activations",
  total_bytes: "Together",
  capacity_bytes: "The chip has",
};

export const ADVICE = {
  next: "Next:",
  mend: "No ranking until the marked input is mended.",
  tokens: "{rate} tokens/s",
  idealTokens: "ideal {rate} tokens/s",
  quality: "Quality: {quality}.",
  query: "Query in {format}.",
  loss: "Loss {quality}.",
  more: "{count} more",
  excluded: "{count} excluded",
  gap: "no kernel here",
  within: "Within {limits}, by the upper end of the {source} time of a pass.",
  limit: "a loss of at most {most} %",
  memory: "{size} and {loss}",
};
/** By what a ranking is ordered. */
export const RANKED_BY = {
  expected: "Ranked for {phase} by the end of the 80 % interval of the expected time.",
  ideal: "Ranked for {phase} by ideal time.",
  measured: "Ranked for {phase} by measured time.",
};
export const STORED = {
  title: "What the stored runs say",
  confidence: "Confidence {confidence}: {reason}.",
  span: "{low} to {high}",
  earlier: "and {runs}",
};

export const COMPARE = {
  onlyChip: "Only one chip so far: add up to three others.",
  full: "{count} at most",
  choose: "choose…",
  scale:
    "Bars to one logarithmic scale from {low} to {high}, a line for each factor of ten; shorter is faster. Filled: expected time with its 80 % interval; outlined: ideal time where no expected one is known.",
  chosen: "chosen",
  remove: "Remove {chip}",
  placeholder: "placeholder",
  misfit: "Nothing is recommended: {reason}",
  times: "Times on {chip}",
  cannot: "cannot compute it",
  expected: "expected {time} ({interval}), ideal {ideal}, {bound}-bound",
  ideal: "ideal {ideal}, {bound}-bound; no expected time",
  unknown: "No chip here is called “{name}”.",
  meant: "Did you mean",
};

export const MEASURED = {
  noDatabase:
    "There is no results database here yet. `pytest bench_cases -k gemv` makes one; `roofline serve --db PATH` names another.",
  reading: "Reading the database…",
  noRun: "No run is stored yet. Measure some with `pytest bench_cases -k gemv` and reload this page.",
  runs: "{runs} stored, of {chips}. Choose one to lay its measured points over the roofline.",
  none: "none",
  run: "Run",
  only: "Only cases with",
  example: "gemv 4096 INT4",
  noMatch: "No measured case has all these words.",
  nothing: "This run measured nothing: it holds predictions or skipped cases only.",
  first: "{total}, the first {count} shown; narrow them down by words.",
  all: "{total}.",
  above: "They lie on the roofline above.",
  elsewhere: "They were measured on {measuredOn}, so they are drawn under its own roofs, not over those of {chip}.",
  simulated: "Simulated: these times come from an imaginary device, not from hardware.",
  plot: "Roofline of {chip} with {total}",
  noLabel: "no label",
  forced: "forced: measured on another machine than its chip",
  report: "Open its report",
  download: "Download its report",
  doubtful: "Doubtful: {doubts}.",
  table: "Table of {cases}",
  tableOf: "Cases of {run}",
  heads: ["Case", "Format", "Kernel", "Measured", "±", "Expected", "Error", "Ideal", "Of roof", "Bound"],
  figure: "Figure",
  noFigure: "none",
  offBy: "{interval}, off by {error}",
  ofRoof: "{share} of the roof",
  rate: "Rate",
  bound: "{bound}-bound",
};

export const GPU = {
  broke: "The stream broke off; asking again.",
  notLive: "not live",
  live: "{name} · live",
  gpu: "GPU",
  asking: "Asking the sensors…",
  none: "No GPU here. Predictions need none; measuring on one does.",
  refused: "The sensors say: {reason}",
  power: "Power",
  smClock: "SM clock",
  memoryClock: "Memory clock",
  temperature: "Temperature",
  load: "Load",
  loadNote: "of the last sensor period",
  memory: "Memory used",
  untold: "This GPU does not say why its clock is where it is.",
  held: "The clock is held back: {reasons}.",
  free: "Nothing holds the clock back.",
  spark: "Power of the last {count} readings: {low} to {high}",
};

export const FORM = {
  asked: "{question} · {chip}",
  change: "Change the question",
  formats: "One for both operands, or {weight} / {activation}; up to {count}.",
  meant: "Did you mean",
  placeholder: "{chip} (placeholder)",
  thisMachine: "This machine: {chip}",
  choose: "choose a chip…",
  examples: "Examples",
  limits: "Limits of the recommendation",
  none: "none",
  invented: "invented numbers, for examples only",
  tooMany: "Up to {count} formats at a time: leave one out first.",
  keepOne: "Keep at least one format.",
  number: "Give a number.",
};

export const PAGE = {
  title: "Roofline explorer",
  titled: "{question} · Roofline explorer",
  plot: "Roofline of {chip}: {headline} The table of formats has the numbers.",
  noPlot: "Nothing to draw until there is a prediction.",
  tap: "Tap a point for its numbers; it becomes the chosen format.",
  drag: "Drag to move, double-click to reset; a click on a point chooses its format.",
  cases: "{cases} of the chosen run.",
  notDrawn: "Not drawn, as {chip} computes in none of them: {formats}.",
  copied: "Copied.",
  copyYourself: "Copy it from the address bar.",
  token: "This server asks for its token: open the page as /#token=… with the token that `roofline serve` printed.",
  noServer: "The server does not answer. Start it with `roofline serve`; this page asks again with your next change.",
  refused: "The server answered {status}.",
  noPlotly: "The plot cannot be drawn: the server has no copy of plotly.js. The table below has the same numbers.",
};
