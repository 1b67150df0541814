// Bundle plotly_entry.js as plotly.js builds itself (its esbuild-config.js), and list the packages whose code is inside.
// usage: node build.mjs OUT.js PACKAGES.json
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { environmentPlugin } from "esbuild-plugin-environment";
import { glsl } from "esbuild-plugin-glsl";
import inlineCss from "esbuild-plugin-inline-css";

// plotly.js's own bundles leave these out, too (its tasks/compress_attributes.js): texts for people who read the schema.
const TEXT = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[\s\S]*?\]\s*\.join\(\s*['"][^'"]*['"]\s*\)/.source;
const DESCRIPTION = new RegExp(`\\bdescription:\\s*(?:${TEXT})\\s*(?:,|(?=}))`, "g");
const withoutDescriptions = {
  name: "without-descriptions",
  setup: (build) =>
    build.onLoad({ filter: /plotly\.js[\\/]src[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(DESCRIPTION, ""),
    })),
};

const [outfile, packages] = process.argv.slice(2);
const result = await build({
  entryPoints: ["plotly_entry.js"],
  outfile,
  metafile: true,
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  legalComments: "none",
  charset: "ascii",
  plugins: [withoutDescriptions, (inlineCss.default ?? inlineCss)(), glsl({ minify: true }), environmentPlugin({ NODE_DEBUG: false })],
  alias: { regl: "@plotly/regl", stream: "stream-browserify" },
  define: { global: "window", "define.amd": "false" },
  target: "es2016",
  logLevel: "error",
});
const inside = Object.values(result.metafile.outputs)[0].inputs;
const names = Object.entries(inside)
  .filter(([, part]) => part.bytesInOutput > 0)
  .map(([path]) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(path)?.[1])
  .filter(Boolean);
writeFileSync(packages, JSON.stringify([...new Set(names)].sort()));
