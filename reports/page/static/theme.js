// Light, dark, or as the system says. Whoever draws with colours asks `ink` and is told when it changes.
const THEMES = ["auto", "light", "dark"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themeWatchers = [];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || (chosen !== "light" && systemDark.matches);
}

function ink(pair) {
  return pair[isDark() ? 1 : 0];
}

function inks() {
  return Object.fromEntries(Object.entries(DATA.inks).map(([name, pair]) => [name, ink(pair)]));
}

function remembered(value) {
  try {
    if (value === undefined) return localStorage.getItem("roofline-theme");
    localStorage.setItem("roofline-theme", value);
  } catch (error) {
    return null; // a page opened from disk may have no storage
  }
  return value;
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeWatchers.forEach((redraw) => redraw());
}

function themeSwitch() {
  const chosen = THEMES.includes(remembered()) ? remembered() : "auto";
  const made = el("fieldset", { class: "theme" }, el("legend", { class: "unseen" }, WORDS.theme));
  for (const name of THEMES) {
    const radio = el("input", { type: "radio", name: "theme", value: name, checked: name === chosen });
    radio.addEventListener("change", () => {
      remembered(name);
      setTheme(name);
    });
    made.append(el("label", {}, radio, el("span", {}, WORDS.themes[name])));
  }
  setTheme(chosen);
  systemDark.addEventListener("change", () => themeWatchers.forEach((redraw) => redraw()));
  return made;
}
