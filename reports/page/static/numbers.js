// Numbers in words, to the character as roofline_model/core/units.py prints them: the static page and this one say the same.
const PREFIXES = [["p", 1e-12], ["n", 1e-9], ["µ", 1e-6], ["m", 1e-3], ["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15]];

function significant(value, digits) {
  const text = Number(value).toPrecision(digits);
  const number = Number(text);
  if (number !== 0 && (Math.abs(number) >= 10 ** digits || Math.abs(number) < 1e-4)) return number.toFixed(0);
  return String(number);
}

function scaled(value, unit, digits, smallest, largest) {
  const names = PREFIXES.map(([name]) => name);
  const usable = PREFIXES.slice(names.indexOf(smallest), names.indexOf(largest) + 1);
  let chosen = usable[0];
  for (const unit of usable) if (Math.abs(value) >= unit[1] * (1 - 0.5 * 10 ** -digits)) chosen = unit;
  return `${significant(value / chosen[1], digits)} ${chosen[0]}${unit}`;
}

const show = {
  time: (value, digits = 4) => (!isKnown(value) ? "–" : value === 0 ? "0 s" : scaled(value, "s", digits, "p", "")),
  bandwidth: (value) => (isKnown(value) ? scaled(value, "B/s", 4, "", "P") : "–"),
  flops: (value) => (isKnown(value) ? scaled(value, "FLOP/s", 4, "", "P") : "–"),
  percent: (value, digits = 1) => (isKnown(value) ? `${(value * 100).toFixed(digits)} %` : "–"),
  signed: (value) => (isKnown(value) ? `${value * 100 > -0.05 ? "+" : "-"}${Math.abs(value * 100).toFixed(1)} %` : "–"),
  share: (value) => show.percent(value, 0),
  width: (value) => (!isKnown(value) ? "–" : value >= 9.995 ? ">999 %" : show.percent(value, value < 0.995 ? 1 : 0)),
  watts: (value) => (isKnown(value) ? `${significant(value, 4)} W` : "–"),
  energy: (value) => (isKnown(value) ? scaled(value, "J", 3, "p", "P") : "–"),
  bytes: (value) => {
    if (!isKnown(value)) return "–";
    for (const [unit, scale] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (Math.abs(value) >= scale) return `${Number((value / scale).toPrecision(4))} ${unit}`;
    return `${value} B`;
  },
  plain: (value) => (isKnown(value) ? significant(value, 4) : "–"),
  count: (value) => (isKnown(value) ? value.toLocaleString("en-US") : "–"),
};
