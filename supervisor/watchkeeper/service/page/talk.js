// The conversation, as the model has it: messages, calls with their results, and what the watchdog said.
import { html, useMemo, useState } from "./dom.js";
import { conversation } from "./facts.js";
import { cut, oneLine, visible } from "./format.js";
import { Icon } from "./icons.js";

const SHOWN = 200; // Messages, the last ones, until more are asked for.
const LONG = 1200;
const WHO = { user: "person", model: "model", watchdog: "watchdog" };
const NAMES = { user: "User", model: "Model", watchdog: "Watchdog" };

export function Talk({ events, last, first }) {
  const items = useMemo(() => conversation(events), [last]);
  const [shown, setShown] = useState(SHOWN);
  const from = Math.max(0, items.length - shown);
  return html`<div class="talk">
    ${first > 1 && html`<p class="soft">What came before fact ${first} is not loaded.</p>`}
    ${from > 0 && html`<button type="button" class="ghost" onClick=${() => setShown(shown + SHOWN)}>Show earlier messages</button>`}
    ${items.slice(from).map((item) => html`<${Said} key=${item.n} item=${item} />`)}
    ${!items.length && html`<p class="soft">Nothing has been said yet.</p>`}
  </div>`;
}

function Said({ item }) {
  return html`<article class=${`said said-${item.who}`}>
    <h3><${Icon} name=${WHO[item.who]} />${NAMES[item.who]}${item.turn ? html`<span class="soft">turn ${item.turn}</span>` : ""}</h3>
    ${item.reasoning && html`<details><summary>Thinking</summary><${Text} text=${item.reasoning} /></details>`}
    ${item.text && html`<${Text} text=${item.text} />`}
    ${(item.calls ?? []).map((call) => html`<details class="call"><summary><code>${oneLine(call.tool, 60)}</code><span>${oneLine(call.arguments, 160)}</span>
      <em class=${`tag kind-${call.result?.kind ?? "running"}`}>${call.result?.kind ?? "no result yet"}</em></summary>
      <h4>Arguments</h4><${Text} text=${call.arguments} code />${call.result && html`<h4>Result</h4><${Text} text=${call.result.content} code />`}</details>`)}
  </article>`;
}

function Text({ text, code = false }) {
  const [all, setAll] = useState(false);
  const shown = visible(all ? text : cut(text, LONG));
  return html`<div class=${code ? "text code" : "text"}>${shown}${text.length > LONG && html` <button type="button" class="link" onClick=${() => setAll(!all)}>${all ? "Shorter" : "Show all"}</button>`}</div>`;
}
