// The rules of each configured agent, to be read: limits, what is denied, asked and allowed, rates, steps of the detectors.
import { ask } from "./api.js";
import { html, useEffect, useState } from "./dom.js";
import { amount, duration, oneLine, plural, visible, whole } from "./format.js";
import { Icon } from "./icons.js";
import { detectorName, guardsOf, limitsOf, patternOf, rateOf, rulesOf, stepsOf } from "./rules.js";

const MODES = { enforce: "It blocks and stops", nudge: "It says a word to the model", observe: "It only notes what it sees" };
const SOURCES = { profile: "Profile", policy: "The policy of the configuration", file: "A policy file" };

export function Policies() {
  const [told, setTold] = useState(null);
  const [budgets, setBudgets] = useState([]);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let here = true;
    ask("/v1/policies").then(
      (found) => here && setTold(found),
      (problem) => here && setWrong(problem.message),
    );
    ask("/v1/budgets").then(
      (found) => here && setBudgets(found.budgets),
      (problem) => here && setWrong(problem.message),
    );
    return () => {
      here = false;
    };
  }, []);
  const profiles = Object.entries(told?.policies ?? {});
  return html`<section class="page" aria-label="Policies"><h1>Policies</h1>
    <p class="soft">What holds for runs that begin now. It is read from the configuration; a run may have limits of its own.</p>
    ${wrong && html`<p class="wrong">${wrong}</p>`}
    ${told && !told.agents.length && html`<div class="nothing"><${Icon} name="watchdog" /><p>No agent is configured.</p></div>`}
    <div class="cards one">${(told?.agents ?? []).map((one) => html`<${Agent} key=${one.agent} of=${one} />`)}</div>
    ${budgets.length > 0 && html`<h2 class="part">Shared budgets</h2><p class="soft">What all runs that name one draw from together. A run that goes on holds a slice of it.</p>
      <div class="cards">${budgets.map((one) => html`<${Budget} key=${one.name} of=${one} />`)}</div>`}
    ${profiles.length > 0 && html`<h2 class="part">Profiles</h2><p class="soft">An agent that says nothing else has the profile <code>default</code>.</p>
      <div class="folds">${profiles.map(
        ([name, settings]) => html`<details class="card" key=${name}><summary><b>${oneLine(name, 60)}</b><${Mode} mode=${settings.mode} /></summary><${Settings} of=${settings} detectors=${{}} /></details>`,
      )}</div>`}
  </section>`;
}

const Mode = ({ mode }) => html`<span class=${mode === "enforce" ? "tag" : "tag near"} title=${MODES[mode] ?? ""}>${oneLine(mode, 20)}</span>`;

function Agent({ of }) {
  return html`<article class="card policy" aria-label=${oneLine(of.agent, 60)}>
    <header><h2>${oneLine(of.agent, 60)}</h2>${!of.problem && html`<${Mode} mode=${of.settings.mode} />`}</header>
    <p class="about">${SOURCES[of.source] ?? "Rules"}${of.profile && html`${of.source === "profile" ? " " : ", on the profile "}<code>${oneLine(of.profile, 60)}</code>`}${
      of.tools.length > 0 && html`${" · "}tools ${of.tools.map((name) => html` <span class="label">${oneLine(name, 40)}</span>`)}`}${
      of.require.length > 0 && html`${" · "}an answer rests on ${of.require.map((name) => html` <span class="label">${oneLine(name, 40)}</span>`)}`}</p>
    ${of.problem ? html`<p class="why"><${Icon} name="failed" /><span>${oneLine(of.problem, 500)}</span></p>` : html`<${Settings} of=${of.settings} detectors=${of.detectors} />`}
  </article>`;
}

function Budget({ of }) {
  return html`<article class="card budget" aria-label=${oneLine(of.name, 60)}><h2>${oneLine(of.name, 60)}</h2>
    <dl class="limits">${Object.entries(of.holds).map(
      ([name, holds]) => html`<div><dt>${oneLine(name, 40)} left</dt><dd>${amountOf(name, Math.max(of.left[name] ?? 0, 0))} of ${amountOf(name, holds)}</dd></div>`,
    )}</dl></article>`;
}

const amountOf = (name, value) => (value == null ? "no limit" : name === "seconds" ? duration(value) : amount(name, value));

function Settings({ of, detectors }) {
  const rules = rulesOf(of);
  const rates = Object.entries(of.rates ?? {});
  const steps = stepsOf(of.thresholds ?? {}, detectors);
  const guards = guardsOf(of);
  return html`<div class="settings">
    <dl class="limits">${limitsOf(of.limits ?? {}).map(
      ([name, title, value]) => html`<div class=${value == null ? "off" : ""}><dt>${oneLine(title, 60)}</dt><dd>${amountOf(name, value)}</dd></div>`,
    )}</dl>
    <section><h3>Tools</h3><ul class="rules">
      ${rules.map(
        (rule) => html`<li><${Decision} of=${rule.decision} /><span><code>${oneLine(rule.tool, 80)}</code>${
          rule.when.length > 0 && html`<i>where ${oneLine(rule.when.map(patternOf).join(", or "), 400)}</i>`}${rule.unless.length > 0 && html`<i>unless ${oneLine(rule.unless.map(patternOf).join(", or "), 400)}</i>`}${
          rule.approved && html`<i>permitted by a person for good</i>`}${rule.why && html`<small>${oneLine(rule.why, 200)}</small>`}</span></li>`,
      )}
      <li><${Decision} of=${of.otherwise} /><span>${rules.length ? "every other call" : "every call"}</span></li>
    </ul></section>
    ${(rates.length > 0 || of.interval != null) && html`<section><h3>Rates</h3><ul class="rules">
      ${rates.map(([tool, rate]) => html`<li><code>${oneLine(tool, 60)}</code><span>${rateOf(rate)}</span></li>`)}
      ${of.interval != null && html`<li><b>${rates.length ? "other tools" : "each tool"}</b><span>${rateOf({ interval: of.interval })}</span></li>`}</ul></section>`}
    ${guards.length > 0 && html`<section><h3>Guards</h3><ul class="rules">${guards.map(([name, about, notes]) => html`<li>${
      notes ? html`<span class="tag near">notes</span>` : html`<span class="tag">holds</span>`}<span><b>${oneLine(name, 60)}</b> <i>${oneLine(about, 300)}</i></span></li>`)}</ul></section>`}
    <details><summary>${plural(steps.length, "detector")}, and when they act</summary>
      <div class="scroll" tabindex="0" role="group" aria-label="Detectors"><table><thead><tr><th scope="col">Detector</th><th scope="col">nudge</th><th scope="col">block</th><th scope="col">stop</th></tr></thead>
        <tbody>${steps.map(([name, nudge, block, stop]) => html`<tr><th scope="row">${oneLine(detectorName(name), 60)}</th>${[nudge, block, stop].map((at) => html`<td>${at == null ? html`<i>—</i>` : whole(at)}</td>`)}</tr>`)}</tbody></table></div>
    </details>
  </div>`;
}

const SIGNS = { allow: "completed", ask: "waiting", deny: "cancelled" };
const Decision = ({ of }) => html`<span class=${`decision d-${of}`}><${Icon} name=${SIGNS[of] ?? "run"} />${oneLine(of, 10)}</span>`;
