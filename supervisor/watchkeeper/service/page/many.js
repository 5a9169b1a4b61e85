// Many runs are stopped at once: by a filter, or all. First it is shown which these are, afterwards how each ended.
import { post } from "./api.js";
import { html, useEffect, useMemo, useState } from "./dom.js";
import { asked, choices, filterOf, fitsAll } from "./filter.js";
import { oneLine, plural, visible, whole } from "./format.js";
import { Form, Good, Modes, Reason, WAIT } from "./forms.js";
import { Icon } from "./icons.js";
import { Modal, State } from "./parts.js";
import { GROUPS, kindName } from "./runs.js";
import { app, attempt, closeDialog, useRuns } from "./state.js";

// As the page knows a run, if it is further than what was answered.
function kindOf(one, known) {
  if (one.state === "ended") return one.outcome || "completed";
  return known?.kind ?? one.state;
}

const Stops = ({ of, label, runs }) =>
  html`<ul class="stops" tabindex="0" aria-label=${label}>${of.map(
    (one) => html`<li key=${one.run}><${State} kind=${kindOf(one, runs.get(one.run))} />
      <span class="stop-task">${oneLine(one.task, 90)}</span><code>${visible(one.run)}</code></li>`,
  )}</ul>`;

// How each ended; those that still end are followed.
function Stopped({ of, note }) {
  const runs = useRuns();
  const ended = of.filter((one) => one.state === "ended" || runs.get(one.run)?.state === "ended").length;
  return html`<${Modal} title=${`${plural(ended, "run")} of ${whole(of.length)} ended`} onClose=${closeDialog} wide>
    ${note && html`<p class="about">${note}</p>`}
    <${Stops} of=${of} label="What ended how" runs=${runs} /><${Good} />
  <//>`;
}

export function StopAll() {
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
  if (done) return html`<${Stopped} of=${done} />`;
  if (!plan.length) {
    return html`<${Modal} title="Nothing to stop" onClose=${closeDialog}><p class="soft">No run is at work, paused or queued.</p><${Good} /><//>`;
  }
  return html`<${Modal} title=${`Stop all ${plural(plan.length, "run")}?`} onClose=${closeDialog} wide>
    <p class="about">These runs are cancelled now, queued ones too. What was done is kept; each gets its outcome.</p>
    <${Stops} of=${plan} label="What will be stopped" runs=${runs} />
    <${Form} onSubmit=${go} busy=${busy} action=${`Stop ${plural(plan.length, "run")}`} tone="danger solid">
      <${Reason} value=${reason} set=${setReason} hint="stop all" first />
    <//>
  <//>`;
}

export function CancelMany({ query, group }) {
  const runs = app.get().runs;
  const [filter, setFilter] = useState(() => filterOf(query, group, runs.values()));
  const [plan, setPlan] = useState(null);
  const [done, setDone] = useState(null);
  const [mode, setMode] = useState("now");
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const offered = useMemo(() => choices(runs.values()), []);
  const empty = fitsAll(filter);
  useEffect(() => {
    let wanted = true;
    setPlan(empty ? [] : null);
    if (!empty) {
      attempt(() => post("/v1/runs/cancel", { filter: asked(filter, runs.values()), dry_run: true })).then(
        (found) => wanted && setPlan(found?.runs ?? []),
      );
    }
    return () => {
      wanted = false;
    };
  }, [filter]);
  // Those that were shown, and none that has come to fit since.
  const go = async () => {
    setBusy(true);
    const shown = { ...asked(filter, runs.values()), runs: plan.map((one) => one.run) };
    const found = await attempt(() => post("/v1/runs/cancel", { filter: shown, mode, reason: reason.trim() || "cancelled", dry_run: false, wait: WAIT }));
    setBusy(false);
    if (found) setDone(found.runs);
  };
  if (done) {
    const left = plan.length - done.length;
    return html`<${Stopped} of=${done} note=${left > 0 && `${plural(left, "run")} of those shown fitted the filter no more, and ${left === 1 ? "was" : "were"} left alone.`} />`;
  }
  const heading = empty ? "Which runs?" : !plan ? "Asking which runs fit…" : plan.length ? `${plural(plan.length, "live run fits", "live runs fit")}` : "No live run fits";
  return html`<${Modal} title="Cancel runs by filter" onClose=${closeDialog} wide>
    <${Chosen} filter=${filter} set=${setFilter} offered=${offered} />
    <section class="fitting" aria-busy=${plan ? undefined : "true"}>
      <h3 role="status">${heading}</h3>
      ${plan?.length > 0
        ? html`<${Stops} of=${plan} label="What will be cancelled" runs=${runs} />`
        : html`<div class="stops none">${empty ? "Choose an agent, a state or a label. For all runs there is Stop all." : plan ? "Nothing would be cancelled." : ""}</div>`}
    </section>
    <${Form} onSubmit=${go} busy=${busy} off=${!plan?.length} action=${plan?.length ? `Cancel ${plural(plan.length, "run")}` : "Cancel"} tone="danger solid">
      <${Modes} value=${mode} set=${setMode} across />
      <${Reason} value=${reason} set=${setReason} hint="no longer needed" />
    <//>
  <//>`;
}

// The filter: three fields, and what else the list's filter says, which can be taken out.
function Chosen({ filter, set, offered }) {
  const change = (more) => set({ ...filter, ...more });
  const without = (key) => change({ labels: Object.fromEntries(Object.entries(filter.labels).filter(([name]) => name !== key)) });
  const label = (event) => {
    const [, key, value] = offered.labels.find(([text]) => text === event.target.value) ?? [];
    event.target.value = "";
    if (key !== undefined) change({ labels: { ...filter.labels, [key]: value } });
  };
  const chips = [
    ...Object.entries(filter.labels).map(([key, value]) => [`${key}=${value}`, () => without(key)]),
    ...filter.words.map((word, n) => [`“${word}”`, () => change({ words: filter.words.filter((_, at) => at !== n) })]),
    ...(filter.group ? [[GROUPS.find(([name]) => name === filter.group)[1], () => change({ group: "" })]] : []),
  ];
  return html`<div class="chosen">
    <label class="field"><span>Agent</span><select data-first="" value=${filter.agent} onChange=${(event) => change({ agent: event.target.value })}>
      <option value="">Any</option>${offered.agents.map((name) => html`<option value=${name}>${oneLine(name, 60)}</option>`)}</select></label>
    <label class="field"><span>State</span><select value=${filter.state} onChange=${(event) => change({ state: event.target.value })}>
      <option value="">Any that is live</option>${offered.states.map((name) => html`<option value=${name}>${kindName(name)}</option>`)}</select></label>
    <label class="field"><span>Label</span><select value="" disabled=${!offered.labels.length} onChange=${label}>
      <option value="">${offered.labels.length ? "Add one…" : "None"}</option>${offered.labels.map(([text]) => html`<option value=${text}>${oneLine(text, 60)}</option>`)}</select></label>
    ${chips.length > 0 && html`<ul class="chips" aria-label="And all of">${chips.map(
      ([text, drop]) => html`<li><span>${oneLine(text, 80)}</span><button type="button" class="ghost" aria-label=${`Without ${oneLine(text, 80)}`} onClick=${drop}><${Icon} name="close" /></button></li>`,
    )}</ul>`}
  </div>`;
}
