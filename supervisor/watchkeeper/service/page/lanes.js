// The lanes of model, tools and watchdog over the run's clock. Parallel calls are parallel bars.
import { html, useMemo, useRef, useState } from "./dom.js";
import { duration, oneLine, place } from "./format.js";
import { useSize } from "./parts.js";
import { isLive } from "./runs.js";
import { useNow } from "./store.js";

const SPANS = [["all", "All", 0], ["5m", "5 min", 300], ["1m", "1 min", 60]];
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400];
const MODEL = 22;
const MARKS = 20;
const GAP = 10;
const FINE = 1.5; // Bars narrower than this many pixels, side by side in a row, are drawn as one.
const TONES = new Set(["finished", "failed", "timed_out", "abandoned", "refused", "denied", "cancelled", "not_run", "running", "waiting", "finding", "nudge", "block", "pause", "stop", "user", "cancel"]);
const YES = { once: "approved once", run: "approved for the run", always: "approved for good" };
// Of marks, each of its own shape; they are drawn around a point.
const SHAPES = {
  nudge: "M-5-5l5 5-5 5z",
  block: "M-4.500-4.500h9v9h-9z",
  stop: "M-2.500-6h5l3.500 3.500v5l-3.500 3.500h-5l-3.500-3.500v-5z",
  user: "M0-4.500a4.500 4.500 0 1 0 .1 0z",
  cancel: "M-5-5l10 10M5-5l-10 10",
};
const ACTIONS = new Set(["nudge", "block", "stop"]);
const DIAMOND = "M0-6.500l5.500 6.500-5.500 6.500-5.500-6.500z";

export function Lanes({ run, timeline, picked, pick }) {
  const box = useRef(null);
  const [width, setWidth] = useState(800);
  const [span, setSpan] = useState("all");
  const tick = useNow();
  useSize(box, (size) => setWidth(Math.max(200, Math.floor(size.width))));
  const live = run && isLive(run) && run.started != null;
  const now = !timeline ? 1 : live && run.state !== "paused" ? timeline.now + (Date.now() - timeline.at) / 1000 : timeline.now;
  const seconds = SPANS.find(([name]) => name === span)[2];
  const to = Math.max(now * (live ? 1.02 : 1), 0.5);
  const from = seconds ? Math.max(0, to - seconds) : 0;
  const drawn = useMemo(() => layout(timeline, from, to, now, width), [timeline, from, to, width, live ? tick : 0]);
  const height = drawn.height;
  return html`<section class="panel lanes" aria-label="Timeline">
    <header><h2>Timeline</h2><span class="legend" aria-hidden="true"><i class="b-model"></i>model<i class="b-finished"></i>calls<i class="b-failed"></i>failed<i class="b-refused"></i>turned away<i class="b-mark"></i>watchdog</span>
      <span class="grow"></span>
      <div class="tabs small" role="group" aria-label="How much of it">${SPANS.map(([name, title]) => html`<button type="button" aria-pressed=${span === name} onClick=${() => setSpan(name)}>${title}</button>`)}</div></header>
    <div class="lanes-body">
      <div class="lane-names" style=${{ height: `${height}px` }} aria-hidden="true">
        ${drawn.lanes.map((lane) => html`<span style=${{ top: `${lane.y}px`, height: `${lane.height}px` }}>${lane.name}</span>`)}</div>
      <div class="lanes-box" ref=${box}>
        <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label="Bars over time">
          ${drawn.ticks.map((one) => html`<g class="tick"><path d=${`M${one.x} 0V${height - 18}`} /><text x=${one.x + 4} y=${height - 5}>${one.label}</text></g>`)}
          ${drawn.lanes.slice(1).map((lane) => html`<path class="lane-line" d=${`M0 ${lane.y - GAP / 2}H${width}`} />`)}
          ${drawn.bars.map((bar) => html`<${Bar} bar=${bar} on=${picked.n === bar.n || (bar.call && picked.calls.has(bar.call))} pick=${pick} />`)}
          ${drawn.marks.map((mark) => html`<path class=${`b-mark b-${mark.kind}${picked.n === mark.n || picked.n === mark.also ? " on" : ""}`} d=${SHAPES[mark.kind] ?? DIAMOND} transform=${`translate(${mark.x} ${mark.y})`} data-n=${mark.n}
            onClick=${() => pick({ n: mark.n })}><title>${mark.words}</title></path>`)}
          ${live && html`<path class="now" d=${`M${drawn.x(now)} 0V${height - 18}`} />`}
        </svg>
      </div>
    </div>
  </section>`;
}

function Bar({ bar, on, pick }) {
  return html`<g class=${`b b-${bar.kind}${on ? " on" : ""}${bar.open ? " open" : ""}`} data-n=${bar.n} data-call=${bar.call} onClick=${() => pick({ n: bar.n, call: bar.call })}>
    <title>${bar.words}</title>
    <rect x=${bar.x} y=${bar.y} width=${bar.width} height=${bar.height} rx=${Math.min(3, bar.width / 2)} />
    ${bar.text && html`<text x=${Math.max(bar.x, 0) + 6} y=${bar.y + bar.height / 2 + 3.8}>${bar.text}</text>`}</g>`;
}

// Where everything is. Pure.
export function layout(timeline, from, to, now, width) {
  const x = (t) => Math.round(((t - from) / (to - from)) * width * 10) / 10;
  const lane = (name) => timeline?.lanes.find((one) => one.lane === name)?.bars ?? [];
  const seen = (bars) => bars.filter((bar) => bar.from <= to && (bar.to ?? now) >= from);
  const tools = seen(lane("tools"));
  const rows = 1 + tools.reduce((most, bar) => Math.max(most, bar.row), 0);
  const tall = Math.max(5, Math.min(20, Math.floor(200 / rows)));
  const lanes = [
    { name: "Model", y: 6, height: MODEL },
    { name: "Tools", y: 6 + MODEL + GAP, height: rows * (tall + 2) },
  ];
  lanes.push({ name: "Watchdog", y: lanes[1].y + lanes[1].height + GAP, height: MARKS });
  const height = lanes[2].y + MARKS + 24;
  const bars = [
    ...placed(seen(lane("model")), () => lanes[0].y, MODEL, x, now, width, true),
    ...placed(tools, (row) => lanes[1].y + row * (tall + 2), tall, x, now, width),
  ];
  const said = seen(lane("watchdog"));
  bars.push(...placed(said.filter((one) => one.kind === "pause").map((one) => ({ ...one, row: 0 })), () => lanes[2].y + 3, MARKS - 6, x, now, width));
  const marks = [];
  for (const one of said) {
    if (one.kind === "pause") continue;
    const kind = TONES.has(one.kind) ? one.kind : "finding";
    const at = Math.max(7, Math.min(width - 7, x(one.from)));
    // What was made of a finding at once stands for it, too.
    const before = ACTIONS.has(kind) && marks.at(-1)?.kind === "finding" && at - marks.at(-1).x < 4 ? marks.pop() : null;
    const words = `${oneLine(one.label, 200)}: ${oneLine(one.kind, 40)} at ${place(one.from)}`;
    marks.push({ x: at, y: lanes[2].y + MARKS / 2, n: one.n, also: before?.n, kind, words });
  }
  const step = STEPS.find((one) => (to - from) / one <= Math.max(2, width / 110)) ?? 86_400;
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t < to - step * 0.3; t += step) ticks.push({ x: x(t), label: step < 1 ? `${t.toFixed(1)} s` : t < 60 && step < 60 ? `${Math.round(t)} s` : place(t).replace(/\.\d$/, "") });
  return { x, lanes, bars, marks, ticks, height };
}

// A label that fits whole, or enough of it to be told; else none.
const fitting = (text, room) => (text.length <= room ? text : room >= 7 ? `${text.slice(0, room - 1)}…` : "");

function placed(found, y, height, x, now, width, model = false) {
  const last = new Map();
  const bars = [];
  for (const bar of found) {
    const end = bar.to ?? now;
    const left = Math.max(-4, x(bar.from));
    const wide = Math.max(1, Math.min(width + 4, x(end)) - left);
    const kind = model ? (bar.kind === "failed" ? "failed" : "model") : YES[bar.kind] ? "waiting" : TONES.has(bar.kind) ? bar.kind : "finished";
    const before = last.get(bar.row);
    if (before && wide < FINE && before.width < 40 && before.kind === kind && left - (before.x + before.width) < 1) {
      before.width = Math.max(before.width, left + wide - before.x);
      before.many += 1;
      before.words = `${before.many} calls until ${place(end)}`;
      continue;
    }
    const label = oneLine(bar.label, 60);
    const told = model ? duration(end - bar.from) : label;
    const one = {
      x: left, y: y(bar.row), width: wide, height, kind, n: bar.n, call: bar.call || "", open: bar.to == null, many: 1,
      text: height < 12 ? "" : fitting(told, Math.floor((wide - 11) / 6.2)),
      words: `${label}${bar.kind ? ` (${YES[bar.kind] ?? oneLine(bar.kind, 30)})` : ""}, ${place(bar.from)}, ${duration(end - bar.from)}${bar.call ? `, ${oneLine(bar.call, 60)}` : ""}`,
    };
    last.set(bar.row, one);
    bars.push(one);
  }
  return bars;
}
