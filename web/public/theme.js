// Runs before the first paint, so that a chosen theme never flashes the other one. A file of its own because the
// daemon's content security policy allows no inline script.
try {
  const theme = localStorage.getItem("ringscope.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is refused: the system's preference holds.
}
