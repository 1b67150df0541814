// Light, dark, or as the system has it: a reader's own taste, so it is kept in the browser and not in the link.

const KEY = "roofline-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

/** Return whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** Connect the select and call `onChange` whenever the page turns light or dark. */
export function startTheme(select, onChange) {
  const stored = localStorage.getItem(KEY);
  select.value = stored === "light" || stored === "dark" ? stored : "system";
  const apply = () => {
    if (select.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
  };
  apply();
  select.addEventListener("change", () => {
    if (select.value === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, select.value);
    apply();
    onChange();
  });
  system.addEventListener("change", () => select.value === "system" && onChange());
}
