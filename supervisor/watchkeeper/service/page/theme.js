// Before the first paint: the theme that was chosen, or else the system's.
"use strict";
try {
  const chosen = localStorage.getItem("watchkeeper.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system's theme it is.
}
