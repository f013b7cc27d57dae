/** Light, dark, or as the system says; kept in this browser. `public/theme.js` applies it before the first paint. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "ringscope.theme";

const media = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(media.matches);
media.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

export const theme = signal<Theme>(stored());

/** Read by what cannot follow a style sheet: the chart's canvas. */
export function isDark(): boolean {
  return theme.value === "system" ? systemDark.value : theme.value === "dark";
}

effect(() => {
  const chosen = theme.value;
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // Storage is refused: the choice holds until the page is left.
  }
});

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}
