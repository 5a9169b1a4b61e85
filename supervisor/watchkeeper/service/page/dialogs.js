// Dialogs: cancel with its proof, start, steer, budget, help; those that stop many runs at once are in many.js.
import { ask, of, post } from "./api.js";
import { html, useState } from "./dom.js";
import { amount as amountOf, dimensionName, duration, oneLine, visible } from "./format.js";
import { Form, Good, Modes, Reason, WAIT } from "./forms.js";
import { KEYS } from "./keys.js";
import { CancelMany, StopAll } from "./many.js";
import { Modal, State } from "./parts.js";
import { normal } from "./runs.js";
import { app, attempt, closeDialog, say, signOut, take, useRun } from "./state.js";
import { serverNow } from "./store.js";

export function Dialogs() {
  const dialog = app.use((whole) => whole.dialog);
  const Named = dialog && { cancel: Cancel, many: CancelMany, stop: StopAll, start: Start, steer: Steer, budget: Budget, help: Help }[dialog.name];
  return Named ? html`<${Named} key=${dialog.name} ...${dialog} />` : null;
}

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
      <${Modes} value=${mode} set=${setMode} />
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
    <${Good} />
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

