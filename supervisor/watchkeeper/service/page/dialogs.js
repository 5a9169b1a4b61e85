// Dialogs: cancel with its proof, stop all with what it will stop, start, steer, budget, help.
import { ask, of, post } from "./api.js";
import { html, useEffect, useState } from "./dom.js";
import { amount as amountOf, dimensionName, duration, oneLine, plural, visible, whole } from "./format.js";
import { KEYS } from "./keys.js";
import { Modal, State } from "./parts.js";
import { normal } from "./runs.js";
import { app, attempt, closeDialog, say, signOut, take, useRun } from "./state.js";
import { serverNow } from "./store.js";

const WAIT = 15;
const MODES = [
  ["after_turn", "After the turn", "No new model request. The calls of this turn finish; what was done is kept."],
  ["now", "Now", "Calls are cancelled and process trees ended; the outcome is there after the grace period at the latest."],
  ["kill", "Kill", "As now, without the grace period. For a run that does not stop otherwise."],
];

export function Dialogs() {
  const dialog = app.use((whole) => whole.dialog);
  const Named = dialog && { cancel: Cancel, stop: StopAll, start: Start, steer: Steer, budget: Budget, help: Help }[dialog.name];
  return Named ? html`<${Named} key=${dialog.name} ...${dialog} />` : null;
}

function Form({ onSubmit, busy, action, tone = "primary", children }) {
  return html`<form onSubmit=${(event) => {
    event.preventDefault();
    onSubmit();
  }}>${children}
    <footer><button type="button" class="ghost" onClick=${closeDialog}>Leave it</button>
      <button type="submit" class=${tone} disabled=${busy}>${busy ? "Working…" : action}</button></footer></form>`;
}

const Reason = ({ value, set, hint, first }) =>
  html`<label class="field"><span>Reason <i>goes into the outcome</i></span>
    <input value=${value} maxlength="200" data-first=${first ? "" : undefined} placeholder=${hint} onInput=${(event) => set(event.target.value)} /></label>`;

function Cancel({ run: id }) {
  const run = useRun(id);
  const [mode, setMode] = useState("now");
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [proof, setProof] = useState(null);
  const go = async () => {
    setBusy(true);
    const body = { mode, reason: reason.trim() || "cancelled" };
    const found = await attempt(() => post(`${of(id)}/cancel?wait=${WAIT}`, body));
    setBusy(false);
    if (!found) return;
    take(typeof found.run === "string" ? found : found.run);
    if (found.ended) setProof(found);
    else closeDialog();
  };
  if (proof) return html`<${Proof} proof=${proof} />`;
  return html`<${Modal} title="Cancel this run?" onClose=${closeDialog}>
    <p class="about">${oneLine(run?.spec.task, 140)} <code>${visible(id)}</code></p>
    <${Form} onSubmit=${go} busy=${busy} action="Cancel the run" tone="danger solid">
      <fieldset class="choices"><legend class="sr">Mode</legend>
        ${MODES.map(
          ([value, title, about]) => html`<label class="choice"><input type="radio" name="mode" value=${value} checked=${mode === value}
            data-first=${value === "now" ? "" : undefined} onChange=${() => setMode(value)} /><span><b>${title}</b><i>${about}</i></span></label>`,
        )}</fieldset>
      <${Reason} value=${reason} set=${setReason} hint="no longer needed" />
      <p class="soft">Its sub-agents end with it.</p>
    <//>
  <//>`;
}

function Proof({ proof }) {
  const run = normal(proof.run);
  const now = serverNow();
  return html`<${Modal} title=${run.state !== "ended" ? "It has not ended yet" : proof.seconds == null ? "It has ended" : `Ended in ${duration(proof.seconds)}`} onClose=${closeDialog}>
    <p class="about"><${State} kind=${run.kind} /> ${oneLine(run.outcome?.message, 300)}</p>
    <h3>In flight when it was asked to stop</h3>
    ${proof.in_flight.length ? "" : html`<p class="soft">Nothing.</p>`}
    <ul class="facts">${proof.in_flight.map((one) => html`<li><code>${visible(one.call)}</code><b>${visible(one.tool)}</b><i>at work for ${duration(now - one.since)}</i></li>`)}</ul>
    <h3>What ended, and when</h3>
    ${proof.ended.length ? "" : html`<p class="soft">Nothing was left to end.</p>`}
    <ul class="facts">${proof.ended.map((one) => html`<li><code>${visible(one.call)}</code><b>${visible(one.tool)}</b><i>${visible(one.kind)} after ${duration(one.seconds)}</i></li>`)}</ul>
    <footer><button type="button" class="primary" data-first="" onClick=${closeDialog}>Good</button></footer>
  <//>`;
}

function StopAll() {
  const [plan, setPlan] = useState(null);
  const [done, setDone] = useState(null);
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const runs = app.get().runs;
  useEffect(() => {
    attempt(() => post("/v1/stop-all", { reason: "stop all", dry_run: true, wait: 0 })).then((found) => (found ? setPlan(found.runs) : closeDialog()));
  }, []);
  const go = async () => {
    setBusy(true);
    const found = await attempt(() => post("/v1/stop-all", { reason: reason.trim() || "stop all", dry_run: false, wait: WAIT }));
    setBusy(false);
    if (found) setDone(found.runs);
  };
  if (!plan) return html`<${Modal} title="Stop all runs" onClose=${closeDialog}><p class="soft">Asking what this would stop…</p><//>`;
  if (done) {
    const ended = done.filter((one) => one.state === "ended").length;
    return html`<${Modal} title=${`${plural(ended, "run")} of ${whole(done.length)} ended`} onClose=${closeDialog} wide>
      <ul class="stops" tabindex="0" aria-label="What ended how">${done.map((one) => html`<li key=${one.run}><${State} kind=${one.state === "ended" ? one.outcome || "completed" : one.state} />
        <span class="stop-task">${oneLine(one.task, 90)}</span><code>${visible(one.run)}</code></li>`)}</ul>
      <footer><button type="button" class="primary" data-first="" onClick=${closeDialog}>Good</button></footer>
    <//>`;
  }
  if (!plan.length) {
    return html`<${Modal} title="Nothing to stop" onClose=${closeDialog}><p class="soft">No run is at work, paused or queued.</p>
      <footer><button type="button" class="primary" data-first="" onClick=${closeDialog}>Good</button></footer><//>`;
  }
  return html`<${Modal} title=${`Stop all ${plural(plan.length, "run")}?`} onClose=${closeDialog} wide>
    <p class="about">These runs are cancelled now, queued ones too. What was done is kept; each gets its outcome.</p>
    <ul class="stops" tabindex="0" aria-label="What will be stopped">${plan.map((one) => html`<li key=${one.run}><${State} kind=${runs.get(one.run)?.kind ?? one.state} />
      <span class="stop-task">${oneLine(one.task, 90)}</span><code>${visible(one.run)}</code></li>`)}</ul>
    <${Form} onSubmit=${go} busy=${busy} action=${`Stop ${plural(plan.length, "run")}`} tone="danger solid">
      <${Reason} value=${reason} set=${setReason} hint="stop all" first />
    <//>
  <//>`;
}

function Start() {
  const [agent, setAgent] = useState("");
  const [task, setTask] = useState("");
  const [busy, setBusy] = useState(false);
  const agents = [...new Set([...app.get().runs.values()].map((run) => run.spec.agent))].slice(0, 50);
  const go = async () => {
    setBusy(true);
    const found = await attempt(() => post("/v1/runs", { agent: agent.trim(), task }));
    setBusy(false);
    if (!found?.run) return;
    take(found);
    closeDialog();
    location.hash = `#/runs/${encodeURIComponent(found.run)}`;
  };
  return html`<${Modal} title="Start a run" onClose=${closeDialog}>
    <${Form} onSubmit=${go} busy=${busy} action="Start it">
      <label class="field"><span>Agent</span><input required list="agents" value=${agent} data-first="" autocomplete="off" onInput=${(event) => setAgent(event.target.value)} />
        <datalist id="agents">${agents.map((name) => html`<option value=${name} />`)}</datalist></label>
      <label class="field"><span>Task</span><textarea required rows="4" value=${task} onInput=${(event) => setTask(event.target.value)}></textarea></label>
    <//>
  <//>`;
}

function Steer({ run }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const go = async () => {
    setBusy(true);
    const found = await attempt(() => post(`${of(run)}/steer?wait=5`, { text }), "The run reads it before its next model request.");
    setBusy(false);
    if (found) closeDialog();
  };
  return html`<${Modal} title="Say something to the run" onClose=${closeDialog}>
    <${Form} onSubmit=${go} busy=${busy} action="Send">
      <label class="field"><span>Message <i>the model reads it as yours, before its next turn</i></span>
        <textarea required rows="4" data-first="" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    <//>
  <//>`;
}

function Budget({ run: id }) {
  const run = useRun(id);
  const known = [...new Set([...Object.keys(run?.limits ?? {}), "turns", "tokens", "money"])];
  const [dimension, setDimension] = useState(run?.limits.money ? "money" : "tokens");
  const [more, setMore] = useState("");
  const [busy, setBusy] = useState(false);
  const go = async () => {
    const amount = Number(more);
    if (!(amount > 0)) return say("Give a number above 0.", "bad");
    setBusy(true);
    const found = await attempt(() => post(`${of(id)}/budget?wait=5`, { amounts: { [dimension]: amount } }), `Raised by ${amountOf(dimension, amount)} ${dimensionName(dimension)}.`);
    setBusy(false);
    if (found) closeDialog();
  };
  return html`<${Modal} title="Add to the budget" onClose=${closeDialog}>
    <${Form} onSubmit=${go} busy=${busy} action="Add it">
      <div class="two"><label class="field"><span>Limit</span><select value=${dimension} onChange=${(event) => setDimension(event.target.value)}>
        ${known.map((name) => html`<option value=${name}>${dimensionName(name)}</option>`)}</select></label>
      <label class="field"><span>How much more</span><input required inputmode="decimal" data-first="" value=${more} onInput=${(event) => setMore(event.target.value)} /></label></div>
    <//>
  <//>`;
}

const Help = () =>
  html`<${Modal} title="Keys" onClose=${closeDialog}>
    <dl class="keys">${KEYS.map(([keys, about]) => html`<div><dt>${keys.split(/(, | \+ )/).map((key) => (/^[, +]+$/.test(key) ? html`<i>${key}</i>` : html`<kbd>${key}</kbd>`))}</dt><dd>${about}</dd></div>`)}</dl>
    <footer><button type="button" class="ghost" onClick=${() => {
      closeDialog();
      signOut();
    }}>Sign out</button><button type="button" class="primary" data-first="" onClick=${closeDialog}>Good</button></footer>
  <//>`;

export async function setPaused(run, paused) {
  await attempt(() => post(`${of(run.run)}/${paused ? "pause" : "resume"}?wait=5`, { reason: paused ? "paused from the page" : "" }));
  const fresh = await attempt(() => ask(of(run.run)));
  if (fresh?.run) take(fresh);
}

export async function handOver(run) {
  await attempt(() => post(`${of(run.run)}/hand-over`, { reason: "asked", mode: "after_turn" }), "Handed over after this turn.");
}

