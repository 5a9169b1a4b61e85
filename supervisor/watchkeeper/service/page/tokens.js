// Tokens, for the scope admin: who has which, one is made, one is taken back. A secret is shown once and kept nowhere here.
import { ask, post } from "./api.js";
import { html, useEffect, useRef, useState } from "./dom.js";
import { oneLine, visible } from "./format.js";
import { Icon } from "./icons.js";
import { app, attempt, say } from "./state.js";

const SCOPES = [
  ["read", "looks at runs, results, workers and policies"],
  ["run", "submits, cancels, pauses and steers, too"],
  ["approve", "looks, and says yes or no to calls"],
  ["admin", "everything; tokens and stacks, too"],
];
const day = (at) => new Date(at * 1000).toLocaleDateString([], { dateStyle: "medium" });

export function Tokens() {
  const [tokens, setTokens] = useState(null);
  const [wrong, setWrong] = useState("");
  const [made, setMade] = useState(null);
  const me = app.use((whole) => whole.me);
  const look = async () => {
    try {
      setTokens((await ask("/v1/tokens")).tokens);
      setWrong("");
    } catch (problem) {
      setWrong(problem.message);
    }
  };
  useEffect(() => {
    look();
  }, []);
  return html`<section class="page" aria-label="Tokens"><h1>Tokens</h1>
    <p class="soft">What lets a program or a browser in over TCP. Only a digest of each is kept.</p>
    ${wrong && html`<p class="wrong">${wrong}</p>`}
    ${made && html`<${Secret} of=${made} done=${() => setMade(null)} />`}
    ${tokens && html`<${Make} made=${(token) => {
      setMade(token);
      look();
    }} />
    <ul class="card tokens" aria-label="Tokens there are">
      ${!tokens.length && html`<li class="soft">There is none yet.</li>`}
      ${tokens.map((one) => html`<${Token} key=${one.name} of=${one} mine=${me?.name === one.name} gone=${() => {
        if (made?.name === one.name) setMade(null);
        look();
      }} />`)}
    </ul>`}
  </section>`;
}

// Only here, and only until it is put away: in no store, no address and no list.
function Secret({ of, done }) {
  const field = useRef(null);
  useEffect(() => field.current.focus(), [of]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(of.token);
      say("Copied.");
    } catch {
      field.current.select();
      say("The browser does not let a page copy here: it is marked, copy it by hand.", "bad");
    }
  };
  return html`<article class="card secret" aria-label="The new token">
    <header><h2>${oneLine(of.name, 64)}</h2><span class="tag near">shown this once</span></header>
    <div class="copy"><input ref=${field} readonly value=${of.token} aria-label="The secret" autocomplete="off" spellcheck="false" onFocus=${(event) => event.target.select()} />
      <button type="button" onClick=${copy}>Copy</button><button type="button" class="primary" onClick=${done}>I have it</button></div>
    <p class="soft">Send it as <code>Authorization: Bearer</code>, or give it to this page. It does not belong into an address.</p>
  </article>`;
}

function Make({ made }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["read"]);
  const [busy, setBusy] = useState(false);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    const found = await attempt(() => post("/v1/tokens", { name: name.trim(), scopes }));
    setBusy(false);
    if (!found?.token) return;
    setName("");
    setScopes(["read"]);
    made(found);
  };
  const turn = (scope) => setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  return html`<form class="card make" onSubmit=${go}>
    <label class="field"><span>A new token for <i>by this name it is listed and taken back</i></span>
      <input name="name" required maxlength="64" pattern="[A-Za-z0-9][A-Za-z0-9._@\\-]*" title="Letters, digits and . _ @ -" placeholder="dashboard" autocomplete="off" spellcheck="false"
        value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <fieldset class="scopes"><legend class="sr">Scopes</legend>${SCOPES.map(
      ([scope, about]) => html`<label class="choice"><input type="checkbox" name="scope" value=${scope} checked=${scopes.includes(scope)} onChange=${() => turn(scope)} /><span><b>${scope}</b><i>${about}</i></span></label>`,
    )}</fieldset>
    <div class="actions"><span class="grow"></span><button type="submit" class="primary" disabled=${busy || !scopes.length}>${busy ? "Working…" : "Make the token"}</button></div>
  </form>`;
}

function Token({ of, mine, gone }) {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const go = async () => {
    setBusy(true);
    const found = await attempt(() => ask(`/v1/tokens/${encodeURIComponent(of.name)}`, { method: "DELETE" }), `Taken back: ${of.name}.`);
    setBusy(false);
    setAsking(false);
    if (found) gone();
  };
  return html`<li data-token=${of.name} class=${asking ? "asking" : ""}><div class="token-words"><b>${visible(of.name)}</b>${mine && html`<span class="tag">yours</span>`}
      <span class="soft">${of.scopes.map((scope) => html`<span class="label">${scope}</span> `)}made ${day(of.created)}</span></div>
    ${asking
      ? html`<div class="actions"><span class="soft">${mine ? "You will be signed out." : "Whoever uses it is shut out."}</span>
          <button type="button" class="danger solid" disabled=${busy} onClick=${go}>Take it back</button><button type="button" class="ghost" onClick=${() => setAsking(false)}>Leave it</button></div>`
      : html`<button type="button" class="ghost danger" aria-label=${`Take back ${of.name}`} onClick=${() => setAsking(true)}><${Icon} name="close" />Take back</button>`}
  </li>`;
}
