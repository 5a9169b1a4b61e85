// The small timelines of the list: asked for once, for rows that are looked at, and then kept up by the statuses.
import { ask, of } from "./api.js";
import { serverNow, store } from "./store.js";

const AT_ONCE = 3;
const KEPT = 600;
const EVERY = 30_000;
const BARS = 600;
const FOUND = new Set(["finding", "nudge", "block", "pause", "stop"]);
const WAITED = new Set(["waiting", "once", "run", "always", "denied"]); // For an approval: nothing was at work.

export const strips = store({ version: 0 });
const known = new Map(); // run -> {began, length, bars: [{lane, from, to}], marks: [t], n, asked, ended}
const queue = [];
const queued = new Set();
let asking = 0;

// The timeline of a run, if it is there. It is asked for when it is wanted first, again at the run's end, and while it
// lives at most each half a minute: in between the statuses tell what goes on, if not to the tenth of a second.
export function stripOf(run) {
  const found = known.get(run.run);
  const ended = run.state === "ended";
  const old = found?.bars && found.n !== run.n && (ended ? !found.ended : Date.now() - found.asked > EVERY);
  if ((!found || old) && run.started && !queued.has(run.run)) want(run);
  return found?.bars ? found : null;
}

function want(run) {
  queued.add(run.run);
  queue.push(run);
  setTimeout(next, 120);
}

// A row that has gone before its turn came asks no more.
export function unwanted(run) {
  const at = queue.findIndex((one) => one.run === run);
  if (at < 0) return;
  queue.splice(at, 1);
  queued.delete(run);
}

async function next() {
  if (asking >= AT_ONCE || !queue.length) return;
  const run = queue.shift();
  asking += 1;
  try {
    const strip = read(run, await ask(`${of(run.run)}/timeline`));
    known.delete(run.run);
    known.set(run.run, strip);
    if (known.size > KEPT) known.delete(known.keys().next().value);
    strips.set((whole) => ({ version: whole.version + 1 }));
  } catch {
    // Nothing to show is no reason to stop the list.
    known.set(run.run, { began: run.started, length: 1, bars: [], marks: [], n: run.n, asked: Date.now() });
  } finally {
    asking -= 1;
    queued.delete(run.run);
    next();
  }
}

function read(run, timeline) {
  const bars = [];
  const marks = [];
  for (const { lane, bars: found } of timeline.lanes) {
    for (const bar of found) {
      if (lane === "watchdog") {
        if (FOUND.has(bar.kind)) marks.push(bar.from);
      } else if (lane === "model" || !WAITED.has(bar.kind)) bars.push({ lane, from: bar.from, to: bar.to });
    }
  }
  const end = run.ended ?? serverNow();
  return {
    began: end - timeline.now, length: timeline.now, bars: bars.slice(-BARS), marks: marks.slice(-BARS),
    n: run.n, asked: Date.now(), ended: run.state === "ended",
  };
}

// A status has come: what a live run does now goes on in its strip.
export function seen(run, before) {
  const strip = known.get(run.run);
  if (!strip?.bars) return;
  const t = (run.ended ?? serverNow()) - strip.began;
  if (run.state === "ended") strip.length = t;
  if (before && run.findings > before.findings) strip.marks.push(t);
  const lane = run.doing === "model" ? "model" : run.doing ? "tools" : "";
  if (before && run.doing === before.doing && run.state !== "ended") return;
  for (const bar of strip.bars) if (bar.to == null) bar.to = t;
  if (lane && run.state !== "ended") strip.bars.push({ lane, from: t, to: null });
  if (strip.bars.length > 2 * BARS) strip.bars = strip.bars.slice(-BARS);
}

// Runs of whole pixels where a lane is at work, as a path: many bars cost no more than the width.
export function pathOf(bars, lane, length, width, y, height) {
  const busy = new Uint8Array(width);
  for (const bar of bars) {
    if (bar.lane !== lane) continue;
    const from = Math.min(width - 1, Math.max(0, Math.floor((bar.from / length) * width)));
    const to = Math.min(width, Math.max(from + 1, Math.ceil(((bar.to ?? length) / length) * width)));
    busy.fill(1, from, to);
  }
  let path = "";
  for (let x = 0; x < width; x += 1) {
    if (!busy[x]) continue;
    const from = x;
    while (x < width && busy[x]) x += 1;
    path += `M${from} ${y}h${x - from}v${height}h${from - x}z`;
  }
  return path;
}
