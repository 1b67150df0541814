// The traces that the report draws: scatter (in core), scattergl for many points, bar and box. `strict` needs no function constructor, so that the
// page's Content-Security-Policy can forbid it.
"use strict";
const Plotly = require("plotly.js/lib/core");
Plotly.register([require("plotly.js/lib/bar"), require("plotly.js/lib/box"), require("plotly.js/src/traces/scattergl/strict")]);
module.exports = Plotly;
