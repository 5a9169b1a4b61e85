// Keys. What is typed into a field or a dialog is no command, nor is what has a modifier.
import { useLayoutEffect } from "./dom.js";

export const KEYS = [
  ["/", "Filter the runs"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the run"],
  ["Esc", "Back, or close"],
  ["c", "Cancel the run"],
  ["Shift + C", "Cancel runs by filter"],
  ["a", "Approvals"],
  ["r", "Runs"],
  ["n", "Start a run"],
  ["p", "Hold the log, or let it go on"],
  ["t", "Light, dark, or as the system has it"],
  ["Shift + S", "Stop all runs"],
  ["?", "These keys"],
];

export function useKeys(actions) {
  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
      if (document.querySelector("dialog[open]")) return;
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (typing) return;
      if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
      const action = actions[event.key];
      if (action && action(event) !== false) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

// Move along rows by j and k: the next place, within bounds.
export const along = (length, at, by) => Math.max(0, Math.min(length - 1, at + by));
