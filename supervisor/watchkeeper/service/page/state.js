// What the page knows of the service, kept fresh by one stream of the statuses of all runs.
import { ask, beginSession, onSignedOut, Problem, runs as page } from "./api.js";
import { normal } from "./runs.js";
import { store } from "./store.js";
import { follow, whileSeen } from "./stream.js";
import { seen as stripSeen } from "./strips.js";

const APPROVALS_EVERY = 30_000;
const MOST = 20_000; // Runs that are kept; ended ones beyond it are forgotten, oldest first.

export const app = store({
  runs: new Map(), version: 0, loaded: false, more: false, oldest: "",
  line: { state: "connecting" }, signedIn: true, me: null, error: "",
  approvals: [], workers: null,
  dialog: null, toasts: [],
});

export const useRuns = () => {
  app.use((whole) => whole.version);
  return app.get().runs;
};
// Whether this person's token may do that: read, run, approve, admin.
export const useMay = (scope) => app.use((whole) => !whole.me || whole.me.scopes.includes(scope));
export const useRun = (id) => app.use((whole) => whole.runs.get(id));

// -- taking in what comes ---------------------------------------------------------------------------------------------

let waiting = new Map();
let due = 0;

// A reply to a question may be older than what the stream has said.
const stale = (run, before) => before && (before.n > run.n || (before.state === "ended" && run.state !== "ended"));

export function take(status) {
  const run = normal(status);
  if (stale(run, waiting.get(run.run))) return;
  waiting.set(run.run, run);
  due ||= setTimeout(settle, 200);
}

function settle() {
  clearTimeout(due);
  due = 0;
  const { runs, version } = app.get();
  let open = false;
  for (const run of waiting.values()) {
    const before = runs.get(run.run);
    if (stale(run, before)) continue;
    if ((before?.approvals ?? 0) !== run.approvals) open = true;
    runs.set(run.run, run);
    stripSeen(run, before);
  }
  waiting = new Map();
  if (runs.size > MOST) forget(runs);
  app.set({ version: version + 1 });
  if (open) askApprovals();
}

function forget(runs) {
  const ended = [...runs.values()].filter((run) => run.state === "ended").sort((a, b) => a.submitted - b.submitted);
  for (const run of ended.slice(0, runs.size - MOST)) runs.delete(run.run);
}

// -- asking -----------------------------------------------------------------------------------------------------------

// The newest runs; all live ones come by the stream, which begins with them.
export async function load() {
  try {
    const [recent, me] = await Promise.all([page(), ask("/v1/session")]);
    for (const status of recent.runs) take(status);
    settle();
    app.set({ loaded: true, error: "", me, more: recent.more, oldest: recent.runs.at(-1)?.run ?? "" });
  } catch (problem) {
    if (problem.status !== 401) app.set({ error: problem.message });
    throw problem;
  }
}

export async function older() {
  const found = await page({ before: app.get().oldest, limit: 500 });
  for (const status of found.runs) take(status);
  settle();
  app.set({ more: found.more, oldest: found.runs.at(-1)?.run ?? app.get().oldest });
}

let asking = null;
export function askApprovals() {
  asking ||= new Promise((later) => setTimeout(later, 150)).then(async () => {
    asking = null;
    try {
      app.set({ approvals: (await ask("/v1/approvals")).approvals });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem; // The stream says that the line is cut; this comes again.
    }
  });
  return asking;
}

// -- the line ---------------------------------------------------------------------------------------------------------

function watch() {
  return follow("/v1/events", {
    line(line) {
      app.set({ line });
      // What ended while there was no line is not told again: ask. Without a line, ask why.
      if (line.state === "live" || (line.state !== "connecting" && !app.get().loaded)) load().catch(() => {});
      if (line.state === "live") askApprovals();
    },
    on(events) {
      for (const { event, data } of events) if (event === "run") take(JSON.parse(data));
    },
  });
}

let end = () => {};

// Begin, or begin again after someone has signed in.
export function open() {
  end();
  beginSession();
  app.set({ signedIn: true });
  end = whileSeen(watch);
}

onSignedOut(() => {
  end();
  app.set({ signedIn: false });
});

export async function signOut() {
  await attempt(() => ask("/v1/session", { method: "DELETE" }));
  end();
  app.set({ signedIn: false, runs: new Map(), approvals: [], loaded: false });
}

setInterval(() => {
  if (app.get().signedIn) askApprovals();
}, APPROVALS_EVERY);

// -- words to the person ----------------------------------------------------------------------------------------------

let number = 0;
export function say(text, tone = "") {
  const id = (number += 1);
  app.set((whole) => ({ ...whole, toasts: [...whole.toasts.slice(-3), { id, text, tone }] }));
  setTimeout(() => unsay(id), tone === "bad" ? 9000 : 5000);
}
export const unsay = (id) => app.set((whole) => ({ ...whole, toasts: whole.toasts.filter((one) => one.id !== id) }));

// Do something for a person; what the service says against it is shown.
export async function attempt(action, done) {
  try {
    const found = await action();
    if (found && found.taken === false) {
      say(`Refused: ${found.why || "the run did not take it"}`, "bad");
      return null;
    }
    if (done) say(done);
    return found ?? {};
  } catch (problem) {
    say(problem.status === 403 ? `Your token may not do that: ${problem.message}` : problem.message, "bad");
    return null;
  }
}
export const openDialog = (dialog) => app.set({ dialog });
export const closeDialog = () => app.set({ dialog: null });
