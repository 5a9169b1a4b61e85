// The page: header, the view that the address names, dialogs, and words to the person.
import { Approvals } from "./approvals.js";
import { Dialogs } from "./dialogs.js";
import { html, render, useEffect, useState } from "./dom.js";
import { plural } from "./format.js";
import { Icon, Mark } from "./icons.js";
import { useKeys } from "./keys.js";
import { List } from "./list.js";
import { Login } from "./login.js";
import { Policies } from "./policies.js";
import { RunPage } from "./run.js";
import { app, open, openDialog, unsay, useMay } from "./state.js";
import { Tokens } from "./tokens.js";
import { Workers } from "./workers.js";

// Views beside the runs.
const VIEWS = { approvals: Approvals, workers: Workers, policies: Policies, tokens: Tokens };
const THEMES = ["", "light", "dark"];
const THEME_NAMES = { "": "as the system has it", light: "light", dark: "dark" };

function useRoute() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme || "");
  const next = () => {
    const now = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    if (now) document.documentElement.dataset.theme = now;
    else delete document.documentElement.dataset.theme;
    try {
      localStorage.setItem("watchkeeper.theme", now);
    } catch {
      // It holds for this page, then.
    }
    setTheme(now);
  };
  return [theme, next];
}

function App() {
  const [view = "", id] = useRoute();
  const [theme, nextTheme] = useTheme();
  const signedIn = app.use((whole) => whole.signedIn);
  const mine = useMay("run");
  const admin = app.use((whole) => whole.me?.scopes.includes("admin") ?? false);
  const waiting = app.use((whole) => whole.approvals.length);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}watchkeeper`;
  }, [waiting]);
  const here = view === "runs" && id ? "run" : Object.hasOwn(VIEWS, view) ? view : "list";
  const page = (name) => (here === name ? "page" : undefined);
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [here, admin]);
  useKeys({
    a: () => (location.hash = "#/approvals"),
    r: () => (location.hash = "#/"),
    n: () => openDialog({ name: "start" }),
    t: nextTheme,
    S: () => openDialog({ name: "stop" }),
    "?": () => openDialog({ name: "help" }),
  });
  if (!signedIn) return html`<${Login} /><${Toasts} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>To the content</a>
    <header class="top">
      <a class="brand" href="#/" aria-label="watchkeeper: runs"><${Mark} /><span>watchkeeper</span></a>
      <nav aria-label="Pages">
        <a href="#/" aria-current=${here === "list" || here === "run" ? "page" : undefined}>Runs</a>
        <a href="#/approvals" aria-current=${page("approvals")}>Approvals${waiting > 0 &&
        html`<span class="badge" aria-label=${`${plural(waiting, "call")} waiting`}>${waiting}</span>`}</a>
        <a href="#/workers" aria-current=${page("workers")}>Workers</a>
        <a href="#/policies" aria-current=${page("policies")}>Policies</a>
        ${admin && html`<a href="#/tokens" aria-current=${page("tokens")}>Tokens</a>`}
      </nav>
      <span class="grow"></span>
      <${Line} />
      <button type="button" class="ghost square" title=${`Theme: ${THEME_NAMES[theme]} (t)`} aria-label=${`Theme: ${THEME_NAMES[theme]}`} onClick=${nextTheme}>
        <${Icon} name=${theme === "dark" ? "moon" : "sun"} /></button>
      <button type="button" class="ghost square keys-button" title="Keys (?)" aria-label="Keys" onClick=${() => openDialog({ name: "help" })}><${Icon} name="help" /></button>
      ${mine && html`<button type="button" class="danger stop-all" title="Stop all runs (Shift + S)" onClick=${() => openDialog({ name: "stop" })}><${Icon} name="stop" />Stop all</button>`}
    </header>
    <main id="main" tabindex="-1" class=${`view-${here}`}>
      ${here === "run" && html`<${RunPage} key=${id} id=${id} />`}
      ${Object.hasOwn(VIEWS, here) && html`<${VIEWS[here]} key=${here} />`}
      ${here === "list" && html`<${List} />`}
    </main>
    <${Dialogs} /><${Toasts} />`;
}

// Whether what is seen is live.
function Line() {
  const line = app.use((whole) => whole.line);
  const [, again] = useState(0);
  useEffect(() => {
    if (line.state !== "cut") return undefined;
    const timer = setInterval(() => again((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [line]);
  const seconds = Math.max(0, Math.ceil(((line.retry ?? 0) - Date.now()) / 1000));
  const words = {
    live: "Live",
    connecting: "Connecting…",
    cut: seconds > 0 ? `Line cut, again in ${seconds} s` : "Line cut, trying again…",
    refused: "Not allowed to watch",
    ended: "Closed",
  }[line.state];
  return html`<span class=${`line l-${line.state}`} role="status"><i aria-hidden="true"></i>${words}</span>`;
}

function Toasts() {
  const toasts = app.use((whole) => whole.toasts);
  return html`<div class="toasts" role="log" aria-live="polite" aria-label="Messages">${toasts.map(
    (one) => html`<div class=${`toast ${one.tone}`} key=${one.id}><span>${one.text}</span>
      <button type="button" class="ghost square" aria-label="Dismiss" onClick=${() => unsay(one.id)}><${Icon} name="close" /></button></div>`,
  )}</div>`;
}

render(html`<${App} />`, document.getElementById("app"));
open();
