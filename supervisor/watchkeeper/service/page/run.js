// The page of one run.
import { ask, of } from "./api.js";
import { Approval } from "./approvals.js";
import { handOver, setPaused } from "./dialogs.js";
import { html, useMemo, useState } from "./dom.js";
import { findingsIn } from "./facts.js";
import { clockTime, count, moment, oneLine, place, plural, visible } from "./format.js";
import { Icon } from "./icons.js";
import { useKeys } from "./keys.js";
import { Lanes } from "./lanes.js";
import { Fact, Log } from "./log.js";
import { Age, doing, Meter, Progress, State } from "./parts.js";
import { isLive, normal, tokens } from "./runs.js";
import { Spend } from "./spend.js";
import { app, attempt, openDialog, say, useMay, useRun } from "./state.js";
import { Talk } from "./talk.js";
import { useWatch } from "./watch.js";

const TABS = [["log", "Log"], ["talk", "Conversation"], ["json", "JSON"]];
const NOTHING = { n: 0, calls: new Set() };

export function RunPage({ id }) {
  const { run, events, timeline, tree, line, first, last, wrong } = useWatch(id);
  const [tab, setTab] = useState("log");
  const [picked, setPicked] = useState(NOTHING);
  const asked = app.use((whole) => whole.approvals).filter((one) => one.run === id);
  const findings = useMemo(() => findingsIn(events), [last]);
  const live = Boolean(run && isLive(run));
  useKeys({
    c: () => live && openDialog({ name: "cancel", run: id }),
    Escape: () => (picked.n ? setPicked(NOTHING) : (location.hash = "#/")),
  });
  // A bar stands for a call: what it came to is the more telling fact, if it is there.
  const pick = ({ n, call, calls, from = "" }) => {
    const end = from !== "log" && call ? events.findLast((event) => event.type === "call_ended" && event.result.call_id === call) : null;
    setPicked({ n: end?.n ?? n, calls: calls ?? new Set(call ? [call] : []), from });
    if (from !== "log") setTab("log");
  };
  if (!run) return html`<section class="page"><div class="nothing">${wrong ? html`<${Icon} name="failed" /><p>${wrong}</p><p><a href="#/">All runs</a></p>` : html`<p>Asking for the run…</p>`}</div></section>`;
  const fact = picked.n ? events.find((event) => event.n === picked.n) : null;
  return html`<section class="run" aria-label=${`Run ${id}`}>
    <${Head} run=${run} line=${line} />
    ${asked.length > 0 && html`<div class="cards one">${asked.map((one) => html`<${Approval} key=${one.approval} of=${one} />`)}</div>`}
    ${run.outcome && html`<${Ended} run=${run} />`}
    <${Figures} run=${run} />
    <div class="run-columns">
      <div class="run-main">
        <${Lanes} run=${run} timeline=${timeline} picked=${picked} pick=${pick} />
        <section class="panel facts-panel" aria-label="Facts">
          <header><div class="tabs small" role="group" aria-label="Views">${TABS.map(([name, title]) => html`<button type="button" aria-pressed=${tab === name} onClick=${() => setTab(name)}>${title}</button>`)}</div>
            <span class="grow"></span><button type="button" class="ghost" onClick=${() => save(id)}><${Icon} name="save" />Events</button></header>
          ${tab === "log" && html`<div class=${fact ? "log-and-fact" : ""}><${Log} events=${events} first=${first} live=${live} picked=${picked} pick=${pick} />${fact && html`<${Fact} event=${fact} close=${() => setPicked(NOTHING)} />`}</div>`}
          ${tab === "talk" && html`<${Talk} events=${events} last=${last} first=${first} />`}
          ${tab === "json" && html`<${Json} run=${run} />`}
        </section>
      </div>
      <div class="run-side">
        <${Spend} run=${run} timeline=${timeline} />
        <${Findings} findings=${findings} picked=${picked} pick=${pick} setPicked=${setPicked} />
        ${tree?.children.length > 0 && html`<${Tree} tree=${tree} id=${id} />`}
      </div>
    </div>
  </section>`;
}

function Head({ run, line }) {
  const live = isLive(run);
  const mine = useMay("run");
  const paused = run.state === "paused" || run.state === "pausing";
  return html`<header class="run-head">
    <a class="ghost square button" href=${run.parent ? `#/runs/${encodeURIComponent(run.parent)}` : "#/"} aria-label=${run.parent ? "The run above" : "All runs"}><${Icon} name="back" /></a>
    <div class="run-title"><h1 title=${oneLine(run.spec.task, 2000)}>${oneLine(run.spec.task, 400) || "(no task)"}</h1>
      <p class="meta"><${State} kind=${run.kind} />${line.state === "cut" && html`<span class="tag near">line cut</span>`}<b>${oneLine(run.spec.agent, 60)}</b>
        <button type="button" class="link id" title="Copy the id" onClick=${() => copy(run.run)}><code>${visible(run.run)}</code></button>
        ${Object.entries(run.spec.labels).slice(0, 8).map(([key, value]) => html`<span class="label">${oneLine(key, 40)}=${oneLine(value, 60)}</span>`)}
        ${run.worker && html`<span>worker ${oneLine(run.worker, 40)}</span>`}${run.attempt > 1 && html`<span>attempt ${run.attempt}</span>`}
        <span title=${moment(run.started ?? run.submitted)}>${run.started ? `since ${clockTime(run.started)}` : `submitted ${clockTime(run.submitted)}`}</span></p></div>
    ${live && mine && html`<div class="actions">
      ${paused ? html`<button type="button" class="primary" onClick=${() => setPaused(run, false)}>Resume</button>` : html`<button type="button" onClick=${() => setPaused(run, true)}>Pause</button>`}
      <button type="button" onClick=${() => openDialog({ name: "steer", run: run.run })}>Steer</button>
      <button type="button" onClick=${() => openDialog({ name: "budget", run: run.run })}>Add budget</button>
      <button type="button" onClick=${() => handOver(run)}>Hand over</button>
      <button type="button" class="danger" onClick=${() => openDialog({ name: "cancel", run: run.run })}><${Icon} name="stop" />Cancel</button></div>`}
  </header>`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let this page copy.", "bad");
  }
}

function Figures({ run }) {
  const seconds = run.limits.seconds;
  const metered = ["calls", "tokens", "money"].filter((name) => run.limits[name] || run.spent[name]);
  return html`<dl class="figures">
    <div><dt>${isLive(run) ? "Now" : "Reason"}</dt><dd class="now-words">${oneLine(doing(run), 60) || "—"}</dd></div>
    <div><dt>Turn</dt><dd><b>${run.turn}</b>${run.limits.turns ? html`<i>/ ${run.limits.turns}</i>` : ""}</dd></div>
    ${metered.map((name) => {
      const spent = name === "calls" ? Math.max(run.calls, run.spent.calls ?? 0) : name === "tokens" ? tokens(run) : (run.spent[name] ?? 0);
      const limit = run.limits[name];
      return html`<div><dt>${name === "money" ? "Money" : name === "calls" ? "Calls" : "Tokens"}</dt><dd><${Meter} dimension=${name} spent=${spent} limit=${limit} share=${limit ? spent / limit : null} bare /></dd></div>`;
    })}
    <div><dt>Time</dt><dd><b><${Age} from=${run.started} to=${run.ended} /></b>${seconds ? html`<i>/ ${count(seconds / 60)} m</i>` : ""}</dd></div>
    <div><dt>${isLive(run) ? "Last progress" : "Ended"}</dt><dd><b><${Progress} run=${run} /></b></dd></div>
  </dl>`;
}

function Ended({ run }) {
  const { outcome } = run;
  const text = outcome.answer ?? outcome.partial;
  return html`<section class=${`panel outcome k-${run.kind}`} aria-label="Outcome">
    <p class="outcome-line"><${State} kind=${run.kind} /><span>${oneLine(outcome.message, 600)}</span><span class="tag">${oneLine(outcome.reason, 40)}</span></p>
    ${text && html`<details open=${text.length < 1500}><summary>${outcome.answer != null ? "Answer" : "What the model said last"}${outcome.forced ? ", forced by a limit" : ""}</summary><div class="text">${visible(text)}</div></details>`}
    ${outcome.not_executed?.length > 0 && html`<p class="soft">Not executed: ${outcome.not_executed.map((call) => visible(call)).join(", ")}</p>`}
  </section>`;
}

const ACTIONS = { nudged: "nudged", blocked: "blocked the call", paused: "paused the run", stopped: "stopped the run" };

function Findings({ findings, picked, pick, setPicked }) {
  return html`<section class="panel" aria-label="Findings"><header><h2>Findings</h2><span class="grow"></span><span class="count">${findings.length}</span></header>
    ${!findings.length && html`<p class="soft pad">The watchdog has found nothing.</p>`}
    <ul class="findings">${findings.slice(0, 50).map(({ n, t, finding, actions, earlier }) => html`<li class=${picked.n === n ? "on" : ""}>
      <button type="button" class="finding" onClick=${() => setPicked({ n, calls: new Set(finding.calls), from: "" })}><b>${oneLine(finding.detector, 40)}</b><span>${oneLine(finding.pattern, 160)}</span>
        <i class="num">×${finding.count}, ${place(t)}</i></button>
      ${earlier > 0 && html`<p class="soft small">and ${plural(earlier, "time")} before in the same way</p>`}
      ${actions.map((action) => html`<p class="action"><${Icon} name="watchdog" />${ACTIONS[action.type] || action.type}${action.text ? `: ${oneLine(action.text, 200)}` : ""}</p>`)}
      ${finding.calls.length > 0 && html`<p class="rests"><span>rests on</span>${finding.calls.slice(-12).map((call) => html`<button type="button" class="chip" onClick=${() => pick({ n, call })}><code>${oneLine(call, 24)}</code></button>`)}</p>`}
    </li>`)}</ul></section>`;
}

function Tree({ tree, id }) {
  return html`<section class="panel" aria-label="Sub-agents"><header><h2>Sub-agents</h2></header><ul class="tree"><${Branch} node=${tree} id=${id} /></ul></section>`;
}

function Branch({ node, id, depth = 0 }) {
  const given = normal(node.run);
  const run = useRun(given.run) ?? given;
  return html`<li><a href=${`#/runs/${encodeURIComponent(run.run)}`} aria-current=${run.run === id ? "true" : undefined}><${Icon} name=${run.kind} label=${run.kind} />
    <b>${oneLine(run.spec.agent, 40)}</b><span>${oneLine(run.spec.task, 80)}</span><i class="num">${count(tokens(run))}</i></a>
    ${depth < 20 && node.children.length > 0 && html`<ul>${node.children.slice(0, 200).map((child) => html`<${Branch} key=${child.run.run} node=${child} id=${id} depth=${depth + 1} />`)}</ul>`}</li>`;
}

function Json({ run }) {
  const { kind, ...status } = run;
  return html`<div class="json"><p class="soft"><code>GET ${visible(of(run.run))}</code></p><pre tabindex="0" aria-label=${`Status of a run that is ${kind}`}>${visible(JSON.stringify(status, null, 2))}</pre></div>`;
}

// All facts of the run as JSON Lines, as a file.
async function save(id) {
  await attempt(async () => {
    const text = await ask(`${of(id)}/events?follow=false`, { accept: "application/x-ndjson" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
    link.download = `${id.replace(/[^\w.-]/g, "_")}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, "Saved.");
}
