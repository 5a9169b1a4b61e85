// The inbox: calls that wait for a yes or a no. What is shown is what runs, to the letter.
import { post } from "./api.js";
import { html, useEffect, useState } from "./dom.js";
import { cut, duration, indented, oneLine, plural, visible } from "./format.js";
import { Icon } from "./icons.js";
import { along, useKeys } from "./keys.js";
import { app, askApprovals, attempt, useMay } from "./state.js";
import { useNow } from "./store.js";

const LONG = 20_000;
const SCOPES = [
  ["once", "Approve once", "This call alone"],
  ["run", "For this run", "Equal calls of this run, too"],
  ["always", "Always", "Equal calls in later runs of this agent, too"],
];

export function Approvals() {
  const approvals = app.use((whole) => whole.approvals);
  useEffect(() => {
    askApprovals();
  }, []);
  const go = (by) => {
    const cards = [...document.querySelectorAll(".approval")];
    const at = cards.indexOf(document.activeElement?.closest(".approval"));
    cards[at < 0 ? 0 : along(cards.length, at, by)]?.focus();
  };
  useKeys({ j: () => go(1), k: () => go(-1), Escape: () => (location.hash = "#/") });
  return html`<section class="page" aria-label="Approvals">
    <h1>Approvals</h1>
    <p class="soft">${approvals.length ? `${plural(approvals.length, "call waits", "calls wait")} for a yes or a no. Silence is a no.` : ""}</p>
    ${!approvals.length && html`<div class="nothing"><${Icon} name="completed" /><p>Nothing waits for you.</p></div>`}
    <div class="cards one">${approvals.map((one) => html`<${Approval} key=${one.approval} of=${one} />`)}</div>
  </section>`;
}

// Also on the page of its run.
export function Approval({ of }) {
  const now = useNow();
  const [denying, setDenying] = useState(false);
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [exact, setExact] = useState(false);
  const [all, setAll] = useState(false);
  const left = of.expires - now;
  const answer = async (decision, more) => {
    setBusy(true);
    const body = { run: of.run, decision, arguments_hash: of.arguments_hash, ...more };
    const what = of.tool || "the answer";
    await attempt(() => post(`/v1/approvals/${encodeURIComponent(of.approval)}`, body), `${decision === "deny" ? "Denied" : "Approved"}: ${what}.`);
    setBusy(false);
    askApprovals();
  };
  const mine = useMay("approve");
  const written = of.tool && !exact ? indented(of.arguments) : of.arguments;
  const shown = visible(all ? written : cut(written, LONG));
  return html`<article class="card approval" tabindex="-1" aria-label=${`${of.tool || "An answer"} of ${of.run}`} data-approval=${of.approval}>
    <header><h2>${of.tool ? html`<code>${oneLine(of.tool, 80)}</code>` : "An answer"}</h2>
      <span class=${left < 60 ? "tag near" : "tag"}>${left > 0 ? `${duration(left)} left` : "time is up"}</span></header>
    <p class="about"><b>${oneLine(of.agent, 60)}</b> in <a href=${`#/runs/${encodeURIComponent(of.run)}`}>${oneLine(of.task, 140) || visible(of.run)}</a></p>
    ${of.why && html`<p class="why"><${Icon} name="watchdog" /><span>${oneLine(of.why, 500)}</span></p>`}
    <div class="exact"><pre tabindex="0" aria-label="Exact arguments">${shown}</pre>
      <div class="exact-foot"><code title=${`SHA-256 of the bytes that are run: ${visible(of.arguments_hash)}`}>sha256 ${visible(of.arguments_hash).slice(0, 16)}…</code>
        ${written.length > LONG && html`<button type="button" class="link" onClick=${() => setAll(!all)}>${all ? "Shorter" : `Show all ${plural(written.length, "character")}`}</button>`}
        ${of.tool && html`<button type="button" class="link" onClick=${() => setExact(!exact)}>${exact ? "Indented" : "As it is sent"}</button>`}</div></div>
    ${of.exact === false && html`<p class="soft">This is not all of what is run: secrets were cut out, or it is too long for the inbox. The hash is of all of it.</p>`}
    ${denying
      ? html`<form class="deny" onSubmit=${(event) => {
          event.preventDefault();
          answer("deny", { reason });
        }}><label class="field"><span>Why not <i>the model reads it</i></span><input autofocus value=${reason} maxlength="500" onInput=${(event) => setReason(event.target.value)} /></label>
        <div class="actions"><button type="submit" class="danger solid" disabled=${busy}>Deny</button><button type="button" class="ghost" onClick=${() => setDenying(false)}>Back</button></div></form>`
      : html`<div class="actions">${SCOPES.map(
          ([scope, title, about]) => html`<button type="button" class=${scope === "once" ? "primary" : ""} title=${about} disabled=${busy || !mine || (scope !== "once" && !of.tool)}
            onClick=${() => answer("approve", { scope })}>${title}</button>`,
        )}<span class="grow"></span><button type="button" class="danger" disabled=${busy || !mine} onClick=${() => setDenying(true)}>Deny…</button></div>`}
  </article>`;
}
