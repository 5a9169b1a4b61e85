// Parts of dialogs in which something is asked: the form with its two buttons, the reason, the modes of a cancel.
import { html } from "./dom.js";
import { closeDialog } from "./state.js";

export const WAIT = 15; // Seconds that a dialog waits for runs to end.
const MODES = [
  ["after_turn", "After the turn", "No new model request. The calls of this turn finish; what was done is kept."],
  ["now", "Now", "Calls are cancelled and process trees ended; the outcome is there after the grace period at the latest."],
  ["kill", "Kill", "As now, without the grace period. For a run that does not stop otherwise."],
];

export function Form({ onSubmit, busy, action, off = false, tone = "primary", children }) {
  return html`<form onSubmit=${(event) => {
    event.preventDefault();
    onSubmit();
  }}>${children}
    <footer><button type="button" class="ghost" onClick=${closeDialog}>Leave it</button>
      <button type="submit" class=${tone} disabled=${busy || off}>${busy ? "Working…" : action}</button></footer></form>`;
}

export const Reason = ({ value, set, hint, first }) =>
  html`<label class="field"><span>Reason <i>goes into the outcome</i></span>
    <input value=${value} maxlength="200" data-first=${first ? "" : undefined} placeholder=${hint} onInput=${(event) => set(event.target.value)} /></label>`;

export const Modes = ({ value, set, across = false }) =>
  html`<fieldset class=${across ? "choices across" : "choices"}><legend class="sr">Mode</legend>
    ${MODES.map(
      ([name, title, about]) => html`<label class="choice"><input type="radio" name="mode" value=${name} checked=${value === name}
        data-first=${name === "now" && !across ? "" : undefined} onChange=${() => set(name)} /><span><b>${title}</b><i>${about}</i></span></label>`,
    )}</fieldset>`;

export const Good = () => html`<footer><button type="button" class="primary" data-first="" onClick=${closeDialog}>Good</button></footer>`;
